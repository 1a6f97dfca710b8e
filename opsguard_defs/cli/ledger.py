"""`opsguard ledger`: what may never happen twice, and how far each attempt got. These commands read; `ledger_resolve` writes."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from guards.text import count_words
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line, say, table
from opsguard_defs.cli.state_store import open_state
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from guards.delivery.entry import Reservation

ledger = typer.Typer(
    help="The ledger of everything that may happen only once.", no_args_is_help=True, epilog="Example: opsguard ledger verify"
)


@ledger.command(epilog="Example: opsguard ledger status")
def status(as_json: AsJson = False) -> int:
    """Slots by the state of their latest attempt, and the head of the chain."""
    from opsguard_defs.settings import load_settings

    with open_state(load_settings()) as store:
        counts, head = store.ledger.counts(), store.ledger.head()
    if as_json:
        emit({"counts": counts, "head": {"sequence": head.sequence, "digest": head.digest}})
        return Exit.DONE
    line(f"slots: {', '.join(f'{number} {state}' for state, number in counts.items()) or 'none yet'}")
    line(f"chain: {count_words(head.sequence, 'row')}, head {head.digest}")
    if doubtful := counts.get("unknown", 0) + counts.get("sending", 0):
        line(
            f"{count_words(doubtful, 'slot')} unresolved: a report looks at each and says what it found; what stays in doubt a person settles: `opsguard ledger resolve`"
        )
    return Exit.DONE


@ledger.command(epilog="Example: opsguard ledger show partner-0123456789abcdef:0123456789abcdef-ab12:feed")
def show(
    slot: Annotated[
        str, typer.Argument(metavar="SLOT", help="customer:period:kind; or the customer alone for all of its slots.")
    ],
    as_json: AsJson = False,
) -> int:
    """Every attempt at one slot (or of one customer), oldest first."""
    from guards.delivery.slot import NotASlot, parse_slot
    from opsguard_defs.settings import load_settings

    try:
        wanted = parse_slot(slot) if ":" in slot else None
    except NotASlot as error:
        raise ConfigurationError(f"SLOT: {error}") from None
    with open_state(load_settings()) as store:
        attempts = store.ledger.of(wanted) if wanted else store.ledger.history(slot)
    if as_json:
        for attempt in attempts:
            emit(attempt_json(attempt))
    elif not attempts:
        line("the ledger holds no attempt at that")
    else:
        show_attempts(attempts)
    return Exit.DONE


@ledger.command(epilog="Example: opsguard ledger verify")
def verify(as_json: AsJson = False) -> int:
    """Check the whole chain from its first row. Needed once after `opsguard state restore`. Exit code 5 when it is not whole."""
    from opsguard_defs.settings import load_settings

    with open_state(load_settings()) as store:
        found = store.ledger.verify()
    if as_json:
        head = {"sequence": found.head.sequence, "digest": found.head.digest}
        emit(
            {
                "rows": found.rows,
                "slots": found.slots,
                "head": head,
                "faults": [{"kind": str(f.kind), "sequence": f.sequence, "why": f.why} for f in found.faults],
            }
        )
    else:
        line(f"{count_words(found.rows, 'row')}, {count_words(found.slots, 'slot')}, head {found.head.digest}")
    for fault in found.faults:
        say(f"row {fault.sequence}: {fault.kind}: {fault.why}")
    return Exit.NOT_OBSERVED if found.faults else Exit.DONE


def show_attempts(attempts: "Iterable[Reservation]") -> None:
    rows = [
        (
            words.utc(a.changed_at),
            a.state,
            a.attempt,
            a.pins.facts.get("name", ""),
            a.holder,
            a.slot.key,
            a.note or a.reason or "",
        )
        for a in attempts
    ]
    table(("when", "state", "attempt", "name", "holder", "slot", "why"), rows, right=("attempt",))


def attempt_json(attempt: "Reservation") -> dict[str, Any]:
    return {
        "slot": attempt.slot.key,
        "attempt": attempt.attempt,
        "reservation_id": attempt.reservation_id,
        "state": str(attempt.state),
        "name": attempt.pins.facts.get("name", ""),
        "holder": attempt.holder,
        "fence": attempt.fence,
        "opened_at": attempt.opened_at,
        "changed_at": attempt.changed_at,
        "reason": str(attempt.reason or ""),
        "note": attempt.note,
        "receipt": attempt.receipt,
        "evidence": attempt.evidence,
    }
