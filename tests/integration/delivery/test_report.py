"""`opsguard` as a person types it for guard delivery: init, doctor, report, one day, another moment. None of it sends."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from opsguard_defs.cli.init import watch_block
from opsguard_defs.cli.report_views import day_of, moment_of
from resources.errors import ConfigurationError
from resources.state import StateStore
from tests.integration.command import Command
from tests.integration.delivery.dagster_world import Installed, installed
from tests.unit.settings.build import load, watch


@pytest.fixture
def acme(state_store: StateStore, database_url: str, tmp_path: Path) -> Iterator[Installed]:
    with installed(tmp_path / "home", database_url, state_store) as one:
        yield one


@pytest.fixture
def opsguard(acme: Installed, database_url: str) -> Command:
    return Command(acme.home, {"OPSGUARD_STATE_URL": database_url, "OPSGUARD_HOME": str(acme.home)})


def test_a_report_names_the_slot_the_gap_and_the_command(acme: Installed, opsguard: Command) -> None:
    acme.body()

    done = opsguard("report", "delivery/customers")

    assert done.code == 0, done.err
    assert "Warning" not in done.err, "Dagster's own, of every load"
    assert "delivery/customers: 1 gap, 1 target" in done.out
    assert acme.slot() in done.out
    assert "next: opsguard approve" in done.out
    (found,) = opsguard("report", "delivery", "--json").objects
    assert found["plan"]["targets"][0]["slot"] == acme.slot()
    assert acme.left() == []


def test_one_day_is_shown_as_it_is_now_and_makes_no_plan(acme: Installed, opsguard: Command) -> None:
    acme.body()
    today = acme.today

    (found,) = opsguard("report", "delivery/customers", "--partition", today.isoformat(), "--json").objects
    (next_week,) = opsguard(
        "report", "delivery/customers", "--partition", (today + timedelta(days=7)).isoformat(), "--json"
    ).objects

    assert (found["plan"], found["partition"], found["counts"]) == (None, today.isoformat(), {"due": 1})
    assert next_week["counts"] == {"not_yet": 1}
    assert acme.store.plans() == []
    shown = opsguard("report", "delivery/customers", "--partition", today.isoformat())
    assert f"{today} in {acme.zone}: 1 message. Only shown: no plan was made" in shown.out


def test_another_moment_says_what_would_be_due_then_and_makes_no_plan(acme: Installed, opsguard: Command) -> None:
    then = (acme.store.now() + timedelta(days=3)).isoformat(timespec="seconds")

    (found,) = opsguard("report", "delivery/customers", "--at", then, "--json").objects

    assert found["plan"] is None
    assert found["at"] == then
    assert any(one["subject"].startswith("acme-1:") and one["verdict"] != "not_yet" for one in found["findings"])
    assert acme.store.plans() == []
    assert acme.left() == []


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-02-31", "2026-1-1", "20260101", "2026-01-01T00:00"])
def test_a_day_is_a_day(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--partition wants a day"):
        day_of(text)


@pytest.mark.parametrize("text", ["noon", "2026-12-31", "2026-12-31T09:00:00"])
def test_a_moment_has_an_offset(text: str) -> None:
    """Whose nine o'clock? Two zones apart the answer was a day off."""
    with pytest.raises(ConfigurationError, match="--at wants a moment with its offset"):
        moment_of(text)


def test_a_moment_of_a_day_that_there_is_not_names_the_day() -> None:
    """It was told that its offset was missing, and had one."""
    with pytest.raises(ConfigurationError, match="there is no 2026-02-31"):
        moment_of("2026-02-31T09:00:00+09:00")


def test_both_at_once_and_a_guard_without_a_calendar_are_refused(acme: Installed, opsguard: Command) -> None:
    config = acme.home / "opsguard.toml"
    config.write_text(config.read_text() + watch())
    for name in ("SOURCE", "PARTNER"):
        opsguard.environ[f"OPSGUARD_SPOOL_ACME_{name}_PASSWORD"] = "x"  # type: ignore[index]
    (acme.home / "known_hosts").touch()

    both = opsguard("report", "delivery", "--partition", "2026-11-30", "--at", "2026-12-31T09:00:00+09:00")
    other = opsguard("report", "spool/acme", "--partition", "2026-11-30")

    assert (both.code, "give one of them" in both.err) == (2, True)
    assert (other.code, "spool/acme has no calendar" in other.err) == (2, True)


def test_the_printed_block_is_accepted_as_it_stands(tmp_path: Path) -> None:
    made = load(tmp_path, watch_block("delivery", "customers") + watch_block("spool", "acme"))

    assert [(one.guard, one.name) for one in made.watches] == [("delivery", "customers"), ("spool", "acme")]
    assert made.watches[0].missing() == (f"registry: there is no file {tmp_path / 'customers.yaml'}",)


def test_doctor_looks_at_every_part_and_makes_nothing(acme: Installed, opsguard: Command) -> None:
    (acme.home / "templates" / "approved.yaml").write_text("version: 1\ntemplates: {}\n")

    done = opsguard("doctor", "--guard", "delivery", "--json")

    found = {one["check"]: one for one in done.objects if one["where"] == "delivery/customers"}
    assert {name: one["health"] for name, one in found.items()} == {
        "settings": "ok",
        "registry": "ok",
        "templates": "ok",
        "outbox": "ok",
        "check-ins": "note",
        "ledger": "note",
        "provider file": "ok",
    }, done.err
    assert "1 customer, 1 enabled" in found["registry"]["message"]
    assert not (acme.home / "ledger").exists()
    assert not (acme.home / "sent").exists()


def test_doctor_says_which_line_of_the_registry_is_wrong_and_which_provider_is_not_there(
    acme: Installed, opsguard: Command
) -> None:
    acme.customers({"route": {"provider": "webhook", "webhook": "partner"}})
    missing = {one["check"]: one for one in opsguard("doctor", "--guard", "delivery", "--json").objects}
    assert missing["provider webhook"]["health"] == "misconfigured"
    (acme.home / "customers.yaml").write_text("version: 1\ncustomers:\n  - key: acme-1\n    dayly: {at: '09:00'}\n")

    done = opsguard("doctor", "--guard", "delivery", "--json")

    wrong = {one["check"]: one for one in done.objects}["registry"]
    assert wrong["health"] == "misconfigured"
    assert "line 4, column" in wrong["message"]
    assert done.code == 2


def test_doctor_opens_a_ledger_that_is_there(acme: Installed, opsguard: Command) -> None:
    acme.body()
    acme.send()

    found = {one["check"]: one for one in opsguard("doctor", "--guard", "delivery", "--json").objects}["ledger"]

    assert (found["health"], "3 rows, all read and in order" in found["message"]) == ("ok", True)
