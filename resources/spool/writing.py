"""What one authorised run holds while it writes, and the little that all its steps share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from guards.canonical import Json
from guards.gate import Authorization
from guards.receipt import Receipt
from guards.spool.planning import SpoolTarget
from guards.spool.policy import SpoolPolicy
from resources.file_servers.connect import PATIENCE, Patience
from resources.file_servers.interface import Writer
from resources.progress import Progress, silent
from resources.pulse import Pulse
from resources.spool.observe import MEGABYTE
from resources.spool.relay import HashingRelay
from resources.spool.route import SpoolRoute
from resources.spool.sessions import WriterSessions
from resources.spool.steps import Moment, Step, Watcher, nobody
from resources.state import StateStore

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """One per thread: sessions are not shared. `authorization` opened the sessions; its fence is checked before every write."""

    route: SpoolRoute
    policy: SpoolPolicy
    state: StateStore
    authorization: Authorization
    pulse: Pulse
    """Called whenever something moved: keeps the lease alive."""
    sessions: WriterSessions
    patience: Patience = PATIENCE
    watcher: Watcher = nobody
    progress: Progress = silent

    @property
    def inbox(self) -> str:
        return self.route.partner.directory

    @property
    def spool(self) -> str:
        return self.route.source.directory

    @property
    def run_id(self) -> str:
        return self.authorization.holder

    @property
    def source(self) -> Writer:
        return self.sessions.source.writer

    @property
    def partner(self) -> Writer:
        return self.sessions.partner.writer

    @property
    def ceiling_bytes(self) -> int:
        return self.policy.max_file_megabytes * MEGABYTE

    def step(self, step: Step, name: str, work: Callable[[], Result]) -> Result:
        self.pulse()
        self.watcher(step, Moment.BEFORE, name)
        result = work()
        self.watcher(step, Moment.AFTER, name)
        return result

    def intend(self, step: Step, name: str, detail: Mapping[str, Json]) -> int:
        """Durable before the write that it announces. Raises `LeaseLost` when our fence is not the newest."""
        return self.intend_step(step.value, name, detail)

    def intend_step(self, step: str, name: str, detail: Mapping[str, Json]) -> int:
        """The same for what is part of a step and has an outcome of its own."""
        return self.state.intend(self.authorization, subject=name, step=step, detail=detail)

    def outcome(self, intent: int, detail: Mapping[str, Json]) -> None:
        """Durable after the write. Raises `LeaseLost` likewise."""
        self.state.outcome(self.authorization, intent, detail)

    def relay(self, target: SpoolTarget) -> HashingRelay:
        """The feed's bytes from the spool, hashed as they pass; keeps the lease alive while they move."""
        return HashingRelay(
            self.source.read(self.spool, target.name, ceiling_bytes=self.ceiling_bytes),
            moved=lambda moved: self.progress(f"sending {target.name}", moved, target.size_bytes),
            heartbeat=self.pulse,
        )

    def receipt(self, target: SpoolTarget, *, action: str, evidence: Mapping[str, Json]) -> Receipt:
        """Recorded in the state store under this authorization."""
        return self.state.add_receipt(
            self.authorization,
            Receipt(
                guard="spool",
                watch=self.route.name,
                plan_digest=self.authorization.plan_digest,
                approval_id=self.authorization.approval_id,
                approved_by=self.authorization.approved_by,
                run_id=self.run_id,
                subject=target.name,
                action=action,
                size_bytes=target.size_bytes,
                sha256=target.sha256,
                evidence=evidence,
            ),
        )
