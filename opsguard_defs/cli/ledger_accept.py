"""`opsguard ledger accept`: a person says that the ledger which is there now, or how its slots are named now, is a watch's own from now on."""

from typing import TYPE_CHECKING, Annotated

import typer

from guards.text import count_words
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.ledger_held import By, Yes, said_why
from opsguard_defs.cli.ledger_move import ledger
from opsguard_defs.cli.ledger_store import Place, delivery_watches, directory_of, is_absent, looking, opened
from opsguard_defs.cli.ledger_words import head_json
from opsguard_defs.cli.options import AsJson, person
from opsguard_defs.cli.output import emit, line, say
from opsguard_defs.cli.state_store import open_state
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from guards.delivery.registry import Registry
    from opsguard_defs.settings import DeliveryWatch
    from resources.ledger.interface import Ledger
    from resources.state import StateStore
    from resources.state.published import Published

__all__ = ["accept", "ledger"]

_NOT_WHOLE = "it is not whole, so what was open could not be made unknown: `opsguard ledger verify`"


@ledger.command(
    epilog='Example: opsguard ledger accept customers --by "Ada L." --comment "moved to the database, ticket 4713" --yes'
)
def accept(
    watch: Annotated[str, typer.Argument(metavar="WATCH", help="The delivery watch whose ledger it is.")],
    by: By,
    why: Annotated[str, typer.Option("--comment", metavar="TEXT", help="What became of the ledger that was there before.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Accept another ledger, a lost or cut back one, or another slot_identity as a watch's own: until then it sends nothing.

    Unless all that was published is in it, what is open becomes unknown, and so does what was due until now: it may have been sent.
    Exit code 4: the store itself says that it must not send, and nothing was recorded.
    """
    from opsguard_defs.settings import load_settings
    from resources.delivery.registry import RegistryFile

    who, text = person(by), said_why(why, "what became of the ledger that was there before")
    settings = load_settings()
    found = next((one for one in delivery_watches(settings) if one.name == watch), None)
    if found is None:
        names = ", ".join(one.name for one in delivery_watches(settings)) or "none"
        raise ConfigurationError(f"no delivery watch is named {watch[:60]!a}; configured: {names}")
    registry = RegistryFile(found.route().registry).read()
    place = Place(directory_of(settings, found) if found.ledger == "file" else None)
    with open_state(settings) as state:
        known = state.published.of_watch(watch)
        with looking(settings, place) as held:
            unlike, is_whole = _looked_at(found, state, held, registry, known, place)
        if not as_json:
            _show(known, unlike)
        if known is None or not unlike or not yes:
            _not_done(known, unlike, as_json=as_json)
            return Exit.DONE
        with opened(settings, place, create=True) as held:
            is_accepted = is_whole or held.repair(accept_copy=True).is_accepted
            health = held.health()
            why_not = health.recovery or ("" if is_accepted else _NOT_WHOLE)
            if not why_not:
                state.published.accept(
                    watch, health.store, health.head, slot_identity=registry.slot_identity.value, by=who, comment=text
                )
    if as_json:
        head = head_json(health.head)
        emit({"watch": watch, "unlike": unlike, "accepted": not why_not, "store": health.store, "head": head})
    if why_not:
        say(f"nothing was recorded, and nothing is sent from here: {why_not}")
        return Exit.UNPROVEN
    if not as_json:
        line(f"recorded, by {who}: {health.store}, {count_words(health.head.sequence, 'row')}, is the ledger of {watch}")
        if not is_whole:
            line("what was open is unknown, and so will be what was due until now: `opsguard ledger resolve` settles each")
    return Exit.DONE


def _looked_at(
    watch: "DeliveryWatch", state: "StateStore", held: "Ledger", registry: "Registry", known: "Published | None", place: Place
) -> tuple[str, bool]:
    """Why it is not the known one, "" when it is; and whether everything that was published is in it: then it was moved, and nothing
    became doubtful by that."""
    from resources.delivery.ledger import unlike_known

    if is_absent(place):
        return ("there is none: an empty one is made" if known is not None else ""), False
    recovery = held.health().recovery
    unlike = recovery or unlike_known(watch.route(), state, held, registry)
    if known is None or recovery:
        return unlike, False
    same_slots = known.slot_identity in ("", registry.slot_identity.value)
    return unlike, same_slots and known.head.sequence > 0 and held.extends(known.head)


def _show(known: "Published | None", unlike: str) -> None:
    if known is not None:
        accepted = f", accepted by {known.accepted_by}" if known.accepted_by else ""
        line(f"known: {known.store}, {count_words(known.head.sequence, 'row')}, published {words.utc(known.at)}{accepted}")
    if unlike:
        line(f"now: {unlike}")


def _not_done(known: "Published | None", unlike: str, *, as_json: bool) -> None:
    if as_json:
        emit({"unlike": unlike, "accepted": False})
    elif known is None:
        line("nothing was ever published for this watch: there is nothing to accept")
    elif not unlike:
        line("this is the ledger that the watch is known to keep: there is nothing to accept")
    else:
        line("--yes records that it is this watch's ledger from now on")
