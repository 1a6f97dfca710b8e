"""`opsguard standing`: what a person allows in advance is spelled out, ends, can be revoked, and is recorded either way."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests.integration.command import Command, Ended
from tests.integration.test_cli_ledger import SETTINGS


@pytest.fixture
def opsguard(tmp_path: Path, database_url: str) -> Command:
    (tmp_path / "opsguard.toml").write_text(SETTINGS)
    return Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home"), "OPSGUARD_STATE_URL": database_url})


def soon(days: int = 30) -> str:
    return f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%d}"


def allow(opsguard: Command, *more: str, until: str = "", customer: str = "acme-1", kind: str = "daily") -> Ended:
    until = until or soon()
    asked = ["--watch", "customers", "--customer", customer, "--kind", kind, "--until", until, "--by", "Ada L.", "--json", *more]
    return opsguard("standing", "allow", *asked)


def test_it_is_recorded_only_with_yes_listed_while_it_lives_and_ended_by_a_revocation(opsguard: Command) -> None:
    shown = allow(opsguard)
    assert (shown.code, shown.objects[0]["allowed"]) == (0, None)
    assert opsguard("standing", "list", "--json").objects == []
    made = allow(opsguard, "--customer", "bolt-2", "--comment", "agreed in ticket 4713", "--yes")
    assert made.code == 0, made.err
    allowed = made.objects[0]["allowed"]
    assert (sorted(allowed["customers"]), allowed["kinds"], allowed["approved_by"]) == (["acme-1", "bolt-2"], ["daily"], "Ada L.")
    assert "auto_send" in made.err, "it has no effect where the settings do not say so"
    assert [one["id"] for one in opsguard("standing", "list", "--json").objects] == [allowed["id"]]
    ended = opsguard("standing", "revoke", str(allowed["id"]), "--by", "Kim", "--json")
    assert ended.code == 0, ended.err
    assert ended.objects[0]["revoked"]["revoked_by"] == "Kim"
    assert opsguard("standing", "list", "--json").objects == []
    assert [one["revoked_by"] for one in opsguard("standing", "list", "--all", "--json").objects] == ["Kim"]


def test_a_date_means_its_whole_day(opsguard: Command) -> None:
    until = soon(1)
    made = allow(opsguard, "--yes", until=until)
    ends = datetime.fromisoformat(made.objects[0]["allowed"]["until"])
    assert ends.astimezone(UTC).strftime("%H:%M") == "00:00"
    assert ends.astimezone(UTC).date() == date.fromisoformat(until) + timedelta(days=1)


def test_a_revocation_of_what_is_not_there_is_refused(opsguard: Command) -> None:
    assert opsguard("standing", "revoke", "4711", "--by", "Kim", "--json").code == 3


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"until": "2020-01-01"}, "in the future"),
        ({"until": "2999-01-01"}, "within 366 days"),
        ({"until": "tomorrow"}, "is a date"),
        ({"until": "2027-01-31T18:00"}, "zone"),
        ({"kind": "feed"}, "is not one of"),
        ({"kind": "*"}, "is not one of"),
        ({"customer": "*"}, "customer key"),
        ({"customer": "all customers"}, "customer key"),
    ],
)
def test_neither_patterns_nor_for_ever_nor_nonsense_is_allowed(opsguard: Command, changed: dict[str, str], said: str) -> None:
    done = allow(opsguard, "--yes", **changed)
    assert done.code == 2
    assert said in done.err


def test_a_customer_whom_the_registry_does_not_have_is_refused(opsguard: Command, tmp_path: Path) -> None:
    """A misspelt key was recorded, and nothing was ever sent on it."""
    customer = '{key: acme-1, route: {provider: file, directory: acme}, daily: {at: "09:00"}}'
    (tmp_path / "customers.yaml").write_text(f"version: 1\ndefaults: {{zone: Asia/Tokyo}}\ncustomers: [{customer}]\n")
    assert allow(opsguard, "--yes").code == 0
    for more in ((), ("--yes",)):
        refused = allow(opsguard, *more, customer="acme-11")
        assert refused.code == 2
        assert "has no acme-11" in refused.err
    assert len(opsguard("standing", "list", "--json").objects) == 1


def test_where_the_registry_cannot_be_read_that_is_said(opsguard: Command) -> None:
    assert "the registry cannot be read" in allow(opsguard).err


def test_a_watch_that_there_is_not_is_refused(opsguard: Command) -> None:
    done = opsguard(
        "standing",
        "allow",
        "--watch",
        "nobody",
        "--customer",
        "acme-1",
        "--kind",
        "daily",
        "--until",
        soon(),
        "--by",
        "A",
        "--yes",
    )
    assert done.code == 2
