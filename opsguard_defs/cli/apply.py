"""`opsguard apply` and `opsguard verify`: write what was approved, and the checks alone."""

from typing import TYPE_CHECKING, Any, Final

from assets.known_guards import GUARDS
from guards.check import Severity
from guards.refusal import RefusalCode, Refused
from guards.spool import sweeping
from guards.text import count_words
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit, exit_of, worst
from opsguard_defs.cli.options import AsJson, Digest, Where
from opsguard_defs.cli.output import emit, line, say, table
from opsguard_defs.cli.progress import progress
from opsguard_defs.cli.state_store import open_state
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guards.check import CheckOutcome
    from opsguard_defs.runs import ApplyResult


def apply(digest: Digest, as_json: AsJson = False) -> int:
    """Look again, and write exactly the approved plan, or refuse and write nothing.

    Exit code 0: written and proven, or nothing to do. 3: refused. 4: ended without proof, or a message was not taken. 5: not observed.
    """
    from opsguard_defs.settings import load_settings

    settings = load_settings()
    with open_state(settings) as store:
        plan = store.find_plan(digest)
    if isinstance(plan, Refused):
        return _refused_unknown(plan, as_json=as_json)
    if plan.guard == sweeping.GUARD:
        raise ConfigurationError(
            f"plan {words.short(plan.digest)} removes temporary copies: opsguard spool sweep {plan.watch} --yes does that, afresh"
        )
    settings.watch(plan.guard, plan.watch).require_complete()

    from opsguard_defs import runs

    with progress(f"apply {words.short(plan.digest)}") as step:
        result = runs.apply(settings, plan.digest, progress=step)
    emit(apply_json(result)) if as_json else show_apply(result)
    return _exit_of(result)


def apply_json(result: "ApplyResult") -> dict[str, Any]:
    return {
        "guard": result.guard,
        "watch": result.watch,
        "plan_digest": result.plan_digest,
        "outcome": str(result.outcome),
        "refusal": words.refusal_json(result.refusal),
        "receipts": [words.receipt_json(receipt) for receipt in words.in_order(result.receipts)],
        "checks": [words.check_json(check) for check in result.checks],
        "not_sent": [dict(one) for one in result.not_sent],
        "run_id": result.run_id,
    }


def show_apply(result: "ApplyResult") -> None:
    nothing = result.refusal is not None and result.refusal.code is RefusalCode.NOTHING_TO_DO
    outcome = "has nothing to do" if nothing else result.outcome
    line(f"{result.guard}/{result.watch}: plan {words.short(result.plan_digest)} {outcome} (run {result.run_id})")
    if result.receipts:
        rows = [(r.subject, r.action, f"{r.size_bytes:,}", r.sha256) for r in words.in_order(result.receipts)]
        table((GUARDS[result.guard].entry, "action", "bytes", "sha256"), rows, right=("bytes",))
    for one in result.not_sent:
        line(f"{one['subject']}: {one['outcome']}: {one['message']}")
    if result.checks:
        table(("", "check", "message"), words.check_rows(result.checks))


def verify(where: Where, as_json: AsJson = False) -> int:
    """The closing checks alone, on fresh observations: is what was written still there, and nothing else changed.

    Exit code 0: all passed. 4: a check failed. 5: a side could not be observed.
    """
    from opsguard_defs.settings import load_settings
    from resources.errors import OpsGuardError

    settings = load_settings()
    watches = settings.select(where)
    for watch in watches:
        watch.require_complete()

    from opsguard_defs import runs

    codes: list[int] = []
    for watch in watches:
        try:
            result = runs.verify(settings, watch)
        except OpsGuardError as error:
            if len(watches) == 1:
                raise
            say(f"{watch.guard}/{watch.name}: {error}")
            codes.append(error.exit_code)
            continue
        if as_json:
            checks = [words.check_json(check) for check in result.checks]
            emit({"guard": watch.guard, "watch": watch.name, "checks": checks, "run_id": result.run_id})
        else:
            line(f"{watch.guard}/{watch.name}: {count_words(len(result.checks), 'check')} (run {result.run_id})")
            table(("", "check", "message"), words.check_rows(result.checks))
        codes.append(Exit.UNPROVEN if failed(result.checks) else Exit.DONE)
    return worst(codes)


def failed(checks: "Sequence[CheckOutcome]") -> bool:
    """A warning does not fail."""
    return any(not check.passed and check.severity is Severity.ERROR for check in checks)


_WENT_WRONG: Final = ("failed", "unknown")
"""Suppressed, closed, stale or held is as it should be: the customer answered, or it is not sent late, or it stays due."""


def _exit_of(result: "ApplyResult") -> Exit:
    match str(result.outcome):
        case "refused" if result.refusal is not None:
            say(f"{result.refusal.code}: {result.refusal.message}")
            return exit_of(result.refusal)
        case "applied" if not failed(result.checks):
            if wrong := [one for one in result.not_sent if one["outcome"] in _WENT_WRONG]:
                say(f"{count_words(len(wrong), 'message')} of {len(result.receipts) + len(result.not_sent)} not sent: see above")
                return Exit.UNPROVEN
            return Exit.DONE
        case _:
            broken = next((check.message for check in result.checks if not check.passed), "")
            say(result.failure or broken or GUARDS[result.guard].unconfirmed)
            return Exit(result.exit_code or Exit.UNPROVEN)


def _refused_unknown(refused: Refused, *, as_json: bool) -> int:
    """The prefix names no plan, so there is no guard and no run to speak of."""
    if as_json:
        empty = {"guard": "", "watch": "", "plan_digest": "", "outcome": "refused"}
        emit({**empty, "refusal": words.refusal_json(refused), "receipts": [], "checks": [], "run_id": ""})
    say(f"{refused.code}: {refused.message}")
    return exit_of(refused)
