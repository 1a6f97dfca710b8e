"""Standing approvals at work: a plan that they cover whole is approved by them, in their giver's name, and only where the settings say
so. The decision is an ordinary one; what it rests on is asked again before every call."""

from datetime import timedelta
from typing import Final

from guards.decision import Decision, DecisionKind
from guards.delivery.slot import Slot, parse_slot
from guards.delivery.standing import StandingApproval, covering, uncovered
from guards.refusal import RefusalCode, Refused
from resources.delivery.plans import delivery_targets, restored
from resources.delivery.route import DeliveryRoute
from resources.state import StateStore
from resources.state.plans import StoredPlan

CHANNEL: Final = "standing"
VALID_FOR: Final = timedelta(minutes=30)
"""The apply run follows at once; a plan that waits longer is reported again."""
_LONGEST_NAME: Final = 120


def decide_by_standing(route: DeliveryRoute, state: StateStore, stored: StoredPlan) -> Decision | Refused:
    """The recorded approval, or why no standing approval gives it. A decline that stands beats it, as everywhere."""
    if not route.auto_send:
        return Refused(RefusalCode.NOT_APPROVED, "auto_send is off for this watch: a person approves each plan")
    behind = _behind(route, state, stored)
    if isinstance(behind, Refused):
        return behind
    names = ", ".join(dict.fromkeys(one.approved_by for one in behind))
    numbers = ", ".join(str(one.id) for one in behind)
    return state.decide(
        stored.digest,
        kind=DecisionKind.APPROVED,
        by=names if len(names) <= _LONGEST_NAME else behind[0].approved_by,
        comment=f"by standing approval {numbers}"[:500],
        valid_for=VALID_FOR,
        channel=CHANNEL,
    )


def not_covered(route: DeliveryRoute, state: StateStore, stored: StoredPlan) -> Refused | None:
    """None while live standing approvals name every target's customer and kind, and nobody declined a plan with one of them."""
    behind = _behind(route, state, stored)
    return behind if isinstance(behind, Refused) else None


def _behind(route: DeliveryRoute, state: StateStore, stored: StoredPlan) -> tuple[StandingApproval, ...] | Refused:
    """Those that cover it whole, from one reading: one that is revoked meanwhile stands behind nothing."""
    slots = [target.slot for target in delivery_targets(restored(stored))]
    if not slots:
        return Refused(RefusalCode.NOTHING_TO_DO, f"plan {stored.short} has no targets: there is nothing to decide")
    declined = declined_slots(state, route.name)
    live, now = state.standing.live(route.name), state.now()
    open_ = uncovered(live, slots, watch=route.name, now=now, declined=declined)
    if not open_:
        return covering(live, slots, watch=route.name, now=now)
    said_no = next((slot for slot in open_ if slot in declined), None)
    if said_no is not None:
        return Refused(
            RefusalCode.DECLINED,
            f"{declined[said_no]} declined a plan with {said_no.key}, which beats standing approvals: a person approves plan {stored.short}",
        )
    more = f" and {len(open_) - 1} more" if len(open_) > 1 else ""
    return Refused(
        RefusalCode.NOT_APPROVED,
        f"no live standing approval names {open_[0].key}{more}: a person approves plan {stored.short}, or allows it with `opsguard standing`",
    )


def declined_slots(state: StateStore, watch: str) -> dict[Slot, str]:
    """Of every decline that stands: its slots, and who gave it."""
    found: dict[Slot, str] = {}
    for plan in state.standing.declined(watch):
        found |= {parse_slot(str(target["slot"])): plan.by for target in plan.targets}
    return found
