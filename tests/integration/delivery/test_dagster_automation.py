"""What runs by itself once somebody turns it on: nothing is sent but what a standing approval names, and recovery never sends."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from guards.delivery.slot import parse_slot
from opsguard_defs.assembly import definitions, state_of
from resources.delivery.apply import MOST_IN_A_ROW
from resources.delivery.ledger import ledger_mark, open_ledger
from resources.delivery.observe import current_pins
from resources.errors import ConfigurationError
from resources.ledger.file.opening import open_core
from resources.providers.file import FileProvider
from resources.providers.interface import CannotTell
from resources.state import StateStore
from tests.integration.delivery.dagster_world import Installed, installed


@pytest.fixture
def manual(state_store: StateStore, database_url: str, tmp_path: Path) -> Iterator[Installed]:
    with installed(tmp_path / "home", database_url, state_store, 'ledger = "postgres"') as one:
        yield one


@pytest.fixture
def automatic(state_store: StateStore, database_url: str, tmp_path: Path) -> Iterator[Installed]:
    with installed(tmp_path / "home", database_url, state_store, 'ledger = "postgres"', "auto_send = true") as one:
        yield one


def tick(world: Installed, sensor: str, cursor: str | None = None) -> Any:
    found = definitions(world.settings).get_repository_def().get_sensor_def(f"delivery_{world.name}_{sensor}")
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, cursor=cursor, resources={"state": state_of(world.settings)})
        return found.evaluate_tick(context)


def allowed(world: Installed, *customers: str, kinds: tuple[str, ...] = ("daily",)) -> int:
    made = world.store.standing.allow(
        watch=world.name,
        customers=customers,
        kinds=kinds,
        by="Ada",
        comment="every day",
        until=world.store.now() + timedelta(days=7),
    )
    return int(made.id)


def test_a_standing_approval_sends_what_it_names_once_and_nothing_else(automatic: Installed) -> None:
    automatic.customers({}, {"key": "bolt-1"})
    automatic.body()
    automatic.body("bolt-1")
    assert "no standing approval is live" in (tick(automatic, "standing_approvals").skip_message or "")
    allowed(automatic, "acme-1")

    (request,) = tick(automatic, "standing_approvals").run_requests

    digest = request.run_config["approved_plan"]
    (decision,) = automatic.store.decisions(digest)
    assert (decision.decided_by, decision.channel) == ("Ada", "standing")
    assert request.run_key == f"plan:{digest}:{decision.decision_id}"
    assert automatic.left() == [], "the sensor itself sends nothing"
    assert automatic.launch("send", request.run_config).success
    assert len(automatic.left()) == 1
    assert "nothing is due that a standing approval names" in (tick(automatic, "standing_approvals").skip_message or "")
    assert automatic.verdicts() == {automatic.slot(): "sent", automatic.slot("bolt-1"): "due", **_tomorrow(automatic)}


def test_a_tick_waits_for_no_provider(automatic: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick is given 60 s. With a message in doubt at each of three webhooks that hang it ended there, and nothing that was allowed was sent."""
    asked: list[str] = []
    monkeypatch.setattr(FileProvider, "lookup", lambda _, key, **__: asked.append(key) or CannotTell("it hangs"))
    automatic.customers({}, {"key": "bolt-1"})
    automatic.body()
    automatic.body("bolt-1")
    _left_in_the_middle(automatic)
    assert automatic.launch("recover", {}).success
    assert automatic.verdicts()[automatic.slot()] == "in_doubt"
    assert len(asked) == 2, "by recovery, and by the report"
    allowed(automatic, "bolt-1")

    assert tick(automatic, "standing_approvals").run_requests

    assert len(asked) == 2


def test_a_provider_that_is_down_is_not_called_every_minute(automatic: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tick started a run that left three doubts, so that within an hour 180 messages were a person's, none of which had gone out."""
    (automatic.home / "sent").write_text("no directory")
    names = [f"acme-{number}" for number in range(MOST_IN_A_ROW + 2)]
    automatic.customers(*({"key": name} for name in names))
    for name in names:
        automatic.body(name)
    allowed(automatic, *names)
    (request,) = tick(automatic, "standing_approvals").run_requests
    assert not automatic.launch("send", request.run_config).success

    assert "went wrong one after another" in (tick(automatic, "standing_approvals").skip_message or "")

    found = Counter(automatic.verdicts().values())
    assert (found["in_doubt"], found["due"]) == (MOST_IN_A_ROW, 2)
    monkeypatch.setattr("resources.delivery.apply.REST", timedelta(0))
    assert tick(automatic, "standing_approvals").run_requests


def test_a_standing_approval_that_was_revoked_before_the_run_sends_nothing(automatic: Installed) -> None:
    automatic.body()
    number = allowed(automatic, "acme-1")
    (request,) = tick(automatic, "standing_approvals").run_requests
    automatic.store.standing.revoke(number, by="Ada", comment="enough")

    assert automatic.refusal_of(automatic.launch("send", request.run_config)) == "not_approved"
    assert automatic.left() == []


def test_settings_that_no_longer_say_auto_send_stop_what_a_standing_approval_decided(automatic: Installed) -> None:
    automatic.body()
    allowed(automatic, "acme-1")
    (request,) = tick(automatic, "standing_approvals").run_requests

    changed = automatic.other(auto_send=False)

    assert changed.refusal_of(changed.launch("send", request.run_config)) == "not_approved"
    assert automatic.left() == []


def test_without_auto_send_a_standing_approval_has_no_effect(manual: Installed) -> None:
    manual.body()
    allowed(manual, "acme-1")
    names = {sensor.name for sensor in definitions(manual.settings).get_repository_def().sensor_defs}

    assert "delivery_customers_standing_approvals" not in names
    digest = manual.report().stored.digest
    assert manual.refusal_of(manual.launch("send", {"approved_plan": digest, "dry_run": False, "auto_remediate": True})) == (
        "not_approved"
    )
    assert manual.left() == []


def test_the_schedule_starts_reports_that_cannot_send(manual: Installed) -> None:
    repository = definitions(manual.settings).get_repository_def()
    schedule = repository.get_schedule_def("delivery_customers_every_10_minutes")

    assert (schedule.cron_schedule, schedule.job_name) == ("*/10 * * * *", "delivery_customers_report")
    manual.body()
    assert manual.launch("report", {}).success
    assert manual.left() == []


def test_an_approval_starts_one_run(manual: Installed) -> None:
    manual.body()
    digest = manual.report().stored.digest
    assert not tick(manual, "approved_plans").run_requests
    manual.approve(digest)
    (request,) = tick(manual, "approved_plans").run_requests
    assert manual.launch("send", request.run_config).success
    assert len(manual.left()) == 1
    assert not tick(manual, "approved_plans").run_requests, "its approval was used"


def test_what_a_dead_run_left_in_the_middle_becomes_doubt_and_is_never_sent_by_itself(manual: Installed) -> None:
    """The incident: a pod was evicted between the provider's answer and our row, and the next run sent the message again."""
    manual.body()
    _left_in_the_middle(manual)
    (request,) = tick(manual, "expire").run_requests
    assert request.run_key is not None
    assert request.run_key.startswith("stale:")

    assert manual.launch("recover", {}).success

    assert manual.verdicts()[manual.slot()] == "in_doubt"
    assert not manual.report().stored.targets, "doubt is no target"
    assert manual.left() == []
    (again,) = tick(manual, "expire").run_requests
    assert (again.run_key or "").startswith("doubt:"), "a provider may show it later: asked once an hour"


def _left_in_the_middle(world: Installed) -> None:
    """A run died between its grant and the answer."""
    route, slot = world.watch.route(), parse_slot(world.slot())
    with open_ledger(route, world.store) as ledger:
        pins = current_pins(route, world.store, ledger, slot)
        assert pins is not None
        held = ledger.reserve(slot, pins, key="dead-run")
        ledger.grant(held.reservation_id, holder="dead-run", ttl_seconds=1)  # type: ignore[union-attr]
        while not ledger.health().stale_sending:
            continue  # each turn asks the database for the time


@pytest.fixture(params=["file", "postgres"])
def either(state_store: StateStore, database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Installed]:
    with installed(tmp_path / "home", database_url, state_store, f'ledger = "{request.param}"') as one:
        yield one


def test_with_nothing_open_nothing_is_recovered(either: Installed) -> None:
    either.body()
    assert "none is in doubt" in (tick(either, "expire").skip_message or "")


def test_what_was_sent_is_looked_at_once_more_by_one_run_and_then_it_is_quiet(either: Installed) -> None:
    either.body()
    either.send()

    first = tick(either, "expire")
    (request,) = first.run_requests
    assert (request.run_key or "").startswith("once-more:")
    assert not tick(either, "expire", first.cursor).run_requests, "asked for once, whether or not the run has begun"
    assert either.launch("recover", {}).success

    ledger = either.latest("ledger")
    assert ledger is not None
    assert (ledger.metadata["state_sent_audited"].value, ledger.metadata["state_delivered"].value) == (1, 0)
    assert not tick(either, "expire", first.cursor).run_requests
    assert either.verdicts()[either.slot()] == "sent"
    assert len(either.left()) == 1


class Openings(list[Path]):
    """Of file ledgers, each of which verifies everything."""


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> Openings:
    seen = Openings()

    def counted(root: Path, **more: Any) -> Any:
        seen.append(root)
        return open_core(root, **more)

    monkeypatch.setattr("resources.ledger.file.store.open_core", counted)
    return seen


@pytest.fixture
def filed(state_store: StateStore, database_url: str, tmp_path: Path) -> Iterator[Installed]:
    with installed(tmp_path / "home", database_url, state_store) as one:
        yield one


def test_a_run_opens_the_file_ledger_once(filed: Installed, openings: Openings) -> None:
    """With 100,000 rows each opening took 5 s: a report every ten minutes had two, a send run three."""
    filed.body()
    counts = {}
    for job in ("report", "verify", "recover"):
        openings.clear()
        assert filed.launch(job, {}).success
        counts[job] = len(openings)
    digest = filed.report().stored.digest
    filed.approve(digest)
    openings.clear()
    assert filed.launch("send", {"approved_plan": digest, "dry_run": False, "auto_remediate": True}).success

    assert {**counts, "send": len(openings)} == {"report": 1, "verify": 1, "recover": 1, "send": 1}
    assert len(filed.left()) == 1


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (("ledger",), {"ledger": 6}),
        (("plan",), {"plan": 1}),
        (("registry",), {"registry": 0}),
        (("registry", "ledger", "plan"), {"ledger": 6, "plan": 1, "registry": 0}),
    ],
)
def test_each_asset_of_a_report_can_be_materialised_alone(
    filed: Installed, wanted: tuple[str, ...], told: dict[str, int]
) -> None:
    """By hand from the graph: nothing else is touched, and each brings its own checks."""
    filed.body()
    keys = [dg.AssetKey(["delivery", filed.name, thing]) for thing in wanted]
    repository = definitions(filed.settings).get_repository_def()
    with dg.DagsterInstance.ephemeral() as instance:
        job = repository.get_implicit_global_asset_job_def().get_subset(asset_selection=set(keys))
        result = job.execute_in_process(instance=instance)
    assert result.success
    made = [one.asset_key.path[-1] for one in result.get_asset_materialization_events() if one.asset_key]
    checks = [one.asset_key.path[-1] for one in result.get_asset_check_evaluations()]

    assert {name: checks.count(name) for name in sorted(set(made) - {"due_slots"})} == told
    assert filed.left() == []


def test_a_registry_that_cannot_be_read_leaves_the_word_on_the_ledger(filed: Installed) -> None:
    (filed.home / "customers.yaml").write_text("version: 2\n")

    with pytest.raises(ConfigurationError, match="not usable"):
        filed.report()

    assert filed.check("ledger", "chain_valid") is True


def test_a_tick_opens_the_file_ledger_only_after_somebody_wrote_to_it(filed: Installed, openings: Openings) -> None:
    filed.body()
    filed.report()
    openings.clear()
    first = tick(filed, "expire")
    assert len(openings) == 1
    second = tick(filed, "expire", first.cursor)
    assert len(openings) == 1
    assert second.skip_message == first.skip_message
    filed.send()
    openings.clear()
    assert tick(filed, "expire", second.cursor).run_requests
    assert len(openings) == 1
    assert len(tick(filed, "expire", "what an older version left").run_requests) == 1


def test_a_process_that_dies_while_it_sends_is_noticed_although_no_file_changes(filed: Installed) -> None:
    filed.body()
    route, slot = filed.watch.route(), parse_slot(filed.slot())
    with open_ledger(route, filed.store) as ledger:
        pins = current_pins(route, filed.store, ledger, slot)
        assert pins is not None
        held = ledger.reserve(slot, pins, key="dying-run")
        ledger.grant(held.reservation_id, holder="dying-run")  # type: ignore[union-attr]
        alive = tick(filed, "expire")
        assert not alive.run_requests
        mark = ledger_mark(route)

    assert ledger_mark(route) == mark
    (request,) = tick(filed, "expire", alive.cursor).run_requests
    assert (request.run_key or "").startswith("stale:")


def _tomorrow(world: Installed) -> dict[str, str]:
    """Slots that are not yet due are reported a day ahead."""
    found = world.verdicts()
    return {slot: verdict for slot, verdict in found.items() if verdict == "not_yet"}
