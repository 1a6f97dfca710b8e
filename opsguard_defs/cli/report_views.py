"""`opsguard report delivery/… --partition DAY` and `--at MOMENT`: what was or would be owed. Shown only: neither makes a plan."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from guards.finding import Finding, counts_by_verdict
from guards.text import count_words as counted
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.output import emit, line, table
from opsguard_defs.cli.state_store import open_state
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from opsguard_defs.settings import DeliveryWatch, Settings, Watch

FARTHEST: Final = timedelta(days=366)
_MOST_ROWS: Final = 200
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def day_of(text: str) -> date:
    """`2026-11-30`."""
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise ConfigurationError("--partition wants a day such as 2026-11-30")


def moment_of(text: str) -> datetime:
    """`2026-12-31T09:00:00+09:00`; without an offset nobody knows whose nine o'clock it is."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
        if written := _DAY.match(text):
            day = written[0]
            try:
                date.fromisoformat(day)
            except ValueError:
                raise ConfigurationError(f"--at: there is no {day}") from None
    if at is None or at.utcoffset() is None:
        raise ConfigurationError("--at wants a moment with its offset, such as 2026-12-31T09:00:00+09:00")
    return at


def view(
    settings: "Settings",
    watches: "Sequence[Watch]",
    *,
    partition: str,
    at: str,
    overrides: Mapping[str, str],
    every: bool,
    as_json: bool,
) -> Exit:
    from opsguard_defs.settings import DeliveryWatch

    if partition and at:
        raise ConfigurationError("--partition shows a day as it is now, --at another moment: give one of them")
    day, moment = day_of(partition) if partition else None, moment_of(at) if at else None
    for watch in watches:
        if not isinstance(watch, DeliveryWatch):
            raise ConfigurationError(f"{watch.guard}/{watch.name} has no calendar: --partition and --at are for guard delivery")
        watch.require_complete()
    for watch in watches:
        found, shown_day = _look(settings, watch, overrides=overrides, day=day, at=moment)
        if as_json:
            emit(_json(watch, found, day=day, at=moment))
        else:
            _show(watch, found, what=shown_day if day else f"at {moment:%Y-%m-%d %H:%M:%S %z}", every=every)
    return Exit.DONE


def _look(
    settings: "Settings",
    watch: "DeliveryWatch",
    *,
    overrides: Mapping[str, str],
    day: date | None,
    at: datetime | None,
) -> tuple[tuple[Finding, ...], str]:
    from assets.delivery_report import by_day
    from opsguard_defs.settings.overrides import override_policy
    from resources.delivery.ledger import open_ledger
    from resources.delivery.report import look

    policy = override_policy(watch.policy, overrides)
    with open_state(settings) as store:
        if day is not None:
            away = day - store.now().date()
            if abs(away) > FARTHEST:
                raise ConfigurationError(f"--partition reaches {FARTHEST.days} days back and ahead")
            back, ahead = max(-away.days + 1, 0), max(away.days + 2, 0)
            policy = policy.model_copy(update={"look_back_days": back, "look_ahead_hours": 24 * ahead})
        with open_ledger(watch.route(), store) as ledger:
            seen = look(watch.route(), store, ledger, policy=policy, at=at)
    if day is None:
        return seen.plan.findings, ""
    zone = seen.world.registry.zone
    return by_day(seen.plan.findings, zone).get(day, ()), f"{day} in {zone}"


def _json(watch: "DeliveryWatch", found: Sequence[Finding], *, day: date | None, at: datetime | None) -> dict[str, Any]:
    asked = {"partition": day.isoformat()} if day else {"at": at.isoformat() if at else ""}
    return {
        "guard": watch.guard,
        "watch": watch.name,
        **asked,
        "plan": None,
        "findings": [dict(one.as_json()) for one in found],
        "counts": counts_by_verdict(found),
        "gaps": sum(one.verdict.is_gap for one in found),
        "run_id": "",
    }


def _show(watch: "DeliveryWatch", found: Sequence[Finding], *, what: str, every: bool) -> None:
    line(f"{watch.guard}/{watch.name} {what}: {counted(len(found), 'message')}. Only shown: no plan was made")
    if found:
        shown = found if every else found[:_MOST_ROWS]
        rows = [(one.subject, one.facts.get("due_at", ""), one.verdict.value, one.note) for one in shown]
        table(("slot", "due (UTC)", "verdict", "why"), rows)
        if len(found) > len(shown):
            line(f"and {len(found) - len(shown)} more: --all shows them")
    line(f"seen: {words.count_words(counts_by_verdict(found))}")
