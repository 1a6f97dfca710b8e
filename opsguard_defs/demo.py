"""One night that went wrong, from the first look to the proof, on real servers of this machine.

Every step is checked against the servers' own files, never against our records alone: what the spool, the archive and the partner's
inbox hold on disk. A step that is not as described raises `NotAsDescribed`.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from guards.check import Severity
from guards.refusal import RefusalCode
from guards.spool.verdict import SpoolVerdict
from opsguard_defs.demo_play import Play, Step, compare, must, refused, rows, typed, words

if TYPE_CHECKING:
    from opsguard_defs.runs import ApplyResult, ReportResult
    from opsguard_defs.sandbox import Incident, Sandbox
    from opsguard_defs.sandbox.places import Places
    from opsguard_defs.settings import Settings
    from resources.state import StoredPlan

USUAL_WATCHES: Final = ("ftp_demo", "sftp_demo")


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


class SpoolDemo(Play):
    """Plays (a) to (h)."""

    def __init__(self, sandbox: "Sandbox", settings: "Settings", watch: str, *, tell: Callable[[Step], None]) -> None:
        super().__init__(settings, settings.watch("spool", watch), tell=tell)
        self._sandbox, self._name = sandbox, watch
        self._places = sandbox.places(watch)

    def play(self) -> Played:
        self._clean_night()
        night = self._bad_night()
        report = self._found(night)
        plan = report.stored
        before = Disk.of(self._places)
        self._unapproved_is_refused(plan, before)
        self.approved(plan, "e")
        applied = self._applied(plan)
        feeds = self._proven(night, before)
        self._used_is_refused(plan)
        self._no_gaps_left()
        return Played(self._name, tuple(self.steps), feeds, plan.digest, applied.run_id)

    def _clean_night(self) -> None:
        from opsguard_defs.sandbox import clean_night

        night = clean_night(self._sandbox, self._name)
        report = self.report()
        must(report.gaps == 0 and not report.stored.targets, f"a clean night has gaps: {dict(report.counts)}")
        compare(report, {name: verdict.value for name, verdict in night.expected.items()})
        seen = f"{len(night.expected)} feeds left, {len(night.expected)} arrived: nothing to do"
        self.done("a", "a clean night", f"opsguard report spool/{self._name}", seen)

    def _bad_night(self) -> "Incident":
        from opsguard_defs.sandbox import incident

        night = incident(self._sandbox, self._name, needs_person=False)
        missing = sum(verdict is SpoolVerdict.MISSING for verdict in night.expected.values())
        short = sum(verdict is SpoolVerdict.SHORT_DELIVERY for verdict in night.expected.values())
        seen = f"the handoff job reported success; {missing} feeds never reached the partner and {short} arrived short"
        self.done("b", "a night that went wrong", f"opsguard sandbox incident {self._name} --repairable", seen)
        return night

    def _found(self, night: "Incident") -> "ReportResult":
        report = self.report()
        compare(report, {name: verdict.value for name, verdict in night.expected.items()})
        found = {str(target.get("subject") or target.get("name")) for target in report.stored.targets}
        must(found == set(night.to_send), f"the plan would write {sorted(found)}, not {sorted(night.to_send)}")
        seen = f"{report.gaps} gaps; plan {report.stored.digest[:12]} would write {len(found)} feeds and nothing else"
        self.done("c", "the report finds them", f"opsguard report spool/{self._name} --all", seen, rows(report))
        return report

    def _unapproved_is_refused(self, plan: "StoredPlan", before: Disk) -> None:
        result = self.apply(plan)
        refused(result, RefusalCode.NOT_APPROVED)
        must(Disk.of(self._places) == before, "a refused apply changed a file")
        self.done("d", "not approved, so refused", typed("apply", plan), f"{words(result)}; not one file changed")

    def _applied(self, plan: "StoredPlan") -> "ApplyResult":
        result = self.apply(plan)
        must(str(result.outcome) == "applied", f"apply was {result.outcome}: {words(result)}")
        broken = [check.message for check in result.checks if not check.passed and check.severity is Severity.ERROR]
        must(not broken, f"a check failed: {'; '.join(broken)}")
        sent = [receipt for receipt in result.receipts if receipt.action == "send"]
        must(len(sent) == len(plan.targets), f"{len(sent)} feeds were sent for {len(plan.targets)} targets")
        seen = f"{len(sent)} feeds re-sent, read back and archived; {len(result.checks)} checks passed"
        self.done("f", "re-sent, read back, proven, archived", typed("apply", plan), seen)
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
        result = self.apply(plan)
        refused(result, RefusalCode.ALREADY_USED)
        must(Disk.of(self._places) == before, "a refused apply changed a file")
        self.done("g", "the same plan again", typed("apply", plan), f"{words(result)}; nothing is sent twice")

    def _no_gaps_left(self) -> None:
        report = self.report()
        must(report.gaps == 0 and not report.stored.targets, f"gaps are left: {dict(report.counts)}")
        self.done("h", "a new report", f"opsguard report spool/{self._name}", "no gaps")
