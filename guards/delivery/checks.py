"""The checks of the delivery guard: what a fresh reading of the ledger proves. Never what a call returned.

All pure: what a verification found in, one `CheckOutcome` out. Messages say count, cause and next step.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from guards.canonical import Json
from guards.check import CheckOutcome, Severity
from guards.delivery.entry import Reservation
from guards.delivery.message import message_of, provider_key
from guards.delivery.replay import Fault, FaultKind
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head
from guards.delivery.slot import Slot
from guards.text import count_words, first_of, one_line

MOST_NAMED: Final = 5
VERIFY: Final = "`opsguard ledger verify` lists them all, `opsguard ledger repair` mends what loses nothing"


def chain_valid(rows: int, faults: Sequence[Fault]) -> CheckOutcome:
    """Every row is what this program wrote, in its place. Claims have a check of their own."""
    broken = [fault for fault in faults if fault.kind is not FaultKind.CLAIM]
    if not broken:
        return CheckOutcome("chain_valid", True, f"All {count_words(rows, 'row')} read again: each continues the one before it.")
    return _failed(
        "chain_valid",
        f"{count_words(len(broken), 'fault')} in {count_words(rows, 'row')}: {_faults(broken)}. Nothing is sent where doubt exists, and "
        f"other slots go on. {VERIFY}; rows that were lost come back only from a backup or an export.",
    )


def claims_paired(slots: int, faults: Sequence[Fault]) -> CheckOutcome:
    """Every claim has its reservation and every reservation its claim."""
    unpaired = [fault for fault in faults if fault.kind is FaultKind.CLAIM]
    if not unpaired:
        return CheckOutcome("claims_paired", True, f"{count_words(slots, 'slot')}, each with one claim for its latest attempt.")
    return _failed(
        "claims_paired",
        f"{count_words(len(unpaired), 'claim')} without a reservation or the other way round: {_faults(unpaired)}. Those slots count as "
        f"taken. {VERIFY}: an orphan claim becomes unknown, for you to resolve.",
    )


def head_extends_last_published(*, published: Head | None, head: Head, extends: bool) -> CheckOutcome:
    """`published`: what was last written outside the ledger; `extends`: whether the ledger still holds exactly that row."""
    name = "head_extends_last_published"
    if published is None:
        return CheckOutcome(name, True, f"Nothing was published before; the head is {_head(head)}.")
    if extends:
        return CheckOutcome(name, True, f"The published head {_head(published)} is in the chain, which ends at {_head(head)}.")
    return _failed(
        name,
        f"The ledger ends at {_head(head)} and does not hold the published {_head(published)}: rows were lost, or an older copy was "
        "restored. Messages may have gone out that it knows nothing of: send nothing, and bring back the newest copy or export.",
    )


def no_stale_sending(stale: Collection[Slot], *, oldest_sending_at: datetime | None, now: datetime) -> CheckOutcome:
    """`stale`: `sending`, and the holder is provably gone."""
    name = "no_stale_sending"
    if not stale:
        since = f", the oldest for {_minutes(now, oldest_sending_at)}" if oldest_sending_at else ""
        return CheckOutcome(name, True, f"No message is left in the middle of its call{since}.")
    since = f" since {oldest_sending_at:%Y-%m-%d %H:%M} UTC" if oldest_sending_at else ""
    return _failed(
        name,
        f"{count_words(len(stale), 'message')} left in the middle of the call by a run that ended{since}: {_slots(stale)}. They may have been "
        "sent and are not sent again: turn on the expire sensor, or apply once more; then they are unknown, for evidence or a person.",
    )


def every_delivered_has_a_receipt(
    delivered: Iterable[Reservation], *, without_receipt: Collection[tuple[str, str]] = frozenset()
) -> CheckOutcome:
    """`delivered`: latest attempts that are proven sent. Ours has a receipt about its own key and body; a person's word has evidence.
    `without_receipt`: reservation id and run of calls that the state store has an intent of and no receipt."""
    name = "every_delivered_has_a_receipt"
    seen, wrong = 0, []
    for held in delivered:
        seen += 1
        if problem := _receipt_problem(held, without_receipt):
            wrong.append(f"{held.slot.key} ({problem})")
    if not wrong:
        return CheckOutcome(name, True, f"{count_words(seen, 'message')} proven sent, each with its evidence.")
    return _failed(
        name,
        f"{len(wrong)} of {count_words(seen, 'message')} proven sent without evidence of their own: {_list(wrong)}. Ask the provider or the "
        "recipient, and keep what they say; `opsguard ledger show SLOT` prints what is there.",
    )


def one_delivery_per_slot(attempts: Mapping[Slot, Sequence[Reservation]], *, slots: int) -> CheckOutcome:
    """`attempts`: all attempts of slots that have more than one, oldest first; `slots`: how many slots there are."""
    name = "one_delivery_per_slot"
    doubled, doubtful = [], []
    for slot, tried in attempts.items():
        sent = [one for one in tried if one.state.is_proven_sent or one.is_contradicted]
        if len(sent) > 1:
            doubled.append(slot.key)
        elif sent and sent[0] is not tried[-1]:
            doubtful.append(slot.key)
    if doubled:
        return _failed(
            name,
            f"{len(doubled)} of {count_words(slots, 'slot')} sent more than once: {_list(doubled)}. Tell those customers, and look at every "
            "attempt's evidence: `opsguard ledger show SLOT`.",
        )
    if doubtful:
        return _failed(
            name,
            f"{len(doubtful)} of {count_words(slots, 'slot')} with late evidence that a replaced attempt went out: {_list(doubtful)}. "
            "Do not send them again: `opsguard ledger show SLOT`.",
            Severity.WARN,
        )
    again = f"; {count_words(len(attempts), 'slot')} took more than one attempt" if attempts else ""
    return CheckOutcome(name, True, f"{count_words(slots, 'slot')}, none sent more than once{again}.")


def _receipt_problem(held: Reservation, without_receipt: Collection[tuple[str, str]]) -> str:
    proof: Mapping[str, Json] = held.receipt or held.evidence
    if not proof:
        return "no receipt and no evidence"
    message = message_of(held.pins)
    if message is None or held.state is ReservationState.RESOLVED_SENT:
        return ""
    if proof.get("key") != provider_key(held):
        return "a receipt for another key"
    if proof.get("body_sha256") != message.body_sha256:
        return "a receipt for another body"
    if (held.reservation_id, held.holder) in without_receipt:
        return "no receipt in the state database: recovery writes it"
    return ""


def _failed(name: str, message: str, severity: Severity = Severity.ERROR) -> CheckOutcome:
    return CheckOutcome(name, passed=False, message=message, severity=severity)


def _faults(faults: Sequence[Fault]) -> str:
    return _list([f"{fault.slot.key if fault.slot else f'row {fault.sequence}'} ({one_line(fault.why)})" for fault in faults])


def _slots(slots: Collection[Slot]) -> str:
    return _list([slot.key for slot in sorted(slots)])


def _list(names: Sequence[str]) -> str:
    return first_of(names, MOST_NAMED)


def _head(head: Head) -> str:
    return f"row {head.sequence:,} ({head.digest[:12]})"


def _minutes(now: datetime, since: datetime) -> str:
    return count_words(max(int((now - since).total_seconds()) // 60, 0), "minute")
