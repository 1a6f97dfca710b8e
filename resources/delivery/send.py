"""One message: recheck, reserve, look once more whether a reminder is needed, grant, call, settle, receipt. In one go, never again.

A crash before the grant leaves `prepared`: nobody called, and the next plan goes on with it. A crash after it leaves `sending`, which
recovery makes `unknown`. Between grant and answer there is one call of the provider, and nothing here or below tries it twice. While it
lasts the run's lease is kept alive; whatever the provider answers reaches the ledger before anything else is asked.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar, assert_never

from guards.canonical import Json
from guards.delivery import outcome as settled
from guards.delivery.bodies import Body
from guards.delivery.entry import Reservation
from guards.delivery.evidence import CheckIns, EvidenceUnreadable
from guards.delivery.judge import wanted_pins
from guards.delivery.lapse import Lapse, Lapsed, lapse
from guards.delivery.message import message_of, provider_key
from guards.delivery.outcome import LONGEST_NOTE, Approval, Reason
from guards.delivery.pins import Pins
from guards.delivery.planning import GUARD, DeliveryTarget
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.registry import Provider
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Grant, Kind
from guards.delivery.standing import uncovered
from guards.delivery.world import DeliveryWorld
from guards.gate import Authorization
from guards.plan import plan_scope_key
from guards.receipt import Receipt
from guards.text import one_line
from resources.declining import stopped_by
from resources.delivery.asking import message_for, receipt_for
from resources.delivery.keeping import kept_alive
from resources.delivery.observe import Observer
from resources.delivery.sent import Outcome, Sent, sent_of
from resources.delivery.steps import Moment, Step, Watcher, nobody
from resources.errors import OutcomeUnknown, Unreachable
from resources.ledger.interface import Ledger
from resources.providers.interface import Accepted, Ambiguous, Answer, Rejected
from resources.providers.interface import Provider as Opened
from resources.pulse import Pulse
from resources.state import StateStore
from resources.state.errors import LeaseLost

logger = logging.getLogger(__name__)

ACTION: Final = "send"
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """What one authorised run holds while it sends. Its fence is checked before every call."""

    state: StateStore
    ledger: Ledger
    observer: Observer
    providers: Mapping[Provider, Opened]
    authorization: Authorization
    pulse: Pulse
    by_standing: bool = False
    """A standing approval decided, and may be revoked while this runs."""
    watcher: Watcher = nobody

    def step(self, step: Step, target: DeliveryTarget, work: Callable[[], Result]) -> Result:
        if step is not Step.SETTLE:  # a run that has lost its place still tells the ledger what the provider said
            self.pulse()
        self.watcher(step, Moment.BEFORE, target.subject)
        result = work()
        self.watcher(step, Moment.AFTER, target.subject)
        return result


def send(sending: Sending, target: DeliveryTarget) -> Sent:
    """Raises `LeaseLost` when another run has this one's place, and `Unreachable` when a store cannot be used: then nothing more is
    known than what the ledger holds."""
    pins = sending.step(Step.RECHECK, target, lambda: _recheck(sending, target))
    if isinstance(pins, Sent):
        return pins
    held = sending.step(Step.RESERVE, target, lambda: _reserve(sending, target, pins))
    if isinstance(held, Sent):
        return held
    unneeded = sending.step(Step.EVIDENCE, target, lambda: _unneeded(sending, target, held))
    if unneeded is not None:
        return unneeded
    intent = sending.state.intend(
        sending.authorization, subject=target.subject, step=Step.CALL, detail={"reservation": held.reservation_id}
    )
    grant = sending.step(Step.GRANT, target, lambda: _grant(sending, target, held))
    if isinstance(grant, Sent):
        sending.state.outcome(sending.authorization, intent, {"result": "not granted"})
        return grant
    answer = _call(sending, target, held, grant)
    if isinstance(answer, Sent):
        sending.state.outcome(sending.authorization, intent, {"result": "not called"})
        return answer
    sent = replace(sending.step(Step.SETTLE, target, lambda: _settle(sending, target, held, grant, answer)), was_called=True)
    sending.state.outcome(sending.authorization, intent, {"result": sent.outcome.value})
    return sent


def lapsed(target: DeliveryTarget, how: Lapse, sending: Sending) -> Sent:
    """What a target that is not sent any more amounts to; nothing is written, but for a receipt that a crash of this run prevented."""
    match how.how:
        case Lapsed.CLOSED:
            return sent_of(target, Outcome.CLOSED, f"not sent: {how.why}")
        case Lapsed.SUPPRESSED:
            return sent_of(target, Outcome.SUPPRESSED, f"no reminder is needed: {how.why}")
        case Lapsed.TAKEN:
            return _taken(target, how, sending)
        case _:
            assert_never(how.how)


def _taken(target: DeliveryTarget, how: Lapse, sending: Sending) -> Sent:
    held = sending.ledger.latest([target.slot]).get(target.slot)
    if not isinstance(held, Reservation) or held.pins.digest != target.pins_sha256:
        return sent_of(target, Outcome.STALE, f"not sent: {how.why}")
    if held.state is ReservationState.DELIVERED and held.holder == sending.authorization.holder:
        receipt = _receipt(sending, target, held, held.receipt)
        return sent_of(target, Outcome.ALREADY_SENT, "sent earlier in this run", held=held, receipt=receipt)
    if held.state.is_proven_sent:
        return sent_of(target, Outcome.ALREADY_SENT, f"not sent again: {how.why}", held=held)
    if held.state.is_unresolved:
        return sent_of(target, Outcome.UNKNOWN, f"not sent again: {how.why}", held=held)
    return sent_of(target, Outcome.FAILED, f"not sent: {how.why}", held=held)


def _recheck(sending: Sending, target: DeliveryTarget) -> Pins | Sent:
    """Fresh facts about this one target, and from them the pins; never those of the plan."""
    if said_no := stopped_by(sending.state, sending.authorization):
        return sent_of(target, Outcome.STALE, f"not sent: {said_no} declined the plan after it was approved")
    world = sending.observer.of([target.slot])
    if how := lapse(target, world):
        return lapsed(target, how, sending)
    for requirement in target.requirements:
        mismatch = requirement.check(world)
        if mismatch is not None:
            return sent_of(target, Outcome.STALE, f"not sent, report again. {mismatch.sentence()}")
    if sending.by_standing and target.slot in world.declined:
        return sent_of(target, Outcome.STALE, f"not sent: {world.declined[target.slot]} declined a plan with it")
    if sending.by_standing and uncovered(world.standing, [target.slot], watch=world.watch, now=world.now):
        return sent_of(target, Outcome.STALE, "not sent: the standing approval was revoked or ended")
    pins = _pins(sending, target, world)
    if pins.digest != target.pins_sha256:
        return sent_of(
            target, Outcome.STALE, "not sent, report again: it would be pinned to something else than what was approved"
        )
    return pins


def _pins(sending: Sending, target: DeliveryTarget, world: DeliveryWorld) -> Pins:
    owed = world.owed_by_slot[target.slot]
    body = world.bodies[target.slot]
    assert isinstance(body, Body)  # or the requirement had not held
    return wanted_pins(world, sending.observer.policy, owed, body)


def _reserve(sending: Sending, target: DeliveryTarget, pins: Pins) -> Reservation | Sent:
    held = sending.ledger.reserve(
        target.slot,
        pins,
        key=sending.authorization.holder,
        not_before=target.due_at,
        not_after=target.closes_at,
        approval=Approval.of(sending.authorization),
    )
    if isinstance(held, LedgerRefused):
        outcome = Outcome.CLOSED if held.code is LedgerCode.OUTSIDE_WINDOW else Outcome.FAILED
        return sent_of(target, outcome, f"the ledger did not reserve it ({held.code}): {held.message}")
    if held.state is not ReservationState.PREPARED:
        return lapsed(target, Lapse(Lapsed.TAKEN, f"the ledger holds attempt {held.attempt}, {held.state}"), sending)
    return held


def _unneeded(sending: Sending, target: DeliveryTarget, held: Reservation) -> Sent | None:
    """A reminder whose check-in has arrived meanwhile is given up, while nobody was granted anything."""
    if target.slot.kind != Kind.REMINDER:
        return None
    check_ins = sending.observer.check_ins(sending.ledger.now())
    match check_ins:
        case EvidenceUnreadable(why):
            return sent_of(target, Outcome.STALE, f"not sent, and reserved until it can be told: {why}", held=held)
        case CheckIns():
            arrived = check_ins.on(target.slot.customer, target.local_date, target.zone)
        case _:
            assert_never(check_ins)
    if arrived is None:
        return None
    note = f"a check-in arrived at {arrived.at:%Y-%m-%d %H:%M:%S %Z}"
    given_up = sending.ledger.abandon(held.reservation_id, reason=Reason.TERMINAL_RESPONSE, note=note)
    if isinstance(given_up, LedgerRefused):
        return sent_of(
            target,
            Outcome.FAILED,
            f"not sent, and not given up ({given_up.code}): {given_up.message}",
            held=held,
        )
    return sent_of(target, Outcome.SUPPRESSED, f"no reminder is needed: {note}", held=held)


def _grant(sending: Sending, target: DeliveryTarget, held: Reservation) -> Grant | Sent:
    """An error here means: do not call. The row may be `sending`, and recovery ends it."""
    sending.state.require_live(sending.authorization)
    granted = sending.ledger.grant(held.reservation_id, authorization=sending.authorization, not_after=target.closes_at)
    if isinstance(granted, LedgerRefused):
        if granted.code is LedgerCode.ILLEGAL_EDGE:  # not prepared any more
            return lapsed(target, Lapse(Lapsed.TAKEN, granted.message), sending)
        outcome = Outcome.CLOSED if granted.code is LedgerCode.OUTSIDE_WINDOW else Outcome.FAILED
        return sent_of(
            target,
            outcome,
            f"not sent: the ledger did not grant the call ({granted.code}): {granted.message}",
            held=held,
        )
    return granted


def _call(sending: Sending, target: DeliveryTarget, held: Reservation, grant: Grant) -> Answer | Sent:
    """The one call, of what the ledger holds. Our own place and the window are checked at the last moment: else nothing goes out."""
    pinned = message_of(held.pins)
    assert pinned is not None  # we made these pins
    provider = sending.providers.get(pinned.route.provider)
    if provider is None:
        return Rejected("not_configured", f"the settings have no {pinned.route.provider}: nothing was contacted")
    try:
        sending.state.require_live(sending.authorization)
    except LeaseLost:
        why = "the run lost its lease between grant and call: the provider was not called, and nothing went out"
        sending.ledger.settle(grant, settled.abandoned(Reason.WITHDRAWN, why))
        raise
    if sending.ledger.now() >= target.closes_at:
        why = f"its window closed at {target.closes_at:%Y-%m-%d %H:%M} UTC, between grant and call: the provider was not called"
        return _told(sending, target, held, grant, settled.abandoned(Reason.STALE, why), Outcome.CLOSED, f"not sent: {why}")
    sender = provider.writer(sending.authorization, scope=plan_scope_key(GUARD, sending.observer.route.name))
    sending.watcher(Step.CALL, Moment.BEFORE, target.subject)
    try:
        with kept_alive(sending.pulse):
            answer = sender.send(message_for(pinned), key=provider_key(held))
    except Exception as error:
        logger.exception("calling %s for %s", provider.name, target.subject)
        answer = Ambiguous(f"the call ended with {type(error).__name__}")
    sending.watcher(Step.CALL, Moment.AFTER, target.subject)
    return answer


def _settle(sending: Sending, target: DeliveryTarget, held: Reservation, grant: Grant, answer: Answer) -> Sent:
    match answer:
        case Accepted(said):
            receipt = receipt_for(held, said)
            return _told(sending, target, held, grant, settled.delivered(receipt), Outcome.SENT, "sent", receipt)
        case Rejected(code, why):
            note = one_line(f"{code}: {why}", limit=LONGEST_NOTE)
            if held.may_fail_known:
                said_no = settled.known_failure(Reason.REJECTED, note)
                return _told(sending, target, held, grant, said_no, Outcome.FAILED, f"the provider did not take it ({note})")
            doubt = settled.unknown(Reason.REJECTED, note)
            return _told(
                sending,
                target,
                held,
                grant,
                doubt,
                Outcome.UNKNOWN,
                f"the provider said no ({note}), which is doubt for this kind",
            )
        case Ambiguous(why):
            note = one_line(why, limit=LONGEST_NOTE)
            return _told(
                sending,
                target,
                held,
                grant,
                settled.unknown(Reason.NO_ANSWER, note),
                Outcome.UNKNOWN,
                f"it may have been sent: {note}",
            )
        case _:
            assert_never(answer)


def _told(
    sending: Sending,
    target: DeliveryTarget,
    held: Reservation,
    grant: Grant,
    outcome: settled.Outcome,
    means: Outcome,
    message: str,
    receipt: Mapping[str, Json] | None = None,
) -> Sent:
    """The ledger is told. When it does not take our word, the message is in doubt, whatever the provider said."""
    try:
        answer = sending.ledger.settle(grant, outcome)
    except (OutcomeUnknown, Unreachable) as error:
        return sent_of(target, Outcome.UNKNOWN, f"{message}, and the ledger could not be told: {error}", held=held)
    if isinstance(answer, LedgerRefused):
        sending.state.require_live(sending.authorization)
        return sent_of(
            target,
            Outcome.UNKNOWN,
            f"{message}, and the ledger refused our word ({answer.code}): {answer.message}",
            held=held,
        )
    if receipt is None:
        return sent_of(target, means, message, held=held)
    kept = sending.step(Step.RECEIPT, target, lambda: _receipt(sending, target, held, receipt))
    return sent_of(target, means, message, held=held, receipt=kept)


def _receipt(sending: Sending, target: DeliveryTarget, held: Reservation, receipt: Mapping[str, Json]) -> Receipt:
    authorization = sending.authorization
    return sending.state.add_receipt(
        authorization,
        Receipt(
            guard=GUARD,
            watch=sending.observer.route.name,
            plan_digest=authorization.plan_digest,
            approval_id=authorization.approval_id,
            approved_by=authorization.approved_by,
            run_id=authorization.holder,
            subject=target.subject,
            action=ACTION,
            size_bytes=target.size_bytes,
            sha256=target.body_sha256,
            evidence={**receipt, "reservation": held.reservation_id, "attempt": held.attempt},
        ),
    )
