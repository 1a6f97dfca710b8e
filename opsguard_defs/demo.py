"""One night that went wrong, from the first look to the proof, on real servers of this machine.

Every step is checked against the servers' own files, never against our records alone: what the spool, the archive and the partner's
inbox hold on disk. A step that is not as described raises `NotAsDescribed`.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from guards.check import Severity
from guards.decision import DecisionKind
from guards.refusal import RefusalCode, Refused
from guards.spool.verdict import SpoolVerdict
from resources.errors import OpsGuardError
from resources.progress import silent

if TYPE_CHECKING:
    from opsguard_defs.runs import ApplyResult, ReportResult
    from opsguard_defs.sandbox import Incident, Sandbox
    from opsguard_defs.sandbox.places import Places
    from opsguard_defs.settings import Settings, SpoolWatch
    from resources.state import StoredPlan

USUAL_WATCHES: Final = ("ftp_demo", "sftp_demo")
APPROVER: Final = "the demo"


class NotAsDescribed(OpsGuardError):
    """The demo saw something else than it promises."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened: (a) to (h), the command that does it, what was seen, and rows worth showing."""

    letter: str
    title: str
    command: str
    seen: str
    rows: tuple[tuple[str, str, str], ...] = ()
    """(entry, verdict, why), for a report."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One repaired feed. The digests are of the bytes on disk, computed by the demo itself."""

    name: str
    verdict: str
    size_bytes: int
    archive_sha256: str
    partner_sha256: str


@dataclass(frozen=True, slots=True)
class Played:
    """One watch, played to the end."""

    watch: str
    steps: tuple[Step, ...]
    feeds: tuple[Feed, ...]
    plan_digest: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Disk:
    """What the three places hold: name to (bytes, SHA-256)."""

    outbound: Mapping[str, tuple[int, str]]
    archive: Mapping[str, tuple[int, str]]
    inbox: Mapping[str, tuple[int, str]]

    @classmethod
    def of(cls, places: "Places") -> "Disk":
        held = [
            {path.name: (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()) for path in directory.iterdir()}
            for directory in places.all()
        ]
        return cls(*held)


class SpoolDemo:
    """Plays (a) to (h) on one watch of the sandbox. `tell` is called with each step as soon as it has been checked."""

    def __init__(self, sandbox: "Sandbox", settings: "Settings", watch: str, *, tell: Callable[[Step], None]) -> None:
        self._sandbox, self._settings, self._name, self._tell = sandbox, settings, watch, tell
        self._watch: SpoolWatch = cast("SpoolWatch", settings.watch("spool", watch))
        self._places = sandbox.places(watch)
        self._steps: list[Step] = []

    def play(self) -> Played:
        self._clean_night()
        night = self._bad_night()
        report = self._found(night)
        plan = report.stored
        before = Disk.of(self._places)
        self._unapproved_is_refused(plan, before)
        self._approved(plan)
        applied = self._applied(plan)
        feeds = self._proven(night, before)
        self._used_is_refused(plan)
        self._no_gaps_left()
        return Played(self._name, tuple(self._steps), feeds, plan.digest, applied.run_id)

    def _clean_night(self) -> None:
        from opsguard_defs.sandbox import clean_night

        night = clean_night(self._sandbox, self._name)
        report = self._report()
        must(report.gaps == 0 and not report.stored.targets, f"a clean night has gaps: {dict(report.counts)}")
        self._compare(report, night)
        seen = f"{len(night.expected)} feeds left, {len(night.expected)} arrived: nothing to do"
        self._done("a", "a clean night", f"opsguard report spool/{self._name}", seen)

    def _bad_night(self) -> "Incident":
        from opsguard_defs.sandbox import incident

        night = incident(self._sandbox, self._name, needs_person=False)
        missing = sum(verdict is SpoolVerdict.MISSING for verdict in night.expected.values())
        short = sum(verdict is SpoolVerdict.SHORT_DELIVERY for verdict in night.expected.values())
        seen = f"the handoff job reported success; {missing} feeds never reached the partner and {short} arrived short"
        self._done("b", "a night that went wrong", f"opsguard sandbox incident {self._name} --repairable", seen)
        return night

    def _found(self, night: "Incident") -> "ReportResult":
        report = self._report()
        self._compare(report, night)
        found = {str(target.get("subject") or target.get("name")) for target in report.stored.targets}
        must(found == set(night.to_send), f"the plan would write {sorted(found)}, not {sorted(night.to_send)}")
        rows = tuple((str(f["subject"]), str(f["verdict"]), str(f["note"])) for f in report.findings)
        seen = f"{report.gaps} gaps; plan {report.stored.digest[:12]} would write {len(found)} feeds and nothing else"
        self._done("c", "the report finds them", f"opsguard report spool/{self._name} --all", seen, rows)
        return report

    def _unapproved_is_refused(self, plan: "StoredPlan", before: Disk) -> None:
        result = self._apply(plan)
        self._refused(result, RefusalCode.NOT_APPROVED)
        must(Disk.of(self._places) == before, "a refused apply changed a file")
        self._done(
            "d", "not approved, so refused", f"opsguard apply {plan.digest[:12]}", f"{_words(result)}; not one file changed"
        )

    def _approved(self, plan: "StoredPlan") -> None:
        from resources.state import StateStore, state_url

        with StateStore.open(state_url(self._settings.home)) as store:
            decision = store.decide(
                plan.digest,
                kind=DecisionKind.APPROVED,
                by=APPROVER,
                comment="seen in the demo",
                valid_for=timedelta(hours=1),
                channel="cli",
            )
        if isinstance(decision, Refused):
            raise NotAsDescribed(f"the approval was refused: {decision.message}")
        seen = f"approved by {decision.decided_by} until {decision.valid_until:%H:%M} UTC, for exactly this plan, once"
        self._done("e", "a person approves the plan", f'opsguard approve {plan.digest[:12]} --by "{APPROVER}"', seen)

    def _applied(self, plan: "StoredPlan") -> "ApplyResult":
        result = self._apply(plan)
        must(str(result.outcome) == "applied", f"apply was {result.outcome}: {_words(result)}")
        broken = [check.message for check in result.checks if not check.passed and check.severity is Severity.ERROR]
        must(not broken, f"a check failed: {'; '.join(broken)}")
        sent = [receipt for receipt in result.receipts if receipt.action == "send"]
        must(len(sent) == len(plan.targets), f"{len(sent)} feeds were sent for {len(plan.targets)} targets")
        seen = f"{len(sent)} feeds re-sent, read back and archived; {len(result.checks)} checks passed"
        self._done("f", "re-sent, read back, proven, archived", f"opsguard apply {plan.digest[:12]}", seen)
        return result

    def _proven(self, night: "Incident", before: Disk) -> tuple[Feed, ...]:
        """The oracle is the disk behind the servers."""
        after = Disk.of(self._places)
        feeds = []
        for name in night.to_send:
            archived = {key: held for key, held in after.archive.items() if key == name or key.startswith(f"{name}.")}
            must(name not in after.outbound, f"{name} is still in the spool")
            must(len(archived) == 1, f"{name} is {len(archived)} times in the archive")
            size, digest = next(iter(archived.values()))
            must(after.inbox.get(name, (0, "absent")) == (size, digest), f"{name}: archive and partner differ")
            must(digest == night.sha256[name], f"{name}: not the bytes that the producer dropped")
            feeds.append(Feed(name, night.expected[name].value, size, digest, after.inbox[name][1]))
        untouched = {name: held for name, held in before.inbox.items() if name not in night.to_send}
        kept = {name: after.inbox.get(name) for name in untouched}
        must(kept == untouched, "a file at the partner that was not in the plan changed")
        must(set(after.inbox) == set(untouched) | set(night.to_send), f"the inbox holds something else: {sorted(after.inbox)}")
        return tuple(feeds)

    def _used_is_refused(self, plan: "StoredPlan") -> None:
        before = Disk.of(self._places)
        result = self._apply(plan)
        self._refused(result, RefusalCode.ALREADY_USED)
        must(Disk.of(self._places) == before, "a refused apply changed a file")
        self._done("g", "the same plan again", f"opsguard apply {plan.digest[:12]}", f"{_words(result)}; nothing is sent twice")

    def _no_gaps_left(self) -> None:
        report = self._report()
        must(report.gaps == 0 and not report.stored.targets, f"gaps are left: {dict(report.counts)}")
        self._done("h", "a new report", f"opsguard report spool/{self._name}", "no gaps")

    def _report(self) -> "ReportResult":
        from opsguard_defs import runs

        report = runs.report(self._settings, self._watch, overrides={}, progress=silent)
        must(not report.stored.observation, f"could not observe completely: {report.stored.observation}")
        return report

    def _apply(self, plan: "StoredPlan") -> "ApplyResult":
        from opsguard_defs import runs

        return runs.apply(self._settings, plan.digest, progress=silent)

    def _compare(self, report: "ReportResult", night: "Incident") -> None:
        found = {str(finding["subject"]): str(finding["verdict"]) for finding in report.findings}
        expected = {name: verdict.value for name, verdict in night.expected.items()}
        wrong = {name: (verdict, found.get(name)) for name, verdict in expected.items() if found.get(name) != verdict}
        must(not wrong, f"verdicts differ (expected, found): {wrong}")
        must(all(finding["note"] for finding in report.findings), "a finding does not say why")

    def _refused(self, result: "ApplyResult", code: RefusalCode) -> None:
        refused = str(result.outcome) == "refused" and result.refusal is not None and result.refusal.code is code
        must(refused and not result.receipts, f"expected a refusal {code}, got {result.outcome}: {_words(result)}")

    def _done(self, letter: str, title: str, command: str, seen: str, rows: Iterable[tuple[str, str, str]] = ()) -> None:
        step = Step(letter, title, command, seen, tuple(rows))
        self._steps.append(step)
        self._tell(step)


def _words(result: Any) -> str:
    return f"{result.refusal.code}" if result.refusal else ", ".join(c.message for c in result.checks if not c.passed)


def must(condition: bool, otherwise: str) -> None:
    if not condition:
        raise NotAsDescribed(f"the demo is not as described: {otherwise[:1000]}")
