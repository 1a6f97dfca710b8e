"""The ledger of one watch, and the questions that this guard asks of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from guards.delivery.entry import Reservation
from guards.delivery.refusal import LedgerRefused
from guards.delivery.registry import Registry
from guards.delivery.slot import Kind, Slot
from guards.text import one_line
from resources.delivery.route import DeliveryRoute
from resources.errors import Unreachable
from resources.ledger.interface import Ledger
from resources.ledger.places import is_store
from resources.state import StateStore


@contextmanager
def open_ledger(route: DeliveryRoute, state: StateStore) -> Iterator[Ledger]:
    """The file store of the route, closed afterwards; or the state store's own, which is left open. Opening a file store verifies all of
    it (4 to 7 s for 100,000 rows): whoever looks more than once keeps it open.

    `Unreachable` when a file store is not there and one was: an empty one in its place would have sent nothing yet."""
    if route.ledger == "postgres":
        yield state.ledger
        return
    from resources.ledger.file.store import FileLedger

    known = state.published.of_watch(route.name)
    if known is not None and not is_store(route.ledger_dir):
        raise Unreachable(
            f"the ledger of {route.name} is not in {one_line(str(route.ledger_dir))}: {known.store} was there, with "
            f"{known.head.sequence} rows. Mount its disk or put it back; if it is gone: {accept_command(route.name)}"
        )
    with FileLedger.open(route.ledger_dir, create=known is None) as ledger:
        yield ledger


def accept_command(watch: str) -> str:
    """What a person types who knows what became of the ledger that was there before."""
    return f'`opsguard ledger accept {watch} --by YOU --comment "WHY" --yes`'


def unlike_known(route: DeliveryRoute, state: StateStore, ledger: Ledger, registry: Registry | None = None) -> str:
    """ "" or one sentence: why this may not be the ledger, or not the slots, that earlier runs of this watch kept. Until a person accepts
    it nothing is sent: what was sent already would be due again."""
    known = state.published.of_watch(route.name)
    if known is None:
        return ""
    store = ledger.health().store
    if known.store != store:
        why = f"its ledger was {known.store} with {known.head.sequence} rows, and this is {store}"
    elif not ledger.extends(known.head):
        why = (
            f"{store} does not hold row {known.head.sequence} ({known.head.digest[:12]}), which was published at "
            f"{known.at:%Y-%m-%d %H:%M} UTC: it was cut back, or an older copy was put in its place"
        )
    elif registry is not None and known.slot_identity not in ("", registry.slot_identity.value):
        why = (
            f"the registry's slot_identity was {known.slot_identity} and is {registry.slot_identity.value}, so what was sent counts for "
            "other slots"
        )
    else:
        return ""
    return f"{why}. Put it back, or accept it as it is: {accept_command(route.name)}"


def remember(route: DeliveryRoute, state: StateStore, ledger: Ledger, registry: Registry | None = None, *, run_id: str) -> None:
    """Which ledger this watch keeps, and how far it is: only while it is the one that is known, else the alarm would end by itself."""
    health = ledger.health()
    if health.recovery or unlike_known(route, state, ledger, registry):
        return
    identity = "" if registry is None else registry.slot_identity.value
    state.published.publish(health.store, health.head, run_id=run_id, watch=route.name, slot_identity=identity)


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
