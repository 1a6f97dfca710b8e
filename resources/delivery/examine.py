"""The six checks, from a fresh full verification of the ledger."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from guards.check import CheckOutcome
from guards.delivery.checks import (
    chain_valid,
    claims_paired,
    every_delivered_has_a_receipt,
    head_extends_last_published,
    no_stale_sending,
    one_delivery_per_slot,
)
from guards.delivery.entry import Reservation
from guards.delivery.row import Head
from guards.delivery.slot import Slot
from resources.delivery.ledger import every_latest
from resources.ledger.interface import Health, Ledger, Verification
from resources.progress import Progress, silent
from resources.state.errors import Altered


@dataclass(frozen=True, slots=True)
class Examined:
    """`verification.head` is what to publish when every check passed."""

    outcomes: tuple[CheckOutcome, ...]
    verification: Verification
    health: Health


def examine(
    ledger: Ledger,
    *,
    published: Head | None,
    without_receipt: Callable[[], Collection[tuple[str, str]]] = frozenset,
    progress: Progress = silent,
) -> Examined:
    """`published`: the head that was last kept outside the ledger. `without_receipt`: reservation id and run of each call of this
    installation that has no receipt; asked last, since a run may be writing one. Reads everything, changes nothing."""
    progress("verifying the ledger", 0, 2)
    found = ledger.verify()
    progress("reading every slot", 1, 2)
    health = ledger.health()
    proven: list[Reservation] = []
    retried: dict[Slot, tuple[Reservation, ...]] = {}
    unread = ""
    try:
        for latest in every_latest(ledger):
            if latest.state.is_proven_sent:
                proven.append(latest)
            if latest.attempt > 1:
                retried[latest.slot] = ledger.of(latest.slot)
    except Altered as error:
        unread = str(error)
    receipts, doubles = (
        every_delivered_has_a_receipt(proven, without_receipt=without_receipt()),
        one_delivery_per_slot(retried, slots=found.slots),
    )
    if unread:
        receipts, doubles = (
            CheckOutcome(
                one.name, False, f"Not every slot could be read ({unread}): `opsguard ledger verify` names what is wrong."
            )
            for one in (receipts, doubles)
        )
    return Examined(
        outcomes=(
            chain_valid(found.rows, found.faults),
            claims_paired(found.slots, found.faults),
            head_extends_last_published(
                published=published, head=found.head, extends=published is None or ledger.extends(published)
            ),
            no_stale_sending(health.stale_sending, oldest_sending_at=health.oldest_sending_at, now=ledger.now()),
            receipts,
            doubles,
        ),
        verification=found,
        health=health,
    )
