"""Which attempt a person means, in whichever ledger holds it, and the options of the commands that take a person's word."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from guards.delivery.refusal import LedgerCode, LedgerRefused
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.ledger_store import Place, looking, places
from opsguard_defs.cli.ledger_words import attempt_json
from opsguard_defs.cli.options import comment
from opsguard_defs.cli.output import emit, line
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from guards.delivery.entry import Reservation
    from opsguard_defs.settings import Settings

Where = Annotated[str, typer.Argument(metavar="SLOT_OR_RESERVATION", help="customer:period:kind, or a reservation's id.")]
By = Annotated[str, typer.Option("--by", metavar="WHO", help="Who says so. A claim that is recorded, not an identity.")]
Yes = Annotated[bool, typer.Option("--yes", help="Record it; without it what the ledger holds is only shown.")]


@dataclass(frozen=True, slots=True)
class Held:
    """The attempt that is meant (of a slot its latest) and the ledger that holds it."""

    place: Place
    attempt: "Reservation"


NOT_THERE: Final = LedgerRefused(
    LedgerCode.NOT_FOUND, "the ledger holds no such attempt: `opsguard ledger show CUSTOMER` lists them"
)


def said_why(text: str, what: str) -> str:
    said = comment(text).strip()
    if not said:
        raise ConfigurationError(f"--comment must say what this rests on: {what}")
    return said


def only_shown(found: Held, result: str, what: str, *, as_json: bool) -> Exit:
    """Without --yes: what the ledger holds, and what --yes would do. `result` is the key under which its answer would stand."""
    if as_json:
        emit({"held": attempt_json(found.attempt), result: None, "refusal": None})
    else:
        line(what)
    return Exit.DONE


def find_held(settings: "Settings", store: str, where: str) -> Held | None:
    """In every ledger that may hold it, file stores first. Held by more than one: say which with --store."""
    from guards.delivery.slot import NotASlot, parse_slot

    try:
        slot = parse_slot(where) if ":" in where else None
    except NotASlot as error:
        raise ConfigurationError(f"SLOT_OR_RESERVATION: {error}") from None
    found: list[Held] = []
    for place in places(settings, store, kind=slot.kind if slot else ""):
        with looking(settings, place) as held:
            attempts = held.of(slot)[-1:] if slot else filter(None, (held.get(where),))
            found += [Held(place, attempt) for attempt in attempts]
        if found and slot is None:
            break  # a reservation's id is the same wherever its slot is kept, and its kind tells where that is
    if len(found) > 1:
        choices = ", ".join(f"--store {one.place.directory or 'postgres'}" for one in found)
        raise ConfigurationError(f"more than one ledger holds {where[:200]!a}: say which one is meant: {choices}")
    return found[0] if found else None
