"""`opsguard ledger resolve`: a person's word on an attempt that looking could not settle."""

from typing import TYPE_CHECKING, Annotated

import typer

from guards.delivery.refusal import LedgerRefused
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.ledger import ledger
from opsguard_defs.cli.ledger_held import NOT_THERE, By, Where, Yes, find_held, only_shown, said_why
from opsguard_defs.cli.ledger_store import StoreOption, opened
from opsguard_defs.cli.ledger_words import attempt_json, refused_exit, show_attempts
from opsguard_defs.cli.options import AsJson, person
from opsguard_defs.cli.output import emit, line
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from guards.delivery.entry import Reservation
    from resources.ledger.interface import Ledger

__all__ = ["ledger", "resolve"]


@ledger.command(
    epilog='Example: opsguard ledger resolve SLOT --not-sent --by "Ada L." --comment "acme has not booked it, ticket 4711" --yes'
)
def resolve(
    where: Where,
    by: By,
    why: Annotated[str, typer.Option("--comment", metavar="TEXT", help="The evidence: who was asked, and what they answered.")],
    sent: Annotated[bool, typer.Option("--sent", help="The other side says that it has it.")] = False,
    not_sent: Annotated[bool, typer.Option("--not-sent", help="The other side says that it never got it.")] = False,
    yes: Yes = False,
    store: StoreOption = "",
    as_json: AsJson = False,
) -> int:
    """Settle an attempt in doubt: sent, and it is never sent again; not sent, and another attempt may be allowed.

    Ask the partner first: nothing takes this back. Exit code 3: the ledger does not allow it, and nothing changed.
    """
    from opsguard_defs.settings import load_settings

    who, evidence = person(by), said_why(why, "who was asked, and what they answered")
    was_sent = _one_of(sent=sent, not_sent=not_sent)
    settings = load_settings()
    found = find_held(settings, store, where)
    if found is None:
        return refused_exit(NOT_THERE, as_json=as_json, also={"held": None, "resolved": None})
    if not as_json:
        show_attempts([found.attempt])
    if not yes:
        what = f"--yes records that it was {'sent' if was_sent else 'not sent'}"
        return only_shown(found, "resolved", what, as_json=as_json)
    with opened(settings, found.place) as held:
        answer = _resolved(held, found.attempt, was_sent=was_sent, who=who, evidence=evidence)
    if isinstance(answer, LedgerRefused):
        return refused_exit(answer, as_json=as_json, also={"held": attempt_json(found.attempt), "resolved": None})
    if as_json:
        emit({"held": attempt_json(found.attempt), "resolved": attempt_json(answer), "refusal": None})
    else:
        line(f"recorded, by {who}: {'sent' if was_sent else 'not sent'}; {_then(answer, was_sent=was_sent)}")
    return Exit.DONE


def _one_of(*, sent: bool, not_sent: bool) -> bool:
    """Nothing takes a resolution back, so of two that contradict each other the last does not win."""
    if sent is not_sent:
        raise ConfigurationError(f"say either --sent or --not-sent{', not both' if sent else ': what the other side says'}")
    return sent


def _resolved(
    held: "Ledger", attempt: "Reservation", *, was_sent: bool, who: str, evidence: str
) -> "Reservation | LedgerRefused":
    """An attempt whose holder is gone is ended first; one whose holder may still be sending is refused."""
    from guards.delivery.outcome import Approval
    from guards.delivery.reservation import ReservationState

    if attempt.state is ReservationState.SENDING:
        ended = held.expire(attempt.reservation_id)
        if isinstance(ended, LedgerRefused):
            return ended
    return held.resolve(
        attempt.reservation_id,
        was_sent=was_sent,
        evidence={"by": who, "comment": evidence, "at": held.now().isoformat()},
        approval=Approval(approval_id=0, approved_by=who),
    )


def _then(answer: "Reservation", *, was_sent: bool) -> str:
    from guards.delivery.entry import may_be_replaced
    from guards.delivery.slot import Kind

    if was_sent:
        return "it is never sent again"
    if answer.slot.rules is Kind.FEED:
        return "the next report plans it again"
    if may_be_replaced(answer):
        return f"another attempt needs a person: `opsguard ledger replace {answer.slot.key}`"
    return f"a {answer.slot.kind} message has no second attempt: it stays unsent"
