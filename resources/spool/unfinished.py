"""An attempt that nobody finished: look at what it left, and let the ledger say what that proves. Nothing is sent here."""

from guards.canonical import Json
from guards.delivery.entry import Reservation
from guards.delivery.outcome import Approval
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.spool.planning import SpoolTarget, load_partner_copy
from guards.spool.resolution import Resolution, resolve
from guards.spool.world import PartnerCopy
from resources.errors import OutcomeUnknown, Unreachable
from resources.spool.ours import ASIDE, OurName, clear_away, put_back, remove_aside
from resources.spool.place import Placed
from resources.spool.sent import Outcome, Sent, sent_of
from resources.spool.steps import Step
from resources.spool.traces import look_for_traces
from resources.spool.writing import Writing
from resources.state.journal import JournalRow


def settle_unfinished(writing: Writing, target: SpoolTarget, held: Reservation) -> Sent:
    ledger = writing.state.ledger
    if held.state.is_proven_sent:
        return sent_of(target, Outcome.ALREADY_DELIVERED, f"the ledger already says {held.state}")
    if held.state is ReservationState.SENDING:
        expired = ledger.expire(held.reservation_id)
        if isinstance(expired, LedgerRefused):
            return sent_of(target, Outcome.UNKNOWN, f"the ledger did not end the attempt ({expired.code}): {expired.message}")
        held = expired
    if held.state is not ReservationState.UNKNOWN:
        return sent_of(target, Outcome.NOT_SENT, f"the ledger says {held.state}: the next report plans it again")
    trail = _trail(writing, target, held)
    placing = [row for row in trail if row.step == Step.PLACE]
    copies = [OurName(str(row.detail["temp"]), row.intent_id) for row in trail if row.step == Step.UPLOAD and row.is_open]
    asides = [OurName(str(row.detail["aside"]), row.intent_id) for row in trail if row.step == ASIDE and row.is_open]
    try:
        traces, final = look_for_traces(
            writing,
            target,
            temp=_temp(trail),
            placing_intended=bool(placing),
            renamed=_renamed(placing),
            in_place=_in_place(placing),
            replaces=_replaces(placing),
        )
    except (Unreachable, OutcomeUnknown) as error:
        writing.sessions.partner.renew()
        return sent_of(target, Outcome.UNKNOWN, f"the partner could not be looked at: {error}")
    resolved = resolve(traces)
    if resolved.resolution is Resolution.CANNOT_TELL:
        return sent_of(target, Outcome.UNKNOWN, resolved.why)
    was_sent = resolved.resolution is Resolution.SENT
    evidence: dict[str, Json] = {
        "why": resolved.why,
        "partner_copy": final.as_json(),
        "temporary_copy_present": traces.temp_present,
        "consumed": was_sent and final.entry is None,
    }
    left = _tidy_asides(writing, target, asides, was_sent=was_sent)
    settled = ledger.resolve(
        held.reservation_id, was_sent=was_sent, evidence=evidence, approval=Approval.of(writing.authorization)
    )
    if isinstance(settled, LedgerRefused):
        return sent_of(target, Outcome.UNKNOWN, f"the ledger refused to resolve it ({settled.code}): {settled.message}")
    for copy in copies:
        clear_away(writing, copy)
    if not was_sent:
        return sent_of(target, Outcome.NOT_SENT, f"proven not sent ({resolved.why}){left}: the next report plans it again")
    receipt = writing.receipt(target, action="resolve", evidence={**evidence, "reservation": held.reservation_id})
    return sent_of(target, Outcome.ALREADY_DELIVERED, f"proven sent: {resolved.why}{left}", receipt=receipt)


def _tidy_asides(writing: Writing, target: SpoolTarget, asides: list[OurName], *, was_sent: bool) -> str:
    """Before the ledger is told: while it does not know, the next run looks for them."""
    left = [remove_aside(writing, aside) if was_sent else put_back(writing, target.name, aside) for aside in asides]
    return "".join(f"; {problem}" for problem in left if problem)


def _trail(writing: Writing, target: SpoolTarget, held: Reservation) -> list[JournalRow]:
    rows = writing.state.journal(guard="spool", watch=writing.route.name, subject=target.name)
    return [row for row in rows if row.detail.get("reservation") == held.reservation_id]


def _temp(trail: list[JournalRow]) -> str:
    return next((str(row.detail["temp"]) for row in reversed(trail) if row.step == Step.UPLOAD), "")


def _renamed(placing: list[JournalRow]) -> bool:
    """The server's yes to the rename was written down before the attempt ended."""
    return any(row.outcome is not None and row.outcome.get("result") == Placed.CLEAN for row in placing) and not _in_place(
        placing
    )


def _in_place(placing: list[JournalRow]) -> bool:
    return any(row.detail.get("in_place") is True for row in placing)


def _replaces(placing: list[JournalRow]) -> PartnerCopy | None:
    """What the attempt itself was to replace; what the partner holds now may be something else."""
    return load_partner_copy(placing[-1].detail.get("replaces")) if placing else None
