"""The two writing phases of an apply run: send, then (after the bytes were proven by somebody else's eyes) archive.

Each asks the gate by itself, on fresh facts and under a lease of its own, because a re-executed run may skip the phase before.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

from guards.canonical import Json
from guards.gate import Authorization, Authorized, Flags, Fresh, Lease, gate, precheck
from guards.plan import Plan, plan_scope_key
from guards.refusal import RefusalCode, Refused
from guards.requirement import Target
from guards.spool.case import incompleteness
from guards.spool.listing import Listing
from guards.spool.planning import GUARD, SpoolTarget
from guards.spool.policy import SpoolPolicy
from guards.spool.ruling import SpoolAction
from guards.spool.world import SpoolWorld
from resources.declining import stopped_by
from resources.lease import leased, pulse_of
from resources.progress import Progress, silent
from resources.pulse import Pulse
from resources.spool.archive import archive_proven, due_for_archive
from resources.spool.deliver import deliver
from resources.spool.observe import reobserve
from resources.spool.plans import restored, spool_targets
from resources.spool.route import SpoolRoute
from resources.spool.sent import Archived, Outcome, Sent, sent_of
from resources.spool.sessions import WriterSessions
from resources.spool.sides import OpenSides, Sides, observing, sides_of
from resources.spool.steps import Watcher, nobody
from resources.spool.sweep import sweep
from resources.spool.writing import Writing
from resources.state import StateStore
from resources.state.plans import StoredPlan

logger = logging.getLogger(__name__)

BASELINE: Final = "baseline"
"""Journal step: what the partner held before the first byte. The check `untargeted_untouched` compares with it."""

Done = TypeVar("Done")


class SpoolApply:
    """One approved plan and the run that writes it. `run_id` is the lease's holder."""

    def __init__(
        self,
        route: SpoolRoute,
        state: StateStore,
        stored: StoredPlan,
        *,
        flags: Flags,
        run_id: str,
        lease_seconds: int,
        watcher: Watcher = nobody,
        progress: Progress = silent,
        sides: Sides | None = None,
    ) -> None:
        self.route = route
        self.state = state
        self.stored = stored
        self.plan = restored(stored)
        self.policy = SpoolPolicy.model_validate(dict(stored.policy))
        self._flags = flags
        self._run_id = run_id
        self._lease_seconds = lease_seconds
        self._watcher = watcher
        self._progress = progress
        self._sides = sides or sides_of(route)

    def precheck(self) -> Refused | None:
        """What can be refused before any server is asked."""
        return precheck(
            flags=self._flags,
            plan=self.plan,
            decision=self.state.decision(self.plan.digest),
            now=self.state.now(),
            holder=self._run_id,
        )

    def send(self) -> tuple[Sent, ...] | Refused:
        """Every target but archive-only ones, oldest first; then a person's doubt stops the rest. Raises `Unreachable`, `LeaseLost`."""

        def work(authorization: Authorization, lease: Lease, before: SpoolWorld) -> tuple[Sent, ...] | Refused:
            used = self.state.use_approval(authorization)
            if used is not None:
                return used
            self._keep_baseline(authorization, before.partner)
            sent = self._send_all(authorization, lease)
            stale = [one for one in sent if one.outcome is Outcome.STALE]
            if stale and len(stale) == len(sent) == len(self.plan.targets):
                return Refused(RefusalCode.STALE, f"plan {self.plan.short} is stale, nothing was written. {stale[0].message}")
            return sent

        return self._authorized(work)

    def archive(self) -> tuple[Archived, ...] | Refused:
        """The sources whose bytes are proven at the partner, in plan order. Raises `Unreachable`, `LeaseLost`.

        What is proven is what the ledger and this run's receipts say, never what a caller hands in; and only the run that used the
        approval archives: a step launched by itself is refused.
        """
        if refused := self.precheck():
            return refused
        decision = self.state.decision(self.plan.digest)
        if decision is None or decision.used_by != self._run_id:
            return Refused(
                RefusalCode.NOT_APPROVED, f"this run has not used an approval of plan {self.plan.short}: launch the whole job"
            )

        due = due_for_archive(self.state, self.route, spool_targets(self.plan), plan_digest=self.plan.digest, run_id=self._run_id)
        if not due:
            return ()

        def work(authorization: Authorization, lease: Lease, _: SpoolWorld) -> tuple[Archived, ...]:
            with self._writing(authorization, lease) as writing:
                return archive_proven(writing, due)

        return self._authorized(work, remaining=())

    def _authorized(
        self,
        work: Callable[[Authorization, Lease, SpoolWorld], Done | Refused],
        *,
        remaining: tuple[Target[SpoolWorld], ...] | None = None,
    ) -> Done | Refused:
        if refused := self.precheck():
            return refused
        place = plan_scope_key(GUARD, self.route.name)
        with leased(self.state, place, holder=self._run_id, seconds=self._lease_seconds) as lease:
            if isinstance(lease, Refused):
                return lease
            names = [target.subject for target in self.plan.targets] if remaining is None else []
            pulse = self._pulse_of(lease)

            def look(opened: OpenSides) -> tuple[SpoolWorld, dict[str, Json]]:
                seen = reobserve(opened, self.state, policy=self.policy, names=names, progress=self._progress, moved=pulse)
                return seen, opened.scope()

            world, scope = observing(self._sides, look)
            lease = self.state.heartbeat(lease)
            verdict = gate(
                flags=self._flags,
                plan=self.plan,
                decision=self.state.decision(self.plan.digest),
                current=self._current(scope),
                fresh=Fresh(world, incompleteness(world, self.policy) if remaining is None else ""),
                lease=lease,
                now=self.state.now(),
                remaining=remaining,
            )
            match verdict:
                case Refused():
                    return verdict
                case Authorized(authorization):
                    return work(authorization, lease, world)

    def _current(self, scope: dict[str, Json]) -> Plan[SpoolWorld]:
        """The plan as today's settings would frame it: the watch's policy, with the overrides that its report was given."""
        policy = {**self.route.policy.as_json(), **self.stored.overrides}
        return Plan(guard=GUARD, watch=self.route.name, scope=scope, policy=policy, targets=self.plan.targets)

    @contextmanager
    def _writing(self, authorization: Authorization, lease: Lease) -> Iterator[Writing]:
        with WriterSessions(self._sides, authorization, scope=authorization.scope) as sessions:
            yield Writing(
                route=self.route,
                policy=self.policy,
                state=self.state,
                authorization=authorization,
                pulse=self._pulse_of(lease),
                sessions=sessions,
                patience=self._sides.patience,
                watcher=self._watcher,
                progress=self._progress,
            )

    def _send_all(self, authorization: Authorization, lease: Lease) -> tuple[Sent, ...]:
        due = [target for target in spool_targets(self.plan) if target.action is not SpoolAction.ARCHIVE]
        with self._writing(authorization, lease) as writing:
            sweep(writing, due={target.name: target.action for target in due})
        workers = min(self.policy.max_parallel_files, len(due)) or 1
        queue = iter(due)

        def work() -> list[Sent]:
            done: list[Sent] = []
            with self._writing(authorization, lease) as writing, _emptied_by_an_error(queue):
                for target in queue:
                    if said_no := stopped_by(self.state, authorization):
                        why = f"not started: {said_no} declined the plan after it was approved"
                        done += [sent_of(left, Outcome.FAILED, why) for left in (target, *queue)]
                        break
                    one = deliver(writing, target)
                    logger.info("%r: %s. %s", target.name, one.outcome.value, one.message)
                    done.append(one)
                    if one.outcome is Outcome.UNKNOWN:
                        why = f"not started: {target.name!a} is in doubt, and nothing more is sent before somebody has looked"
                        done += [sent_of(left, Outcome.FAILED, why) for left in queue]
            return done

        if workers == 1:
            sent = work()
        else:
            with ThreadPoolExecutor(workers, thread_name_prefix="redeliver") as pool:
                sent = [one for done in pool.map(lambda _: work(), range(workers)) for one in done]
        order = {target.name: place for place, target in enumerate(due)}
        return tuple(sorted(sent, key=lambda one: order[one.name]))

    def _pulse_of(self, lease: Lease) -> Pulse:
        return pulse_of(self.state, lease, seconds=self._lease_seconds)

    def _keep_baseline(self, authorization: Authorization, partner: Listing) -> None:
        rows: list[Json] = [[entry.name, entry.type.value, entry.size_bytes] for entry in partner]
        intent = self.state.intend(authorization, subject="", step=BASELINE, detail={"partner": rows})
        self.state.outcome(authorization, intent, {"rows": len(rows)})


@contextmanager
def _emptied_by_an_error(queue: Iterator[SpoolTarget]) -> Iterator[None]:
    """What stops one worker (a lost lease, no database) stops all: nobody takes another feed."""
    try:
        yield
    except BaseException:
        deque(queue, maxlen=0)
        raise
