"""What a report sees of hostile bodies, changed templates, broken evidence and altered records: each blocks itself and nothing else."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr
from sqlalchemy import make_url

from guards.decision import DecisionKind
from guards.delivery.bodies import MOST_BODY_BYTES, Body
from guards.delivery.evidence import CheckIns, EvidenceUnreadable
from guards.delivery.message import pins_of
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.registry import Customer, Provider, Route, Rule, UntilWindowEnd
from guards.delivery.row import Head
from guards.delivery.schedule import Owed
from guards.delivery.slot import Kind, Slot
from guards.refusal import Refused
from resources.delivery.evidence import Evidence
from resources.delivery.examine import examine
from resources.delivery.ledger import open_ledger
from resources.delivery.recover import Recovery
from resources.delivery.route import CheckInTable
from resources.delivery.sent import Outcome, Sent
from resources.delivery.standing import decide_by_standing
from resources.delivery.steps import Moment, Step
from resources.state import StateStore
from resources.state.plans import StoredPlan
from tests.integration.delivery.test_send import due_keys, with_bodies
from tests.integration.delivery.watch import DAILY, REMINDER, TEXT, Watch, watch

Made = Callable[..., Watch]
OUTSIDE = "# Somebody else's secret\n"


@pytest.fixture
def made_file(tmp_path: Path, state_store: StateStore) -> Watch:
    """With two customers who are owed a daily message; the second one's body is there."""
    made = watch(tmp_path, state_store)
    made.customer("acme-1", DAILY)
    made.customer("beta-2", DAILY)
    made.drop(due_keys(made)[1])
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "daily.md").write_text(OUTSIDE)
    return made


def now_of(made: Watch) -> list[str]:
    """The verdicts of what is owed today."""
    return [verdict for verdict in made.verdicts().values() if verdict != "not_yet"]


def body_file(made: Watch) -> Path:
    customer, period, kind = due_keys(made)[0].split(":")
    path = made.route.outbox / customer / period / f"{kind}.md"
    path.parent.mkdir(parents=True)
    return path


def a_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "daily.md")


def a_linked_period(path: Path, outside: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(outside, target_is_directory=True)


def a_linked_customer(path: Path, outside: Path) -> None:
    path.parent.rmdir()
    path.parent.parent.rmdir()
    (outside / path.parent.name).mkdir()
    (outside / path.parent.name / path.name).write_text(OUTSIDE)
    path.parent.parent.symlink_to(outside, target_is_directory=True)


def a_fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def a_directory(path: Path, _: Path) -> None:
    path.mkdir()


def a_device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def holding(data: bytes) -> Callable[[Path, Path], None]:
    def write(path: Path, _: Path) -> None:
        path.write_bytes(data)

    return write


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (a_link, "is a link or no directory"),
        (a_linked_period, "is a link or no directory"),
        (a_linked_customer, "is a link or no directory"),
        (a_device, "is a link or no directory"),
        (a_fifo, "not a regular file"),
        (a_directory, "not a regular file"),
        (holding(b"a" * (MOST_BODY_BYTES + 1)), "more than 32,768 bytes"),
        (holding(b"a\x00b"), "NUL"),
        (holding(b"\xff\xfe"), "not UTF-8"),
        (holding(b"\n"), "empty"),
    ],
)
def test_what_is_not_a_plain_text_file_in_its_place_blocks_its_own_slot(
    made_file: Watch, tmp_path: Path, make: Callable[[Path, Path], None], why: str
) -> None:
    """A link in the outbox sent another customer's invoice."""
    make(body_file(made_file), tmp_path / "outside")

    first, second = (finding for finding in made_file.report().plan.findings if finding.verdict.value != "not_yet")

    assert first.verdict.value == "body_missing"
    assert why in first.note
    assert second.verdict.value == "due"
    assert list(made_file.send()) == [second.subject]
    assert OUTSIDE not in str(made_file.sent_files())


def test_a_body_that_was_not_dropped_says_where_it_belongs(made_file: Watch) -> None:
    first = made_file.report().plan.findings[0]

    assert f"outbox/{first.subject.replace(':', '/')}.md cannot be read: it is not there" in first.note


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda made: None, "approved.yaml cannot be read: it is not there"),
        (lambda made: made.approve_template(TEXT + "!", approved=TEXT), "was changed since jane approved it"),
        (lambda made: made.approve_template("Dear {{name}}"), "asks for 'name'"),
        (lambda made: _broken(made), "approved.yaml, line 1, column 10"),
        (lambda made: _without_text(made), "cannot be read: it is not there"),
    ],
)
def test_a_reminder_goes_out_only_in_words_that_somebody_approved(
    tmp_path: Path, state_store: StateStore, prepare: Callable[[Watch], None], why: str
) -> None:
    made = watch(tmp_path, state_store)
    made.customer("acme-1", REMINDER)
    prepare(made)

    finding = made.report().plan.findings[0]

    assert finding.verdict.value == "template_unapproved"
    assert why in finding.note
    assert made.propose().targets == ()


def _broken(made: Watch) -> None:
    made.approve_template()
    (made.route.templates / "approved.yaml").write_text("version: 7\ntemplates: {}\n")


def _without_text(made: Watch) -> None:
    made.approve_template()
    (made.route.templates / "missing-checkin-v1.md").unlink()


def test_a_mounted_directory_of_links_holds_templates_as_well(tmp_path: Path, state_store: StateStore) -> None:
    """Their digest proves them, wherever the bytes lie: orchestrators mount configuration as links."""
    made = watch(tmp_path, state_store)
    made.customer("acme-1", REMINDER)
    made.approve_template()
    made.route.templates.rename(tmp_path / "..data")
    made.route.templates.mkdir()
    for name in ("approved.yaml", "missing-checkin-v1.md"):
        (made.route.templates / name).symlink_to(tmp_path / "..data" / name)

    assert now_of(made) == ["due"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "check_ins.jsonl cannot be read: it is not there"),
        ('{"customer": "acme-1"}\n', "line 1 of the check-ins"),
        ('{"customer": "beta-2", "at": "2026-11-30T08:00:00+09:00", "source": "app"}\n{"cust', "line 2 of the check-ins"),
    ],
)
def test_evidence_that_cannot_be_read_is_never_no_check_in(
    tmp_path: Path, state_store: StateStore, text: str | None, why: str
) -> None:
    made = watch(tmp_path, state_store)
    made.approve_template()
    made.customer("acme-1", DAILY, REMINDER)
    evidence = tmp_path / "check_ins.jsonl"
    evidence.unlink()
    if text is not None:
        evidence.write_text(text)
    with_bodies(made)

    findings = {finding.verdict.value: finding.note for finding in made.report().plan.findings}

    assert why in findings["evidence_unreadable"]
    assert "due" in findings


def test_without_a_source_of_check_ins_no_reminder_is_sent(tmp_path: Path, state_store: StateStore) -> None:
    made = watch(tmp_path, state_store, check_ins=None)
    made.approve_template()
    made.customer("acme-1", REMINDER)

    assert now_of(made) == ["evidence_unreadable"]


# A table of check-ins


def table(
    database_url: str, name: str = "public.check_ins", columns: str = "customer text, at timestamptz, source text"
) -> CheckInTable:
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(
            sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(*name.split(".", 1)), sql.SQL(columns))  # type: ignore[arg-type]
        )
    url = make_url(database_url)
    return CheckInTable(url=url.set(password=None).render_as_string(), table=name, password=SecretStr(str(url.password or "")))


def insert(database_url: str, name: str, *rows: tuple[object, ...]) -> None:
    with psycopg.connect(database_url, autocommit=True) as admin:
        for row in rows:
            admin.execute(sql.SQL("INSERT INTO {} VALUES (%s, %s, %s)").format(sql.Identifier(*name.split(".", 1))), row)


def since(days: int = 3) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


@pytest.mark.parametrize("name", ["public.check_ins", "check_ins", 'public.check"; DROP TABLE plans; --', "public.Weird Name"])
def test_a_table_is_read_whatever_it_is_called_and_never_written(database_url: str, name: str) -> None:
    source = table(database_url, name)
    now = datetime.now(UTC)
    insert(database_url, name, ("acme-1", now, "app"), ("beta-2", now - timedelta(days=30), "app"))

    found = Evidence(source).read(since=since())

    assert isinstance(found, CheckIns)
    assert found.on("acme-1", now.date(), "UTC") is not None
    assert set(found.rows) == {"acme-1"}


@pytest.mark.parametrize(
    ("columns", "row", "why"),
    [
        ("customer text, at timestamptz, source text", (None, "now", "app"), "names no customer"),
        ("customer text, at timestamptz, source text", ("acme-1", "now", None), "has no source"),
        ("customer text, at timestamp, source text", ("acme-1", "now", "app"), "has no usable time with a zone"),
        ("customer text, at timestamptz, source text", ("acme-1", "infinity", "app"), "cannot be read"),
        ("customer text, at timestamptz", None, "cannot be read"),
    ],
)
def test_a_table_that_says_something_else_is_unreadable(
    database_url: str, columns: str, row: tuple[object, ...] | None, why: str
) -> None:
    source = table(database_url, columns=columns)
    if row is not None:
        insert(database_url, "public.check_ins", row)

    found = Evidence(source).read(since=since())

    assert isinstance(found, EvidenceUnreadable)
    assert why in found.why


@pytest.mark.parametrize(
    "source",
    [
        CheckInTable("postgresql://nobody@127.0.0.1:1/none", "check_ins", SecretStr("hunter2")),
        CheckInTable("mysql://nobody@127.0.0.1/none", "check_ins", SecretStr("hunter2")),
        CheckInTable("not a url", "check_ins", SecretStr("hunter2")),
    ],
    ids=["nobody there", "another database", "no URL"],
)
def test_a_database_that_cannot_be_asked_is_unreadable_and_its_password_is_shown_nowhere(source: CheckInTable) -> None:
    found = Evidence(source).read(since=since())

    assert isinstance(found, EvidenceUnreadable)
    assert "hunter2" not in f"{found} {source!r}"


def test_a_check_in_in_the_table_suppresses_a_reminder(tmp_path: Path, state_store: StateStore, database_url: str) -> None:
    source = table(database_url)
    made = watch(tmp_path, state_store, check_ins=source)
    made.approve_template()
    made.customer("acme-1", REMINDER)
    assert now_of(made) == ["due"]

    insert(database_url, "public.check_ins", ("acme-1", datetime.now(UTC), "app"))

    assert now_of(made) == ["suppressed"]


# What the ledger holds


def test_an_altered_record_blocks_its_own_slot_and_the_others_are_sent(
    tmp_path: Path, state_store: StateStore, database_url: str
) -> None:
    made = watch(tmp_path, state_store, "postgres")
    made.customer("acme-1", DAILY)
    made.customer("beta-2", DAILY)
    first, second = due_keys(made)
    made.drop(first)
    made.send()
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute("SET session_replication_role = replica")
        admin.execute("UPDATE opsguard.ledger_reservations SET state = 'prepared'")
    made.drop(second)

    verdicts = made.verdicts()

    assert (verdicts[first], verdicts[second]) == ("in_doubt", "due")
    assert list(made.send()) == [second]
    assert len(made.sent_files()) == 2


def test_a_window_that_closed_before_the_first_report_was_not_missed_and_one_after_it_was(made: Made) -> None:
    watch_ = made(policy=DeliveryPolicy(look_back_days=2))
    watch_.customer("acme-1", DAILY)
    today = due_keys(watch_)[0]

    first = watch_.verdicts()
    later = watch_.verdicts(at=datetime.now(UTC) + timedelta(days=1))

    assert "missed" not in first.values()
    assert later[today] == "missed"


def test_a_moment_to_come_does_not_list_the_days_before_it_as_missed(made: Made) -> None:
    """`report --at` a week ahead said of tomorrow: missed, tell the customer by hand."""
    watch_ = made(policy=DeliveryPolicy(look_back_days=7))
    watch_.customer("acme-1", DAILY)
    today = due_keys(watch_)[0]
    watch_.verdicts()
    then = watch_.verdicts(at=datetime.now(UTC) + timedelta(days=5))
    assert {slot for slot, verdict in then.items() if verdict == "missed"} <= {today}
    assert "due" in then.values() or "body_missing" in then.values()


def test_a_reservation_whose_window_is_over_is_given_up_and_its_customer_is_told_by_hand(made: Made) -> None:
    watch_ = made()
    watch_.customer("acme-1", DAILY)
    over = datetime.now(UTC) - timedelta(hours=30)
    slot = Slot("acme-1", f"{over:%Y-%m-%d}", "daily")
    there = Customer("acme-1", "acme-1", True, watch_.zone, Route(Provider.FILE, "acme"), ())
    rule = Rule(kind=Kind.DAILY, at=over.time(), catch_up=UntilWindowEnd.NONE)
    one = Owed(slot, there, rule, date(2026, 1, 1), over, over + timedelta(minutes=1))
    pins = pins_of(one, Body("late"), watch="customers", registry_sha256="a" * 64, config_sha256="b" * 64, may_fail_known=False)
    with open_ledger(watch_.route, watch_.state) as ledger:
        ledger.reserve(slot, pins, key="run-0")

    (done,) = watch_.recover()

    assert (done.slot, done.what) == (slot, Recovery.LAPSED)
    assert watch_.state_of(slot.key) == "abandoned"
    assert watch_.sent_files() == []


def test_the_six_checks_pass_after_a_run_and_notice_a_head_that_is_not_there(made: Made) -> None:
    watch_ = made()
    watch_.customer("acme-1", DAILY)
    with_bodies(watch_)
    watch_.send()

    with open_ledger(watch_.route, watch_.state) as ledger:
        good = examine(ledger, published=None)
        kept = examine(ledger, published=good.verification.head)
        lost = examine(ledger, published=Head(good.verification.head.sequence + 3, "ab" * 32))

    assert [one.name for one in good.outcomes] == [
        "chain_valid",
        "claims_paired",
        "head_extends_last_published",
        "no_stale_sending",
        "every_delivered_has_a_receipt",
        "one_delivery_per_slot",
    ]
    assert all(one.passed for one in (*good.outcomes, *kept.outcomes))
    assert [one.name for one in lost.outcomes if not one.passed] == ["head_extends_last_published"]


# Standing approvals


def standing(made: Watch, *customers: str, kinds: tuple[str, ...] = ("daily",)) -> int:
    allowed = made.state.standing.allow(
        made.route.name,
        customers=customers,
        kinds=kinds,
        by="Kim",
        comment="agreed with sales",
        until=datetime.now(UTC) + timedelta(days=30),
    )
    return allowed.id


def test_what_standing_approvals_cover_is_sent_without_a_decision_on_the_plan(made: Made) -> None:
    watch_ = made(auto_send=True, policy=DeliveryPolicy(only_standing=True))
    watch_.customer("acme-1", DAILY)
    watch_.customer("beta-2", DAILY)
    first, second = with_bodies(watch_)
    standing(watch_, "acme-1")
    stored = watch_.propose()

    decision = decide_by_standing(watch_.route, watch_.state, stored)
    sent = watch_.apply(stored)

    assert getattr(decision, "channel", decision) == "standing"
    assert list(sent) == [first]
    assert watch_.state_of(second) == "free"


@pytest.mark.parametrize("auto_send", [False, True])
def test_a_plan_that_is_not_covered_whole_or_may_not_be_is_left_to_a_person(made: Made, auto_send: bool) -> None:
    watch_ = made(auto_send=auto_send)
    watch_.customer("acme-1", DAILY)
    watch_.customer("beta-2", DAILY)
    with_bodies(watch_)
    standing(watch_, "acme-1", *(() if auto_send else ("beta-2",)))

    refused = decide_by_standing(watch_.route, watch_.state, watch_.propose())

    assert getattr(refused, "code", refused) == "not_approved"


def test_a_standing_approval_revoked_before_the_run_sends_nothing(made: Made) -> None:
    watch_ = made(auto_send=True)
    watch_.customer("acme-1", DAILY)
    with_bodies(watch_)
    number = standing(watch_, "acme-1")
    stored = watch_.propose()
    decide_by_standing(watch_.route, watch_.state, stored)
    watch_.state.standing.revoke(number, by="Lee", comment="stop")

    refused = watch_.apply(stored)

    assert getattr(refused, "code", refused) == "not_approved"
    assert watch_.sent_files() == []


def test_a_standing_approval_revoked_while_its_run_is_sending_stops_the_rest(made: Made) -> None:
    watch_ = made(auto_send=True)
    watch_.customer("acme-1", DAILY)
    watch_.customer("beta-2", DAILY)
    first, second = with_bodies(watch_)
    number = standing(watch_, "acme-1", "beta-2")
    stored = watch_.propose()
    decide_by_standing(watch_.route, watch_.state, stored)

    def revoke(step: Step, moment: Moment, subject: str) -> None:
        if (step, moment, subject) == (Step.RECEIPT, Moment.AFTER, first):
            watch_.state.standing.revoke(number, by="Lee", comment="stop")

    sent = watch_.apply(stored, watcher=revoke)

    assert not isinstance(sent, Refused)
    assert {key: one.outcome for key, one in sent.items()} == {first: Outcome.SENT, second: Outcome.STALE}
    assert watch_.state_of(second) == "free"


def test_switching_auto_send_off_stops_what_standing_approvals_had_decided(made: Made) -> None:
    watch_ = made(auto_send=True)
    watch_.customer("acme-1", DAILY)
    with_bodies(watch_)
    standing(watch_, "acme-1")
    stored = watch_.propose()
    decide_by_standing(watch_.route, watch_.state, stored)

    refused = replace(watch_, route=replace(watch_.route, auto_send=False)).apply(stored)

    assert isinstance(refused, Refused)
    assert "auto_send is off" in refused.message
    assert watch_.sent_files() == []


def test_a_plan_without_targets_is_nothing_for_standing_approvals(made: Made) -> None:
    watch_ = made(auto_send=True)
    watch_.customer("acme-1", DAILY)
    standing(watch_, "acme-1")

    refused = decide_by_standing(watch_.route, watch_.state, watch_.propose())

    assert getattr(refused, "code", refused) == "nothing_to_do"


def declined(made: Watch, stored: StoredPlan) -> None:
    made.state.decide(
        stored.digest, kind=DecisionKind.DECLINED, by="Lee", comment="", valid_for=timedelta(hours=12), channel="test"
    )


def only_standing(made: Watch) -> Watch:
    """As the sensor looks."""
    return replace(made, route=replace(made.route, policy=DeliveryPolicy(only_standing=True)))


def test_a_declined_plan_is_not_sent_under_another_digest_by_standing_approval(made: Made) -> None:
    """A person declined the reported plan; the sensor planned the same message under its own policy and sent it."""
    watch_ = made(auto_send=True)
    watch_.customer("acme-1", DAILY)
    watch_.customer("beta-2", DAILY)
    first, _ = with_bodies(watch_)
    standing(watch_, "acme-1")
    declined(watch_, watch_.propose())

    plan = only_standing(watch_).report().plan

    assert plan.targets == ()
    (finding,) = (one for one in plan.findings if one.subject == first)
    assert "Lee declined a plan with it" in finding.note
    assert finding.facts["standing_approval"] is False


def test_a_declined_slot_is_not_decided_by_standing_approval_with_one_more_customer_due(made: Made) -> None:
    watch_ = made(auto_send=True)
    watch_.customer("acme-1", DAILY)
    with_bodies(watch_)
    standing(watch_, "acme-1", "beta-2")
    declined(watch_, watch_.propose())
    watch_.customer("beta-2", DAILY)
    _, second = with_bodies(watch_)

    refused = decide_by_standing(watch_.route, watch_.state, watch_.propose())
    targets = only_standing(watch_).report().plan.targets

    assert getattr(refused, "code", refused) == "declined"
    assert [target.subject for target in targets] == [second]


def sent_and_declined_after(made: Watch, stored: StoredPlan, subject: str) -> dict[str, Sent]:
    """A person declines the plan when the run has just sent this one."""

    def decline(*at: object) -> None:
        if at == (Step.RECEIPT, Moment.AFTER, subject):
            declined(made, stored)

    sent = made.apply(stored, watcher=decline)
    assert not isinstance(sent, Refused)
    return dict(sent)


def test_a_plan_declined_while_its_run_sends_by_standing_approval_stops_the_rest(made: Made) -> None:
    watch_ = made(auto_send=True)
    watch_.customer("acme-1", DAILY)
    watch_.customer("beta-2", DAILY)
    first, second = with_bodies(watch_)
    standing(watch_, "acme-1", "beta-2")
    stored = watch_.propose()
    decide_by_standing(watch_.route, watch_.state, stored)

    sent = sent_and_declined_after(watch_, stored, first)

    assert {key: one.outcome for key, one in sent.items()} == {first: Outcome.SENT, second: Outcome.STALE}
    assert watch_.state_of(second) == "free"


def test_a_person_who_declines_the_plan_that_is_being_sent_stops_the_rest(made: Made) -> None:
    watch_ = made()
    watch_.customer("acme-1", DAILY)
    watch_.customer("beta-2", DAILY)
    first, second = with_bodies(watch_)
    stored = watch_.approved()

    sent = sent_and_declined_after(watch_, stored, first)

    assert {key: one.outcome for key, one in sent.items()} == {first: Outcome.SENT, second: Outcome.STALE}
    assert "Lee declined the plan" in sent[second].message
    assert watch_.state_of(second) == "free"
    assert len(watch_.sent_files()) == 1
