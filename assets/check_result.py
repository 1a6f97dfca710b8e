"""From a guard's outcome to Dagster's."""

import dagster as dg

from guards.check import CheckOutcome, Severity


def check_result(outcome: CheckOutcome, key: dg.AssetKey) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=outcome.passed,
        asset_key=key,
        check_name=outcome.name,
        severity=_severity(outcome),
        description=outcome.message,
    )


def check_evaluation(outcome: CheckOutcome, key: dg.AssetKey) -> dg.AssetCheckEvaluation:
    """The same, for `context.log_event` in a run that does not compute the check's asset."""
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=outcome.name,
        passed=outcome.passed,
        metadata={},
        severity=_severity(outcome),
        description=outcome.message,
    )


def _severity(outcome: CheckOutcome) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.WARN if outcome.severity is Severity.WARN else dg.AssetCheckSeverity.ERROR
