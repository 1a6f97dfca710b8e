"""The edge table of the specification, through the calls: each call on a slot in each state, on every store.

The table below is written from the specification, not from `EDGES`: the two are compared.
"""

from collections.abc import Callable

import pytest

from guards.delivery.outcome import Reason, abandoned, delivered, known_failure, unknown
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import EDGES
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Grant, Slot
from resources.ledger.interface import Ledger
from tests.ledgers.builders import EVIDENCE, KIM, LEE, OTHER_PINS, PINS, RECEIPT, brought_to, feed, imagined

Call = Callable[[Ledger, Grant], object]

CALLS: dict[str, Call] = {
    "reserve": lambda ledger, grant: ledger.reserve(grant.slot, PINS, key="run-2"),
    "reserve_something_else": lambda ledger, grant: ledger.reserve(grant.slot, OTHER_PINS, key="run-2"),
    "grant": lambda ledger, grant: ledger.grant(grant.reservation_id, holder="run-2"),
    "settle_delivered": lambda ledger, grant: ledger.settle(grant, delivered(RECEIPT)),
    "settle_known_failure": lambda ledger, grant: ledger.settle(grant, known_failure(Reason.REJECTED)),
    "settle_unknown": lambda ledger, grant: ledger.settle(grant, unknown(Reason.NO_ANSWER)),
    "settle_abandoned": lambda ledger, grant: ledger.settle(grant, abandoned(Reason.WITHDRAWN)),
    "expire": lambda ledger, grant: ledger.expire(grant.reservation_id),
    "abandon": lambda ledger, grant: ledger.abandon(grant.reservation_id, reason=Reason.TERMINAL_RESPONSE),
    "resolve_sent": lambda ledger, grant: ledger.resolve(grant.reservation_id, was_sent=True, evidence=EVIDENCE, approval=KIM),
    "resolve_not_sent": lambda ledger, grant: ledger.resolve(
        grant.reservation_id, was_sent=False, evidence=EVIDENCE, approval=KIM
    ),
    "replace": lambda ledger, grant: ledger.replace(grant.slot, approval=LEE, key="run-2"),
    "audit": lambda ledger, grant: ledger.audit(grant.reservation_id),
    "reconcile": lambda ledger, grant: ledger.reconcile(grant.reservation_id, receipt=RECEIPT),
}
NEXT_ATTEMPT = "another attempt"
BY_DEFAULT: dict[str, object] = {
    "reserve": None,
    "reserve_something_else": C.PIN_CONFLICT,
    "grant": C.ILLEGAL_EDGE,
    "settle_delivered": C.STALE_GRANT,
    "settle_known_failure": C.STALE_GRANT,
    "settle_unknown": C.STALE_GRANT,
    "settle_abandoned": C.STALE_GRANT,
    "expire": C.ILLEGAL_EDGE,
    "abandon": C.ILLEGAL_EDGE,
    "resolve_sent": C.ILLEGAL_EDGE,
    "resolve_not_sent": C.ILLEGAL_EDGE,
    "replace": C.ILLEGAL_EDGE,
    "audit": C.ILLEGAL_EDGE,
    "reconcile": C.RECEIPT_CONFLICT,
}
"""For every state that the table below does not name. None: the stored reservation is answered, and nothing changes."""
ELSE: dict[S | None, dict[str, object]] = {
    None: {
        **dict.fromkeys(CALLS, C.NOT_FOUND),
        "reserve": S.PREPARED,
        "reserve_something_else": S.PREPARED,
    },
    S.PREPARED: {
        "grant": S.SENDING,
        "abandon": S.ABANDONED,
        "reconcile": S.RESOLVED_SENT,
    },
    S.SENDING: {
        "grant": C.BUSY,
        "settle_delivered": S.DELIVERED,
        "settle_known_failure": S.KNOWN_FAILURE,
        "settle_unknown": S.UNKNOWN,
        "settle_abandoned": S.ABANDONED,
        "expire": C.LIVE,
        "reconcile": S.DELIVERED,
    },
    S.DELIVERED: {
        "settle_delivered": None,
        "audit": S.SENT_AUDITED,
        "reconcile": None,
    },
    S.SENT_AUDITED: {
        "audit": None,
        "reconcile": None,
    },
    S.KNOWN_FAILURE: {
        "settle_known_failure": None,
        "replace": NEXT_ATTEMPT,
    },
    S.UNKNOWN: {
        "settle_unknown": None,
        "expire": None,
        "resolve_sent": S.RESOLVED_SENT,
        "resolve_not_sent": S.RESOLVED_NOT_SENT,
        "reconcile": S.RESOLVED_SENT,
    },
    S.ABANDONED: {
        "settle_abandoned": None,
        "abandon": None,
    },
    S.RESOLVED_SENT: {
        "resolve_sent": None,
    },
    S.RESOLVED_NOT_SENT: {
        "resolve_not_sent": None,
        "replace": NEXT_ATTEMPT,
    },
}
THROUGH_UNKNOWN = (S.PREPARED, "reconcile")
"""One call, two rows: the only edge out of `prepared` into `unknown`."""
LEAVES_A_TRACE = (C.STALE_GRANT, C.RECEIPT_CONFLICT)


def expected(state: S | None, call: str) -> object:
    return ELSE[state].get(call, BY_DEFAULT[call])


def slot_of(call: str) -> Slot:
    return feed(call.replace("_", "-"))


@pytest.mark.parametrize("state", [None, *S], ids=lambda state: state or "free")
def test_each_call_on_a_slot_in_this_state(world, state):
    ledger, looking = world.open(), world.open()
    for call, act in CALLS.items():
        slot = slot_of(call)
        grant = brought_to(ledger, state, slot) if state is not None else imagined(slot)
        before, rows = world.content(), ledger.head().sequence
        answer = act(ledger, grant)
        wanted, attempts = expected(state, call), looking.of(slot)
        added = ledger.head().sequence - rows
        match wanted:
            case None:
                assert answer == attempts[-1], call
                assert (attempts[-1].state, world.content()) == (state, before), call
            case C():
                assert isinstance(answer, LedgerRefused), (call, answer)
                assert answer.code is wanted, (call, answer)
                assert [each.state for each in attempts] == ([state] if state else []), call
                assert added == (wanted in LEAVES_A_TRACE), call
                assert wanted in LEAVES_A_TRACE or world.content() == before, call
                if wanted in LEAVES_A_TRACE:
                    assert act(ledger, grant).code is wanted
                    assert ledger.head().sequence == rows + 1, f"{call}: the same said twice is kept once"
            case S():
                assert isinstance(answer, type(attempts[-1]) | Grant), (call, answer)
                assert attempts[-1].state is wanted, call
                assert added == (2 if (state, call) == THROUGH_UNKNOWN else 1), call
            case _:
                assert [each.state for each in attempts] == [state, S.PREPARED], call
    assert looking.verify().faults == ()


def test_the_calls_take_every_edge_and_no_other():
    taken = {(state, wanted) for state in ELSE for call in CALLS if isinstance(wanted := expected(state, call), S)} - {
        (S.PREPARED, S.RESOLVED_SENT)
    }
    by_other_means = {(None, S.UNKNOWN), (S.PREPARED, S.UNKNOWN)}
    assert taken | by_other_means == EDGES


def test_every_pair_of_states_without_an_edge_is_asked_for_and_refused():
    """The calls that would lead to a state; from any state without an edge to it each of them must leave the state alone."""
    leading_to = {
        S.SENDING: ("grant",),
        S.DELIVERED: ("settle_delivered",),
        S.UNKNOWN: ("settle_unknown", "expire"),
        S.KNOWN_FAILURE: ("settle_known_failure",),
        S.ABANDONED: ("settle_abandoned", "abandon"),
        S.SENT_AUDITED: ("audit",),
        S.RESOLVED_SENT: ("resolve_sent",),
        S.RESOLVED_NOT_SENT: ("resolve_not_sent",),
        S.PREPARED: ("reserve", "reserve_something_else"),
    }
    assert set(leading_to) == set(S)
    for before in S:
        for after, calls in leading_to.items():
            if (before, after) not in EDGES:
                assert not any(isinstance(expected(before, call), S) for call in calls), (before, after)


@pytest.mark.parametrize("kind", ["daily", "weekly", "monthly", "cutoff"])
def test_other_kinds_do_not_fail_for_certain_and_are_not_replaced(world, kind):
    ledger = world.open()
    slot = Slot("acme-1", "2026-11", kind)
    grant = brought_to(ledger, S.SENDING, slot)
    before = world.content()
    assert ledger.settle(grant, known_failure(Reason.REJECTED)).code is C.ILLEGAL_EDGE
    assert world.content() == before
    assert ledger.settle(grant, unknown(Reason.NO_ANSWER)).state is S.UNKNOWN
    assert ledger.resolve(grant.reservation_id, was_sent=False, evidence=EVIDENCE, approval=KIM).state is S.RESOLVED_NOT_SENT
    assert ledger.replace(slot, approval=LEE, key="run-2").code is C.ILLEGAL_EDGE
