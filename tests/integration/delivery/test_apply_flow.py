"""The whole flow as a person types it, with the file provider as the outside world."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.state import StateStore
from tests.integration.command import Command
from tests.integration.delivery.dagster_world import BODY, Installed, installed


@pytest.fixture
def acme(state_store: StateStore, database_url: str, tmp_path: Path) -> Iterator[Installed]:
    with installed(tmp_path / "home", database_url, state_store) as one:
        yield one


@pytest.fixture
def opsguard(acme: Installed, database_url: str) -> Command:
    return Command(acme.home, {"OPSGUARD_STATE_URL": database_url, "OPSGUARD_HOME": str(acme.home)})


def test_report_approve_apply_verify_and_a_second_apply_sends_nothing(acme: Installed, opsguard: Command) -> None:
    acme.customers({}, {"key": "bolt-1", "route": {"provider": "file", "directory": "bolt"}})
    acme.body()
    acme.body("bolt-1", text="Dear Bolt, nothing arrived today.\n")
    (report,) = opsguard("report", "delivery/customers", "--json").objects
    digest = report["plan"]["digest"]

    unapproved = opsguard("apply", digest, "--json")
    assert unapproved.code == 3
    assert unapproved.objects[0]["refusal"]["code"] == "not_approved"
    assert acme.left() == []

    assert opsguard("approve", digest[:12], "--by", "Kim").code == 0
    applied = opsguard("apply", digest[:12], "--json")

    assert applied.code == 0, applied.err
    (done,) = applied.objects
    assert (done["guard"], done["outcome"]) == ("delivery", "applied")
    assert {receipt["subject"] for receipt in done["receipts"]} == {acme.slot(), acme.slot("bolt-1")}
    assert {check["name"]: check["passed"] for check in done["checks"]}["one_delivery_per_slot"] is True
    assert sorted(one["body"] for one in acme.left()) == sorted([BODY, "Dear Bolt, nothing arrived today.\n"])

    again = opsguard("apply", digest)
    assert again.code == 3
    assert "already_used" in again.err
    verified = opsguard("verify", "delivery/customers")
    assert verified.code == 0, verified.err
    assert "head_extends_last_published" in verified.out
    assert len(acme.left()) == 2
    table = opsguard("plans", "show", digest)
    assert acme.slot() in table.out


def test_a_plan_without_targets_has_nothing_to_do(acme: Installed, opsguard: Command) -> None:
    acme.customers({"enabled": False})
    (report,) = opsguard("report", "delivery/customers", "--json").objects

    done = opsguard("apply", report["plan"]["digest"], "--json")

    assert done.code == 0
    assert done.objects[0]["refusal"]["code"] == "nothing_to_do"


def test_a_policy_for_one_run_is_part_of_the_plan(acme: Installed, opsguard: Command) -> None:
    acme.customers({}, {"key": "bolt-1"})
    acme.body()
    acme.body("bolt-1")

    (report,) = opsguard("report", "delivery/customers", "--set", "max_messages_per_run=1", "--json").objects

    assert len(report["plan"]["targets"]) == 1
    wrong = opsguard("report", "delivery/customers", "--set", "max_mesages_per_run=1")
    assert (wrong.code, "did you mean max_messages_per_run?" in wrong.err) == (2, True)
