"""The ledger of one watch, and the questions that this guard asks of it."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from guards.delivery.entry import Reservation
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Kind, Slot
from resources.delivery.route import DeliveryRoute
from resources.ledger.interface import Ledger
from resources.state import StateStore
from resources.state.errors import Altered

OPEN_STATES = (ReservationState.PREPARED, ReservationState.SENDING, ReservationState.UNKNOWN)


@contextmanager
def open_ledger(route: DeliveryRoute, state: StateStore) -> Iterator[Ledger]:
    """The file store of the route, closed afterwards; or the state store's own, which is left open."""
    if route.ledger == "postgres":
        yield state.ledger
        return
    from resources.ledger.file.store import FileLedger

    with FileLedger.open(route.ledger_dir) as ledger:
        yield ledger


@dataclass(slots=True)
class Holdings:
    """Latest attempts by slot, and the slots whose record cannot be believed, with the reason."""

    latest: dict[Slot, Reservation] = field(default_factory=dict)
    altered: dict[Slot, str] = field(default_factory=dict)


def holdings_of(ledger: Ledger, slots: Collection[Slot]) -> Holdings:
    """What is held for these slots, one question per customer and length of period. One altered slot hides no other."""
    held = Holdings()
    for customer, periods in _periods(slots).items():
        for wanted in periods.values():
            try:
                for each in ledger.history_of(customer, wanted):
                    held.latest[each.slot] = each  # oldest first: the last one stays
            except Altered:
                _one_by_one(ledger, [slot for slot in slots if slot.customer == customer and slot.period in wanted], held)
    asked = set(slots)
    held.latest = {slot: each for slot, each in held.latest.items() if slot in asked}
    return held


def _one_by_one(ledger: Ledger, slots: Collection[Slot], held: Holdings) -> None:
    for slot in slots:
        try:
            attempts = ledger.of(slot)
        except Altered as error:
            held.altered[slot] = str(error)
        else:
            if attempts:
                held.latest[slot] = attempts[-1]


def open_reservations(ledger: Ledger, *, known: Collection[Reservation] = ()) -> Mapping[Slot, Reservation]:
    """Every message whose latest attempt is prepared, sending or unknown. The whole ledger is walked only when its counts say that there
    are more than those `known`. `Altered` pages are left out here: their slots show up when they are asked for, and in `verify`."""
    counts = ledger.counts()
    found = {each.slot: each for each in known if each.state in OPEN_STATES}
    if sum(counts.get(state.value, 0) for state in OPEN_STATES) <= len(found):
        return found
    try:
        for each in every_latest(ledger):
            if each.state in OPEN_STATES and each.slot.kind != Kind.FEED:
                found[each.slot] = each
    except Altered:
        return found
    return found


def every_latest(ledger: Ledger) -> Iterator[Reservation]:
    """The latest attempt of every slot, a page at a time, in slot order."""
    page = ledger.snapshot()
    while True:
        yield from page.reservations
        if page.following is None:
            return
        page = ledger.snapshot(after=page.following)


def _periods(slots: Collection[Slot]) -> dict[str, dict[int, set[str]]]:
    found: dict[str, dict[int, set[str]]] = {}
    for slot in slots:
        found.setdefault(slot.customer, {}).setdefault(len(slot.period), set()).add(slot.period)
    return found
