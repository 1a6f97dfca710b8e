"""The ledger of one watch, and the questions that this guard asks of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from guards.delivery.entry import Reservation
from guards.delivery.refusal import LedgerRefused
from guards.delivery.slot import Kind, Slot
from resources.delivery.route import DeliveryRoute
from resources.ledger.interface import Ledger
from resources.state import StateStore


@contextmanager
def open_ledger(route: DeliveryRoute, state: StateStore) -> Iterator[Ledger]:
    """The file store of the route, closed afterwards; or the state store's own, which is left open. Opening a file store verifies all of
    it (5 s for 100,000 rows): whoever looks more than once keeps it open."""
    if route.ledger == "postgres":
        yield state.ledger
        return
    from resources.ledger.file.store import FileLedger

    with FileLedger.open(route.ledger_dir) as ledger:
        yield ledger


def ledger_mark(route: DeliveryRoute) -> str:
    """Equal, and not "": nothing was written to the ledger between two looks. "" for one that answers without being verified first."""
    if route.ledger == "postgres":
        return ""
    from resources.ledger.file.peek import mark_of

    return mark_of(route.ledger_dir)


@dataclass(frozen=True, slots=True)
class Holdings:
    """Latest attempts by slot, and the slots whose record cannot be believed, with the reason."""

    latest: Mapping[Slot, Reservation]
    altered: Mapping[Slot, str]


def holdings_of(answers: Mapping[Slot, Reservation | LedgerRefused]) -> Holdings:
    """From the ledger's `latest` and `unfinished`. What another guard reserved there is left out."""
    ours = {slot: held for slot, held in answers.items() if slot.kind != Kind.FEED}
    return Holdings(
        latest={slot: held for slot, held in ours.items() if isinstance(held, Reservation)},
        altered={slot: held.message for slot, held in ours.items() if isinstance(held, LedgerRefused)},
    )


def every_latest(ledger: Ledger) -> Iterator[Reservation]:
    """The latest attempt of every slot, a page at a time, in slot order."""
    page = ledger.snapshot()
    while True:
        yield from page.reservations
        if page.following is None:
            return
        page = ledger.snapshot(after=page.following)
