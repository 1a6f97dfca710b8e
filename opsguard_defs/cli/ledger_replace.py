"""`opsguard ledger replace|abandon`: one more attempt after one that provably failed; giving up what nobody was granted."""

from typing import TYPE_CHECKING, Annotated

import typer

from guards.delivery.outcome import LONGEST_NOTE, Approval, Reason
from guards.delivery.refusal import LedgerRefused
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.ledger_held import NOT_THERE, By, Where, Yes, find_held, only_shown, said_why
from opsguard_defs.cli.ledger_resolve import ledger
from opsguard_defs.cli.ledger_store import Place, StoreOption, opened
from opsguard_defs.cli.ledger_words import attempt_json, refused_exit, show_attempts
from opsguard_defs.cli.options import AsJson, person
from opsguard_defs.cli.output import emit, line, say
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from guards.delivery.pins import Pins
    from guards.delivery.slot import Slot
    from opsguard_defs.settings import DeliveryWatch, Settings
    from resources.ledger.interface import Ledger

__all__ = ["abandon", "ledger", "replace"]


@ledger.command(epilog='Example: opsguard ledger replace SLOT --by "Ada L." --comment "address corrected, ticket 4712" --yes')
def replace(
    where: Annotated[str, typer.Argument(metavar="SLOT", help="customer:period:kind.")],
    by: By,
    why: Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why another attempt is right.")],
    yes: Yes = False,
    store: StoreOption = "",
    as_json: AsJson = False,
) -> int:
    """Allow one more attempt at a slot whose last attempt provably was not sent. Nothing is sent by this: a plan still decides.

    Only kinds whose failures are believed allow it. Exit code 3: the ledger does not allow it, and nothing changed.
    """
    from opsguard_defs.settings import load_settings

    who, text = person(by), _short(said_why(why, "why another attempt is right"))
    settings = load_settings()
    found = find_held(settings, store, where)
    if found is None:
        return refused_exit(NOT_THERE, as_json=as_json, also={"held": None, "opened": None})
    if not as_json:
        show_attempts([found.attempt])
    if not yes:
        return only_shown(found, "opened", f"--yes opens attempt {found.attempt.attempt + 1}", as_json=as_json)
    slot = found.attempt.slot
    with opened(settings, found.place) as held:
        pins = _pins_now(settings, found.place, held, slot)
        answer = held.replace(
            slot, approval=Approval(approval_id=0, approved_by=who, comment=text), key="ledger-replace", pins=pins
        )
    if isinstance(answer, LedgerRefused):
        return refused_exit(answer, as_json=as_json, also={"held": attempt_json(found.attempt), "opened": None})
    if as_json:
        emit({"held": attempt_json(found.attempt), "opened": attempt_json(answer), "refusal": None})
    else:
        line(f"attempt {answer.attempt} is open (reservation {answer.reservation_id}), by {who}; the next report plans it again")
    return Exit.DONE


@ledger.command(epilog='Example: opsguard ledger abandon SLOT --by "Ada L." --comment "the customer has left" --yes')
def abandon(
    where: Where,
    by: By,
    why: Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why it is given up.")],
    yes: Yes = False,
    store: StoreOption = "",
    as_json: AsJson = False,
) -> int:
    """Give up an attempt that is only prepared: nobody was granted the call. Its slot stays taken, and is never sent.

    Exit code 3: it is not only prepared, and nothing changed.
    """
    from opsguard_defs.settings import load_settings

    note = _short(f"{person(by)}: {said_why(why, 'why it is given up')}")
    settings = load_settings()
    found = find_held(settings, store, where)
    if found is None:
        return refused_exit(NOT_THERE, as_json=as_json, also={"held": None, "abandoned": None})
    if not as_json:
        show_attempts([found.attempt])
    if not yes:
        return only_shown(found, "abandoned", "--yes gives it up; its slot stays taken", as_json=as_json)
    with opened(settings, found.place) as held:
        answer = held.abandon(found.attempt.reservation_id, reason=Reason.WITHDRAWN, note=note)
    if isinstance(answer, LedgerRefused):
        return refused_exit(answer, as_json=as_json, also={"held": attempt_json(found.attempt), "abandoned": None})
    if as_json:
        emit({"held": attempt_json(found.attempt), "abandoned": attempt_json(answer), "refusal": None})
    else:
        line(f"given up: {answer.slot.key} is never sent; tell the customer by hand if they wait for it")
    return Exit.DONE


def _short(text: str) -> str:
    if len(text) > LONGEST_NOTE:
        raise ConfigurationError(f"--comment has {LONGEST_NOTE} characters at most here, with the name in front")
    return text


def _pins_now(settings: "Settings", place: Place, held: "Ledger", slot: "Slot") -> "Pins | None":
    """What the slot would be reserved for now: the reason to replace it is often that registry, route or body were corrected.

    None, the same as before: it is no message, is not owed now, or cannot be looked at.
    """
    from opsguard_defs.cli.ledger_store import watches_of
    from opsguard_defs.cli.state_store import open_state
    from resources.delivery.observe import current_pins
    from resources.errors import Unreachable

    watches: tuple[DeliveryWatch, ...] = watches_of(settings, place)
    for watch in watches:
        try:
            with open_state(settings) as state:
                pins = current_pins(watch.route(), state, held, slot)
        except Unreachable as error:
            say(f"what it would be now cannot be told, so it stays what it was: {error}")
            return None
        if pins is not None:
            return pins
    return None
