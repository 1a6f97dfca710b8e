"""From a guard's outcome to Dagster's."""

import dagster as dg

from guards.check import CheckOutcome, Severity


def check_result(outcome: CheckOutcome, key: dg.AssetKey) -> dg.AssetCheckResult:
    severity = dg.AssetCheckSeverity.WARN if outcome.severity is Severity.WARN else dg.AssetCheckSeverity.ERROR
    return dg.AssetCheckResult(
        passed=outcome.passed, asset_key=key, check_name=outcome.name, severity=severity, description=outcome.message
    )
