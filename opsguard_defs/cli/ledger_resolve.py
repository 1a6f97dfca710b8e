"""`opsguard ledger resolve`: a person's word on an attempt that looking could not settle."""

from typing import TYPE_CHECKING, Annotated

import typer

from guards.delivery.refusal import LedgerCode, LedgerRefused
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.ledger import attempt_json, ledger, show_attempts
from opsguard_defs.cli.options import AsJson, comment, person
from opsguard_defs.cli.output import emit, line, say
from opsguard_defs.cli.state_store import open_state
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from guards.delivery.entry import Reservation
    from resources.state import StateStore


@ledger.command(
    epilog='Example: opsguard ledger resolve SLOT --not-sent --by "Ada L." --comment "acme has not booked it, ticket 4711" --yes'
)
def resolve(
    where: Annotated[str, typer.Argument(metavar="SLOT_OR_RESERVATION", help="customer:period:kind, or a reservation's id.")],
    was_sent: Annotated[bool, typer.Option("--sent/--not-sent", help="What the partner says: it has the bytes, or has not.")],
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Who says so.")],
    why: Annotated[str, typer.Option("--comment", metavar="TEXT", help="The evidence: who was asked, and what they answered.")],
    yes: Annotated[bool, typer.Option("--yes", help="Record it; without it what the ledger holds is only shown.")] = False,
    as_json: AsJson = False,
) -> int:
    """Settle an attempt in doubt: sent, and it is never sent again; not sent, and the next plan may send it.

    Ask the partner first: nothing takes this back. Exit code 3: the ledger does not allow it, and nothing changed.
    """
    from opsguard_defs.settings import load_settings

    who, evidence = person(by), comment(why).strip()
    if not evidence:
        raise ConfigurationError("--comment must say what this rests on: who was asked, and what they answered")
    with open_state(load_settings()) as store:
        held = _held(store, where)
        if held is not None and not as_json:
            show_attempts([held])
        if held is not None and not yes:
            if as_json:
                emit({"held": attempt_json(held), "resolved": None, "refusal": None})
            else:
                line(f"--yes records that it was {'sent' if was_sent else 'not sent'}")
            return Exit.DONE
        answer = _resolved(store, held, was_sent=was_sent, who=who, evidence=evidence)
    refused = answer if isinstance(answer, LedgerRefused) else None
    if as_json:
        emit(
            {
                "held": attempt_json(held) if held is not None else None,
                "resolved": None if isinstance(answer, LedgerRefused) else attempt_json(answer),
                "refusal": {"code": str(refused.code), "message": refused.message} if refused else None,
            }
        )
    if refused is not None:
        say(f"{refused.code}: {refused.message}")
        return Exit.REFUSED
    if not as_json:
        then = "it is never sent again" if was_sent else "the next report plans it again"
        line(f"recorded, by {who}: {'sent' if was_sent else 'not sent'}; {then}")
    return Exit.DONE


def _held(store: "StateStore", where: str) -> "Reservation | None":
    """The attempt that is meant: of a slot its latest."""
    from guards.delivery.slot import NotASlot, parse_slot

    if ":" not in where:
        return store.ledger.get(where)
    try:
        attempts = store.ledger.of(parse_slot(where))
    except NotASlot as error:
        raise ConfigurationError(f"SLOT_OR_RESERVATION: {error}") from None
    return attempts[-1] if attempts else None


def _resolved(
    store: "StateStore", held: "Reservation | None", *, was_sent: bool, who: str, evidence: str
) -> "Reservation | LedgerRefused":
    """An attempt whose holder is gone is ended first; one whose holder may still be sending is refused."""
    from guards.delivery.outcome import Approval
    from guards.delivery.reservation import ReservationState

    if held is None:
        return LedgerRefused(LedgerCode.NOT_FOUND, "the ledger holds no such attempt: `opsguard ledger show CUSTOMER` lists them")
    if held.state is ReservationState.SENDING:
        ended = store.ledger.expire(held.reservation_id)
        if isinstance(ended, LedgerRefused):
            return ended
    return store.ledger.resolve(
        held.reservation_id,
        was_sent=was_sent,
        evidence={"by": who, "comment": evidence, "at": store.now().isoformat()},
        approval=Approval(approval_id=0, approved_by=who),
    )
