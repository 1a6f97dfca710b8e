"""What the parts of a watch are called: one place, so that runs, pages and commands cannot disagree."""

import pytest

from assets.known_guards import GUARDS, names_of

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("guard", "job"), [("spool", "spool_acme_redeliver"), ("delivery", "delivery_acme_send")])
def test_the_apply_job_is_named_by_guard_watch_and_verb(guard: str, job: str) -> None:
    names = names_of(guard, "acme")

    assert names.apply_job == job
    assert names.named("report") == f"{guard}_acme_report"
    assert (names.label, names.group, names.path("plan")) == (f"{guard}/acme", f"{guard}_acme", [guard, "acme", "plan"])
    assert names.tags == {"opsguard/guard": guard, "opsguard/watch": f"{guard}/acme"}


def test_every_guard_that_has_settings_has_names_and_verdicts() -> None:
    """A guard with settings and without names would fail in the middle of the first report."""
    from opsguard_defs.cli.init_blocks import BLOCKS
    from opsguard_defs.cli.words import VERDICTS
    from opsguard_defs.settings.model import WATCH_TYPES

    assert set(WATCH_TYPES) == set(GUARDS) == set(VERDICTS) == set(BLOCKS)
