"""One approved plan and the run that sends it: exactly its targets, and nothing that became due since."""

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from guards.canonical import Json
from guards.decision import Decision
from guards.delivery.lapse import Lapse, lapse
from guards.delivery.message import message_of
from guards.delivery.planning import GUARD, DeliveryTarget
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.registry import Provider
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Slot
from guards.delivery.world import DeliveryWorld
from guards.gate import Authorization, Authorized, Flags, Fresh, Lease, gate, precheck
from guards.plan import Plan, plan_scope_key
from guards.refusal import RefusalCode, Refused
from resources.delivery.ledger import remember, unlike_known
from resources.delivery.observe import Observer, scope_of
from resources.delivery.plans import delivery_targets, restored
from resources.delivery.recover import recover
from resources.delivery.route import DeliveryRoute
from resources.delivery.send import Sending, lapsed, send
from resources.delivery.sent import Outcome, Sent, sent_of
from resources.delivery.standing import CHANNEL, not_covered
from resources.delivery.steps import Watcher, nobody
from resources.lease import leased, pulse_of
from resources.ledger.interface import Ledger
from resources.progress import Progress, silent
from resources.providers.chosen import open_providers
from resources.providers.interface import Provider as Opened
from resources.pulse import Pulse
from resources.state import StateStore
from resources.state.plans import StoredPlan

logger = logging.getLogger(__name__)

MOST_IN_A_ROW: Final = 3
"""Calls of one provider that went wrong one after another. Each leaves a person's look; a provider that is down must not leave 500."""
REST: Final = timedelta(minutes=10)
"""So long nobody but a person calls a provider after that: a run that starts by itself every minute would leave as many looks each time."""


class DeliveryApply:
    """`run_id` is the lease's holder, and the ledger's."""

    def __init__(
        self,
        route: DeliveryRoute,
        state: StateStore,
        stored: StoredPlan,
        *,
        flags: Flags,
        run_id: str,
        lease_seconds: int,
        watcher: Watcher = nobody,
        progress: Progress = silent,
        providers: Mapping[Provider, Opened] | None = None,
    ) -> None:
        self.route = route
        self.state = state
        self.stored = stored
        self.plan = restored(stored)
        self.policy = DeliveryPolicy.model_validate(dict(stored.policy))
        self._flags = flags
        self._run_id = run_id
        self._lease_seconds = lease_seconds
        self._watcher = watcher
        self._progress = progress
        self._providers = open_providers(route.providers) if providers is None else providers

    def precheck(self) -> Refused | None:
        """What can be refused before anything is looked at. A decision by standing approval is only as good as that approval is now."""
        decision = self._decision()
        refused = precheck(flags=self._flags, plan=self.plan, decision=decision, now=self.state.now(), holder=self._run_id)
        if refused is not None or decision is None or decision.channel != CHANNEL:
            return refused
        if not self.route.auto_send:
            return Refused(RefusalCode.NOT_APPROVED, "auto_send is off for this watch now: a person approves each plan")
        return not_covered(self.route, self.state, self.stored)

    def send(self, ledger: Ledger) -> tuple[Sent, ...] | Refused:
        """Every target, in the plan's order. Raises `Unreachable`, `ConfigurationError`, `LeaseLost`.

        Recovery comes first, so that what an earlier run of this plan left in the middle is doubt and not "busy".
        """
        if refused := self.precheck():
            return refused
        scope = plan_scope_key(GUARD, self.route.name)
        with leased(self.state, scope, holder=self._run_id, seconds=self._lease_seconds) as lease:
            if isinstance(lease, Refused):
                return lease
            recover(self.route, self.state, ledger, self._providers, pulse=self._pulse_of(lease))
            observer = Observer(self.route, self.state, ledger, policy=self.policy, progress=self._progress)
            targets = delivery_targets(self.plan)
            world = observer.of([target.slot for target in targets])
            ended = {target.slot: how for target in targets if (how := lapse(target, world)) is not None}
            decision = self._decision()
            if len(ended) == len(targets) and (decision is None or decision.used_by != self._run_id):
                first = ended[targets[0].slot]
                return Refused(
                    RefusalCode.STALE,
                    f"plan {self.plan.short} is stale, nothing was sent. {targets[0].subject}: {first.why}. Report again",
                )
            lease = self.state.heartbeat(lease)
            verdict = gate(
                flags=self._flags,
                plan=self.plan,
                decision=decision,
                current=self._current(scope_of(self.route, ledger, world.registry)),
                fresh=Fresh(world, ledger.health().recovery or unlike_known(self.route, self.state, ledger, world.registry)),
                lease=lease,
                now=self.state.now(),
                remaining=tuple(target for target in targets if target.slot not in ended),
            )
            match verdict:
                case Refused():
                    return verdict
                case Authorized(authorization):
                    remember(self.route, self.state, ledger, world.registry, run_id=self._run_id)
                    by_standing = decision is not None and decision.channel == CHANNEL
                    return self._send_all(authorization, lease, ledger, observer, ended, by_standing=by_standing)

    def _send_all(
        self,
        authorization: Authorization,
        lease: Lease,
        ledger: Ledger,
        observer: Observer,
        ended: Mapping[Slot, Lapse],
        *,
        by_standing: bool,
    ) -> tuple[Sent, ...] | Refused:
        """`by_standing`: of the decision that was authorised, and not of one that followed: a decline must stop the rest."""
        used = self.state.use_approval(authorization)
        if used is not None:
            return used
        sending = Sending(
            state=self.state,
            ledger=ledger,
            observer=observer,
            providers=self._providers,
            authorization=authorization,
            pulse=self._pulse_of(lease),
            by_standing=by_standing,
            watcher=self._watcher,
        )
        targets = delivery_targets(self.plan)
        done: list[Sent] = []
        trouble = Trouble()
        for number, target in enumerate(targets, start=1):
            how = ended.get(target.slot)
            if how is not None:
                one = lapsed(target, how, sending)
            else:
                one = trouble.held_back(target) or send(sending, target)
                trouble.note(target, one)
            logger.info("%s: %s. %s", one.name, one.outcome.value, one.message)
            done.append(one)
            self._progress("sending", number, len(targets))
        return tuple(done)

    def _decision(self) -> Decision | None:
        return self.state.decision(self.plan.digest)

    def _current(self, scope: dict[str, Json]) -> Plan[DeliveryWorld]:
        """The plan as today's settings would frame it: the watch's policy, with the overrides that its report was given."""
        policy = {**self.route.policy.as_json(), **self.stored.overrides}
        return Plan(guard=GUARD, watch=self.route.name, scope=scope, policy=policy, targets=self.plan.targets)

    def _pulse_of(self, lease: Lease) -> Pulse:
        return pulse_of(self.state, lease, seconds=self._lease_seconds)


def resting(world: DeliveryWorld) -> frozenset[Provider]:
    """Providers whose calls went wrong one after another just now, by the ledger: also in earlier runs."""
    in_a_row: Counter[Provider] = Counter()
    for held in sorted(world.held.values(), key=lambda held: held.changed_at):
        message = message_of(held.pins)
        if message is None or held.changed_at <= world.now - REST:
            continue
        if held.state.is_proven_sent:
            in_a_row[message.route.provider] = 0
        elif held.state in (ReservationState.UNKNOWN, ReservationState.KNOWN_FAILURE):
            in_a_row[message.route.provider] += 1
    return frozenset(provider for provider, number in in_a_row.items() if number >= MOST_IN_A_ROW)


class Trouble:
    """Counts what went wrong in a row, by provider. Not a retry: what is held back was never reserved, and stays due."""

    def __init__(self) -> None:
        self._in_a_row: dict[Provider, int] = {}

    def held_back(self, target: DeliveryTarget) -> Sent | None:
        provider = target.route.provider
        if self._in_a_row.get(provider, 0) < MOST_IN_A_ROW:
            return None
        return sent_of(
            target,
            Outcome.HELD,
            f"not started: {MOST_IN_A_ROW} calls of {provider} in a row went wrong. Look at it, then report again: it stays due",
        )

    def note(self, target: DeliveryTarget, one: Sent) -> None:
        provider = target.route.provider
        if one.was_called:
            self._in_a_row[provider] = 0 if one.outcome is Outcome.SENT else self._in_a_row.get(provider, 0) + 1
