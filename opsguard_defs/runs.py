"""Runs that the command line makes: in this process, recorded in the Dagster instance, shown on the job's page."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import dagster as dg
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult
from sqlalchemy.exc import DBAPIError

from assets.known_guards import GUARDS, names_of
from guards.canonical import Json
from guards.check import CheckOutcome, Severity
from guards.decision import Decision
from guards.receipt import Receipt
from guards.refusal import RefusalCode, Refused
from guards.text import one_line
from opsguard_defs import dagster_home
from opsguard_defs.settings import Settings, Watch
from opsguard_defs.settings.overrides import override_policy
from resources.errors import ConfigurationError, NotObserved, OpsGuardError, OutcomeUnknown, Unproven, Unreachable
from resources.progress import Progress, silent, watching
from resources.state import StateStore, StoredPlan, state_url

_LOCATION_TAG: Final = {".dagster/repository": "__repository__@opsguard"}
"""Without it a run made in this process is missing on its job's page and on the timeline."""

_STATEMENT_MILLISECONDS: Final = 120_000


class RunFailed(OpsGuardError):
    """The run ended with an error that is none of ours."""


class ObservationIncomplete(Unreachable):
    """A side could not be reached or observed completely; the run is recorded."""


class ApplyOutcome(StrEnum):
    APPLIED = "applied"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReportResult:
    guard: str
    watch: str
    stored: StoredPlan
    findings: Sequence[Mapping[str, Json]]
    counts: Mapping[str, int]
    gaps: int
    run_id: str
    decision: Decision | None = None
    """The governing one on this plan."""


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """`failure` is the sentence of a failed run, "" else; `exit_code` what the command line ends with."""

    guard: str
    watch: str
    plan_digest: str
    outcome: ApplyOutcome
    refusal: Refused | None
    receipts: Sequence[Receipt]
    checks: Sequence[CheckOutcome]
    run_id: str
    failure: str = ""
    exit_code: int = 0
    not_sent: Sequence[Mapping[str, str]] = ()
    """`subject`, `outcome` and `message` of each target that did not go out."""


@dataclass(frozen=True, slots=True)
class VerifyResult:
    checks: Sequence[CheckOutcome]
    run_id: str


def report(
    settings: Settings, watch: Watch, *, overrides: Mapping[str, str] | None = None, progress: Progress = silent
) -> ReportResult:
    """One report run. Raises `ObservationIncomplete` when a side could not be observed; the run is recorded all the same."""
    policy = override_policy(watch.policy, overrides or {})
    with _instance(settings, only_reads=True) as instance, watching(progress):
        result = _execute(
            settings.only(watch), instance, names_of(watch.guard, watch.name).named("report"), policy.model_dump(mode="json")
        )
        _raise_failure(result)
        with StateStore.open(state_url(settings.home)) as store:
            stored = _plan_of(store, result)
            decision = store.decision(stored.digest)
    return ReportResult(
        guard=watch.guard,
        watch=watch.name,
        stored=stored,
        findings=stored.findings,
        counts=stored.counts,
        gaps=stored.gaps,
        run_id=result.run_id,
        decision=decision,
    )


def apply(settings: Settings, digest: str, *, progress: Progress = silent) -> ApplyResult:
    """The apply run of one plan, by its full digest. A refusal is a value; nothing was written then."""
    with _instance(settings) as instance, watching(progress), StateStore.open(state_url(settings.home)) as store:
        stored = store.find_plan(digest)
        if isinstance(stored, Refused):
            return ApplyResult("", "", digest, ApplyOutcome.REFUSED, stored, (), (), "")
        config = {"approved_plan": stored.digest, "dry_run": False, "auto_remediate": True}
        tags = {"opsguard/plan": stored.short}
        only = settings.only(settings.watch(stored.guard, stored.watch))
        result = _execute(only, instance, names_of(stored.guard, stored.watch).apply_job, config, tags=tags)
        failure, exit_code = _failure(result)
        receipts = _receipts(store, stored, result, failure=failure, exit_code=exit_code)
    refusal = _refusal(result, stored)
    if failure and not receipts:
        _raise_usual(failure, exit_code)
    outcome = ApplyOutcome.FAILED if failure else ApplyOutcome.REFUSED if refusal else ApplyOutcome.APPLIED
    return ApplyResult(
        guard=stored.guard,
        watch=stored.watch,
        plan_digest=stored.digest,
        outcome=outcome,
        refusal=refusal if outcome is ApplyOutcome.REFUSED else None,
        receipts=receipts,
        checks=_checks(result),
        run_id=result.run_id,
        failure=failure,
        exit_code=exit_code,
        not_sent=_not_sent(result, stored),
    )


def verify(settings: Settings, watch: Watch) -> VerifyResult:
    """The closing checks alone. Raises `Unreachable` when a side could not be observed."""
    with _instance(settings, only_reads=True) as instance:
        result = _execute(settings.only(watch), instance, names_of(watch.guard, watch.name).named("verify"), {})
    checks = _checks(result)
    if not checks:
        _raise_failure(result)
    return VerifyResult(checks=checks, run_id=result.run_id)


@contextmanager
def _instance(settings: Settings, *, only_reads: bool = False) -> Iterator[dg.DagsterInstance]:
    """Dagster's own storage is the state database. Its variables are set meanwhile, since `dagster.yaml` reads them.

    `only_reads`: connections are kept. Dagster opens one per event otherwise, 130 in a report, a third of its time; a run that
    writes keeps to that, since a kept connection that the database lost costs the run.
    """
    from dagster_postgres.utils import DagsterPostgresException

    database = state_url(settings.home)
    StateStore.open(database).close()  # says in one sentence and at once that it is away; Dagster tries for ten seconds
    variables = dagster_home.prepare(settings.home, database)
    try:
        with _environment(variables), dg.DagsterInstance.get() as instance:
            if only_reads:
                instance.optimize_for_webserver(statement_timeout=_STATEMENT_MILLISECONDS, pool_recycle=3600, max_overflow=5)
            yield instance
    except (DagsterPostgresException, DBAPIError) as error:
        said = one_line(str(error.orig if isinstance(error, DBAPIError) else error), limit=300)
        if only_reads:
            raise Unreachable(f"Dagster lost the state database ({said}): run the same command again when it is back") from error
        raise OutcomeUnknown(
            f"Dagster lost the state database during the run ({said}): run the same command again when it is back, it looks first"
        ) from error


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """As they were before, afterwards: a DAGSTER_HOME that we set must not be taken for one that a person set."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _execute(
    settings: Settings,
    instance: dg.DagsterInstance,
    job: str,
    config: Mapping[str, Any],
    *,
    tags: Mapping[str, str] | None = None,
) -> ExecuteInProcessResult:
    from opsguard_defs.assembly import definitions

    resolved = definitions(settings, from_a_form=False).resolve_job_def(job)
    with _quiet():
        return resolved.execute_in_process(
            run_config=dict(config), instance=instance, tags={**_LOCATION_TAG, **(tags or {})}, raise_on_error=False
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Dagster says every event on stderr, where the command line prints its own sentences. The run's page has them all.

    Our own warnings are not touched: their handler has the stream it was made with.
    """
    if os.environ.get("OPSGUARD_DEBUG") == "1":
        yield
        return
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        yield


def _plan_of(store: StateStore, result: ExecuteInProcessResult) -> StoredPlan:
    for event in result.get_asset_materialization_events():
        key = event.asset_key
        if key is not None and key.path[-1] == "plan":
            short = str(event.materialization.metadata["plan_digest"].value)
            stored = store.find_plan(short)
            if isinstance(stored, Refused):
                raise Unproven(stored.message)
            return stored
    raise RunFailed(f"run {result.run_id} ended without a plan: look at its log in the UI")


def _checks(result: ExecuteInProcessResult) -> tuple[CheckOutcome, ...]:
    """The checks on what was written: the plan's own check is for the report."""
    return tuple(
        CheckOutcome(
            name=one.check_name,
            passed=one.passed,
            message=one.description or "",
            severity=Severity.WARN if one.severity is dg.AssetCheckSeverity.WARN else Severity.ERROR,
        )
        for one in result.get_asset_check_evaluations()
        if _is_checked(one.asset_key)
    )


def _is_checked(key: dg.AssetKey) -> bool:
    guard, _, thing = key.path
    return thing in GUARDS[guard].checked


def _receipts(
    store: StateStore, stored: StoredPlan, result: ExecuteInProcessResult, *, failure: str, exit_code: int
) -> list[Receipt]:
    """Of this run. When they cannot be read, the run speaks for itself; one that ended well, or did not say, may have written."""
    try:
        return [one for one in store.receipts(plan_digest=stored.digest) if one.run_id == result.run_id]
    except Unreachable as error:
        if failure and exit_code not in (OutcomeUnknown.exit_code, RunFailed.exit_code):
            return []
        said = failure or f"run {result.run_id} ended, and its receipts could not be read"
        raise OutcomeUnknown(f"{said} ({error}): run the same command again when it is back, it looks first") from error


def _refusal(result: ExecuteInProcessResult, stored: StoredPlan) -> Refused | None:
    key = dg.AssetKey([stored.guard, stored.watch, "decision"])
    for event in result.get_asset_materialization_events():
        metadata = event.materialization.metadata
        if event.asset_key == key and metadata["outcome"].value == "refused":
            return Refused(RefusalCode(str(metadata["refusal"].value)), str(metadata["message"].value))
    return None


def _not_sent(result: ExecuteInProcessResult, stored: StoredPlan) -> list[Mapping[str, str]]:
    key = dg.AssetKey([stored.guard, stored.watch, "decision"])
    for event in result.get_asset_materialization_events():
        said = event.materialization.metadata.get("not_sent")
        if event.asset_key == key and isinstance(said, dg.JsonMetadataValue) and isinstance(said.data, list):
            return said.data
    return []


def _failure(result: ExecuteInProcessResult) -> tuple[str, int]:
    """("" and 0) for a green run. Ours carry their sentence and exit code; a failed blocking check speaks through the checks."""
    if result.success:
        return "", 0
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            given = data.user_failure_data
            metadata = given.metadata if given is not None else {}
            if "exit_code" in metadata and "error" in metadata:
                return str(metadata["error"].value), int(str(metadata["exit_code"].value))
            if given is not None and given.description:
                return given.description, Unproven.exit_code
    failed = next((one for one in _checks(result) if not one.passed), None)
    if failed is not None:
        return failed.message, Unproven.exit_code
    return f"run {result.run_id} failed: look at its log in the UI", RunFailed.exit_code


def _raise_failure(result: ExecuteInProcessResult) -> None:
    message, code = _failure(result)
    if not message:
        return
    _raise_usual(message, code)
    raise RunFailed(message)


def _raise_usual(message: str, code: int) -> None:
    """Nothing was written: what could not be observed, or was not configured, is said as outside of a run."""
    if code == NotObserved.exit_code:
        raise ObservationIncomplete(message)
    if code == ConfigurationError.exit_code:
        raise ConfigurationError(message)
