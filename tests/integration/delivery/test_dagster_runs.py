"""Through Dagster: what a run says, what it refuses, what stops it, what the definitions hold. What left is counted outside of us."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest

from guards.decision import DecisionKind
from jobs.apply.request import flags_of
from opsguard_defs import runs
from opsguard_defs.assembly import definitions
from resources.errors import ConfigurationError
from resources.state import StateStore
from tests.integration.delivery.dagster_world import BODY, Installed, installed, materialized
from tests.servers.webhook import Lie, lying_webhook
from tests.unit.settings.build import load, watch


@pytest.fixture(params=["file", "postgres"])
def acme(state_store: StateStore, database_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Installed]:
    """One customer who is owed a daily message, by each store of the ledger."""
    with installed(tmp_path / "home", database_url, state_store, f'ledger = "{request.param}"') as one:
        yield one


@pytest.fixture
def filed(state_store: StateStore, database_url: str, tmp_path: Path) -> Iterator[Installed]:
    with installed(tmp_path / "home", database_url, state_store) as one:
        yield one


def write(digest: str, **changed: object) -> dict[str, object]:
    return {"approved_plan": digest, "dry_run": False, "auto_remediate": True, **changed}


def test_what_was_approved_leaves_once_and_every_page_says_so(acme: Installed) -> None:
    acme.body()
    digest = acme.report().stored.digest
    assert acme.check("plan", "plan_needs_a_decision") is False
    acme.approve(digest)

    applied = runs.apply(acme.settings, digest)

    assert (applied.outcome, applied.exit_code, applied.failure) == ("applied", 0, "")
    (left,) = acme.left()
    assert left["body"] == BODY
    assert [(one.subject, one.action, one.approved_by) for one in applied.receipts] == [(acme.slot(), "send", "Kim")]
    assert {one.name: one.passed for one in applied.checks} == dict.fromkeys(
        (
            "chain_valid",
            "claims_paired",
            "head_extends_last_published",
            "no_stale_sending",
            "every_delivered_has_a_receipt",
            "one_delivery_per_slot",
        ),
        True,
    )
    assert acme.check("plan", "plan_needs_a_decision") is True
    assert acme.verdicts()[acme.slot()] == "sent"
    sent = acme.latest("sent")
    assert sent is not None
    assert sent.metadata["messages_sent"].value == 1
    assert all(one.passed for one in runs.verify(acme.settings, acme.watch).checks)


def test_every_refusal_is_a_green_run_that_says_its_code_and_sends_nothing(acme: Installed) -> None:
    acme.body()
    digest = acme.report().stored.digest

    def refused(config: dict[str, object], by: Installed = acme) -> str:
        code = by.refusal_of(by.launch("send", config))
        assert acme.left() == []
        return code

    assert refused({}) == "dry_run"
    assert refused(write(digest, auto_remediate=False)) == "remediation_disabled"
    assert refused(write(digest)) == "not_approved"
    assert refused(write("0" * 64)) == "not_approved"
    assert acme.store.decisions(digest) == (), "nothing of this was a decision"
    acme.approve(digest, seconds=0.2)
    while (decision := acme.store.decision(digest)) is not None and acme.store.now() < decision.valid_until:
        continue  # each turn asks the database for the time
    assert refused(write(digest)) == "expired"
    acme.approve(digest)
    lease = acme.store.acquire_lease("delivery/customers", holder="somebody-else", ttl_seconds=600)
    assert refused(write(digest)) == "busy"
    acme.store.release(lease)  # type: ignore[arg-type]
    acme.body(text="another text than the one that was approved\n")
    assert refused(write(digest)) == "stale"
    acme.body()
    changed = acme.watch.policy.model_copy(update={"look_back_days": 1})
    assert refused(write(digest), acme.other(policy=changed)) == "policy_changed"
    applied = runs.apply(acme.settings, digest)
    assert applied.outcome == "applied"
    assert len(acme.left()) == 1
    assert acme.refusal_of(acme.launch("send", write(digest))) == "already_used"
    assert acme.refusal_of(acme.launch("send", write(acme.report().stored.digest))) == "nothing_to_do"
    acme.customers({}, {"key": "bolt-1"})
    acme.body("bolt-1")
    second = acme.report().stored.digest
    acme.approve(second, kind=DecisionKind.DECLINED)
    assert acme.refusal_of(acme.launch("send", write(second))) == "declined"
    assert len(acme.left()) == 1


def test_a_message_that_became_due_since_the_approval_is_not_sent(filed: Installed) -> None:
    filed.customers({}, {"key": "bolt-1"})
    filed.body()
    digest = filed.report().stored.digest
    filed.approve(digest)
    filed.body("bolt-1")

    assert runs.apply(filed.settings, digest).outcome == "applied"

    assert [one["body_sha256"] for one in filed.left()] == [filed.left()[0]["body_sha256"]]
    assert filed.verdicts()[filed.slot("bolt-1")] == "due"


def test_a_changed_registry_makes_an_approved_plan_stale_or_void(filed: Installed) -> None:
    """The approver saw another list of customers."""
    filed.body()
    digest = filed.report().stored.digest
    filed.approve(digest)
    filed.customers({"route": {"provider": "file", "directory": "somebody-else"}})

    result = runs.apply(filed.settings, digest)

    assert result.outcome == "refused"
    assert filed.left() == []


def test_an_approval_in_the_run_config_is_a_decision_and_is_recorded_once(filed: Installed) -> None:
    filed.body()
    digest = filed.report().stored.digest
    assert filed.refusal_of(filed.launch("send", {"approved_plan": digest, "approved_by": "Kim"})) == "dry_run"
    assert filed.store.decisions(digest) == (), "a dry run decides nothing"
    closed = replace(filed, settings=filed.settings.model_copy(update={"approve_in_ui": False}))
    with pytest.raises(dg.DagsterConfigMappingFunctionError) as refused:
        closed.launch("send", write(digest, approved_by="Kim"))
    assert "command line only" in str(refused.value.__cause__)

    assert filed.launch("send", write(digest[:12], approved_by="Kim", approval_comment="go")).success

    (decision,) = filed.store.decisions(digest)
    assert (decision.decided_by, decision.comment, decision.channel) == ("Kim", "go", "run_config")
    assert len(filed.left()) == 1
    sent = filed.latest("sent")
    assert sent is not None
    assert (sent.metadata["messages_sent"].value, sent.metadata["approved_by"].value) == (1, "Kim"), "the form names 12 digits"


@pytest.mark.parametrize(
    ("job", "config"),
    [
        ("report", {"look_back_days": 32}),
        ("report", {"known_failure_kinds": ["hourly"]}),
        ("report", {"look_bak_days": 1}),
        ("send", {"approved_plan": "../../etc"}),
        ("send", {"dry_run": False, "auto_remediate": True}),
        ("send", {"dry_run": False, "auto_remediate": True, "approved_plan": "0" * 12, "approved_by": "Kim\nX"}),
    ],
)
def test_bad_values_in_the_form_create_no_run(filed: Installed, job: str, config: dict[str, Any]) -> None:
    with pytest.raises((dg.DagsterConfigMappingFunctionError, dg.DagsterInvalidConfigError)):
        filed.launch(job, config)

    assert filed.store.plans() == []


def test_a_provider_that_may_have_taken_it_leaves_doubt_that_fails_the_run_and_is_never_sent_again(
    state_store: StateStore, database_url: str, tmp_path: Path
) -> None:
    """The incident: the answer was lost, the run was green, and the next one wrote to the customer a second time."""
    with lying_webhook(Lie.ACCEPT_THEN_DROP) as server:
        hook = f'[watch.webhooks.partner]\nurl = "{server.url}/messages"'
        with installed(tmp_path / "home", database_url, state_store, hook) as acme:
            acme.customers({"route": {"provider": "webhook", "webhook": "partner"}})
            acme.body()

            applied = acme.send()

            assert (applied.outcome, applied.exit_code) == ("failed", 4)
            assert applied.failure.startswith("1 message in doubt")
            assert f"opsguard ledger resolve {acme.slot()}" in applied.failure
            report = acme.report()
            assert (acme.verdicts()[acme.slot()], report.stored.targets) == ("in_doubt", ())
            assert acme.launch("recover", {}).success
            assert len(server.accepted) == 1


def test_an_error_after_a_grant_ends_the_run_with_the_exit_code_of_doubt(acme: Installed, database_url: str) -> None:
    """The state database went away between the call and the receipt: the message had left, and the exit code said that nothing had."""
    acme.body()
    digest = acme.report().stored.digest
    acme.approve(digest)
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute("CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'away'; END $$")
        admin.execute("CREATE TRIGGER away BEFORE INSERT ON opsguard.receipts EXECUTE FUNCTION away()")

    failed = acme.launch("send", write(digest))
    sentence, exit_code = runs._failure(failed)

    assert len(acme.left()) == 1
    assert (failed.success, exit_code) == (False, 4)
    assert acme.slot() in sentence
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute("DROP TRIGGER away ON opsguard.receipts")
    assert acme.verdicts()[acme.slot()] == "sent"


@pytest.mark.parametrize("typed", [{"dry_run": "false"}, {"auto_remediate": "yes"}, {"plan": "all of them"}])
def test_an_ops_input_that_was_typed_in_by_hand_is_checked_as_the_form_is(typed: dict[str, object]) -> None:
    """The text "false" counted as true: auto_remediate was on."""
    request = {"plan": "0123456789ab", "dry_run": False, "auto_remediate": True, **typed}

    with pytest.raises(ConfigurationError, match="nothing was written"):
        flags_of(request)  # type: ignore[arg-type]


def test_what_a_provider_shows_later_is_settled_by_recovery_without_a_second_call(
    state_store: StateStore, database_url: str, tmp_path: Path
) -> None:
    with lying_webhook(Lie.ACCEPT_THEN_DROP) as server:
        hook = f'[watch.webhooks.partner]\nurl = "{server.url}/messages"\nlookup_url = "{server.url}/messages"'
        with installed(tmp_path / "home", database_url, state_store, hook) as acme:
            acme.customers({"route": {"provider": "webhook", "webhook": "partner"}})
            acme.body()
            acme.send()

            assert acme.launch("recover", {}).success

            assert acme.verdicts()[acme.slot()] == "sent"
            assert (len(server.accepted), server.posts) == (1, 1)


def test_the_days_of_the_calendar_are_logged_when_something_about_them_changed(filed: Installed) -> None:
    filed.body()
    first, second = filed.report(), filed.report()
    today = filed.today.isoformat()
    day = filed.latest("due_slots", today)
    assert day is not None
    assert (day.metadata["slots"].value, day.metadata["due"].value, day.metadata["sent"].value) == (1, 1, 0)
    with runs._instance(filed.settings) as instance:
        wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(["delivery", "customers", "due_slots"]), asset_partitions=[today])
        assert len(instance.fetch_materializations(wanted, limit=9).records) == 1, (first.run_id, second.run_id)

    filed.send()

    day = filed.latest("due_slots", today)
    assert day is not None
    assert (day.metadata["due"].value, day.metadata["sent"].value) == (0, 1)


def test_the_ledgers_numbers_have_fixed_names_and_its_head_is_published(acme: Installed) -> None:
    acme.body()
    acme.send()
    ledger = acme.latest("ledger")
    assert ledger is not None
    assert ledger.metadata["state_delivered"].value == 1
    assert ledger.metadata["state_unknown"].value == 0
    assert ledger.metadata["sequence"].value == 3
    published = acme.store.published.last(str(ledger.metadata["store"].value))
    assert published is not None
    assert (published.sequence, published.digest[:12]) == (3, ledger.metadata["head"].value)


def test_an_older_copy_of_the_ledger_is_noticed_and_its_head_is_not_published(filed: Installed, tmp_path: Path) -> None:
    """The incident: a restored directory said that nothing had been sent today."""
    filed.customers({}, {"key": "bolt-1"})
    filed.body()
    filed.send()
    copied = tmp_path / "copy"
    shutil.copytree(filed.home / "ledger", copied)
    filed.body("bolt-1")
    filed.send()
    shutil.rmtree(filed.home / "ledger")
    shutil.copytree(copied, filed.home / "ledger")

    outcomes = {one.name: one.passed for one in runs.verify(filed.settings, filed.watch).checks}

    assert outcomes["head_extends_last_published"] is False
    assert {one.name: one.passed for one in runs.verify(filed.settings, filed.watch).checks}[
        "head_extends_last_published"
    ] is False, "it does not end by itself"


def test_a_registry_that_cannot_be_used_is_said_with_its_line_and_makes_no_plan(filed: Installed) -> None:
    (filed.home / "customers.yaml").write_text("version: 1\ncustomers:\n  - key: acme-1\n    daily: {at: '25:00'}\n")

    with pytest.raises(ConfigurationError, match=r"line 4, column"):
        filed.report()

    assert filed.store.plans() == []
    assert definitions(filed.settings).get_repository_def(), "and the UI still comes up"


def test_one_watch_has_one_of_everything_and_nothing_runs_by_itself(filed: Installed) -> None:
    repository = definitions(filed.settings).get_repository_def()
    graph = repository.asset_graph

    things = ("registry", "outbox", "due_slots", "ledger", "plan", "decision", "sent")
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == {f"delivery/customers/{thing}" for thing in things}
    assert {f"{key.asset_key.path[-1]}:{key.name}" for key in graph.asset_check_keys} == {
        "ledger:chain_valid",
        "ledger:claims_paired",
        "ledger:head_extends_last_published",
        "ledger:no_stale_sending",
        "ledger:every_delivered_has_a_receipt",
        "ledger:one_delivery_per_slot",
        "plan:plan_needs_a_decision",
    }
    jobs = {job.name for job in repository.get_all_jobs() if not job.name.startswith("__")}
    assert jobs == {"decide_plan"} | {f"delivery_customers_{verb}" for verb in ("report", "send", "recover", "verify")}
    automation: list[Any] = [*repository.schedule_defs, *repository.sensor_defs]
    assert {one.name for one in automation} - {"failed_runs", "alerts_outbox"} == {
        f"delivery_customers_{what}" for what in ("every_10_minutes", "expire", "approved_plans")
    }, "without auto_send nothing looks for standing approvals"
    assert {one.default_status.value for one in automation} == {"STOPPED"}
    node = graph.get(dg.AssetKey(["delivery", "customers", "due_slots"]))
    assert node.group_name == "delivery_customers"
    assert isinstance(node.partitions_def, dg.DailyPartitionsDefinition)
    assert node.partitions_def.timezone == filed.zone
    assert all(graph.get(key).description for key in graph.get_all_asset_keys())
    assert all(graph.get(key).owners for key in graph.get_all_asset_keys())


def test_the_op_that_calls_has_no_retries(filed: Installed) -> None:
    job = definitions(filed.settings).resolve_job_def("delivery_customers_send")

    assert all(node.retry_policy is None for node in job.all_node_defs if hasattr(node, "retry_policy"))
    assert job.op_retry_policy is None


def test_the_launchpad_shows_plain_described_fields(filed: Installed) -> None:
    fields = (
        definitions(filed.settings).resolve_job_def("delivery_customers_send").config_mapping.config_schema.config_type.fields
    )

    assert sorted(fields) == ["approval_comment", "approved_by", "approved_plan", "auto_remediate", "dry_run"]
    assert all(field.description for field in fields.values())
    assert (fields["dry_run"].default_value, fields["auto_remediate"].default_value) == (True, False)


def test_a_spool_and_a_delivery_watch_live_in_one_installation(filed: Installed) -> None:
    both = load(filed.home, (filed.home / "opsguard.toml").read_text() + watch())
    repository = definitions(both).get_repository_def()

    assert {"spool_acme_redeliver", "delivery_customers_send"} <= {job.name for job in repository.get_all_jobs()}
    assert materialized(filed.launch("report", {}))


def test_no_secret_is_in_a_log_an_event_a_plan_a_receipt_or_the_ledger(
    state_store: StateStore, database_url: str, tmp_path: Path
) -> None:
    canary = "canary-91ce"
    secrets = {"HOOK_TOKEN": f"{canary}-token", "HOOK_URL": ""}
    with lying_webhook(Lie.NONE) as server:
        secrets["HOOK_URL"] = f"{server.url}/{canary}-path"
        hook = '[watch.webhooks.partner]\nurl_env = "HOOK_URL"\ntoken_env = "HOOK_TOKEN"'
        with installed(tmp_path / "home", database_url, state_store, hook, **secrets) as acme:
            acme.customers({"route": {"provider": "webhook", "webhook": "partner"}})
            acme.body()
            assert acme.send().outcome == "applied"
            assert server.requests[0].headers["authorization"] == f"Bearer {canary}-token"
            said = [repr(one) for one in (acme.settings, acme.watch, acme.watch.route())]
            said += [path.read_bytes().decode("utf-8", "replace") for path in acme.home.rglob("*") if path.is_file()]
    with psycopg.connect(database_url) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        for (table,) in tables:
            found = connection.execute(f"SELECT t::text FROM {table} t").fetchall()  # type: ignore[arg-type]  # the server quoted it
            said += [row for (row,) in found]
    assert len(said) > 100, "Dagster's own events are in the same database"
    assert not [text[:200] for text in said if canary in text]
