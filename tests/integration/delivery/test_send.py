"""An approved plan sends exactly its targets, each once; everything else is left as it is."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from guards.delivery.message import key_for
from guards.delivery.outcome import Approval
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.slot import Slot
from guards.gate import Flags
from guards.refusal import RefusalCode, Refused
from resources.delivery.ledger import open_ledger
from resources.delivery.observe import current_pins
from resources.delivery.sent import Outcome
from resources.delivery.steps import Moment, Step
from resources.errors import ConfigurationError
from resources.providers.settings import ProviderSettings, WebhookEndpoint
from resources.state import StateStore
from tests.integration.delivery.watch import CUTOFF, DAILY, MONTHLY, REMINDER, WEEKLY, Watch
from tests.integration.delivery.watch import watch as watch_of
from tests.patience import PATIENCE_SECONDS
from tests.servers.webhook import Lie, LookUp, lying_webhook

Made = Callable[..., Watch]


def due_keys(watch: Watch) -> list[str]:
    """Of every slot that lacks only its body."""
    return [key for key, verdict in watch.verdicts().items() if verdict in ("due", "body_missing")]


def with_bodies(watch: Watch) -> list[str]:
    """Each open slot of the outbox has its body now."""
    keys = due_keys(watch)
    for key in keys:
        if not key.endswith(":reminder"):
            watch.drop(key, f"# {key}\n\nHello.\n")
    return keys


def refused(answer: object) -> Refused:
    assert isinstance(answer, Refused), answer
    return answer


def test_each_kind_is_sent_once_under_its_reservations_key(made: Made) -> None:
    watch = made()
    watch.approve_template()
    watch.customer("acme-1", DAILY, WEEKLY, MONTHLY, CUTOFF, REMINDER)
    keys = with_bodies(watch)

    sent = watch.send()

    assert sorted(sent) == sorted(keys)
    assert len(keys) == 5
    assert {one.outcome for one in sent.values()} == {Outcome.SENT}
    published = {str(one["key"]): one for one in watch.sent_files()}
    assert sorted(published) == sorted(key_for("customers", Slot(*key.split(":")).reservation_id(1)) for key in keys)
    reminder = next(key for key in keys if key.endswith("reminder"))
    assert "Dear acme-1, nobody checked in on" in str(published[sent[reminder].key]["body"])
    assert {one.evidence["key"] for one in watch.state.receipts(guard="delivery")} == set(published)


def test_a_second_run_has_nothing_to_send(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    watch.send()

    stored = watch.propose()

    assert stored.targets == ()
    assert watch.verdicts()[key] == "sent"
    assert refused(watch.apply(stored)).code is RefusalCode.NOTHING_TO_DO
    assert len(watch.sent_files()) == 1


def test_an_approval_is_used_once(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    with_bodies(watch)
    stored = watch.approved()
    watch.apply(stored)

    again = watch.apply(stored)

    assert refused(again).code is RefusalCode.ALREADY_USED
    assert len(watch.sent_files()) == 1


def test_the_same_run_asked_again_sends_nothing_and_says_what_it_sent(made: Made) -> None:
    """Re-executing a failed Dagster run under its own id must not call anybody again."""
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    stored = watch.approved()
    watch.apply(stored, run_id="run-7")

    again = watch.apply(stored, run_id="run-7")

    assert not isinstance(again, Refused)
    assert again[key].outcome is Outcome.ALREADY_SENT
    assert again[key].receipt is not None
    assert len(watch.sent_files()) == 1


def test_what_became_due_since_the_plan_is_not_sent_with_it(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    watch.customer("beta-2", DAILY)
    first, second = due_keys(watch)
    watch.drop(first)
    stored = watch.approved()
    watch.drop(second)

    sent = watch.apply(stored)

    assert not isinstance(sent, Refused)
    assert list(sent) == [first]
    assert watch.state_of(second) == "free"
    assert watch.verdicts()[second] == "due"


def test_a_registry_changed_since_the_approval_sends_nothing(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    with_bodies(watch)
    stored = watch.approved()
    watch.customer("beta-2", DAILY)

    answer = refused(watch.apply(stored))

    assert answer.code is RefusalCode.POLICY_CHANGED
    assert "registry_sha256" in answer.message
    assert watch.sent_files() == []


def test_a_policy_changed_since_the_approval_sends_nothing(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    with_bodies(watch)
    stored = watch.approved()
    other = replace(watch, route=replace(watch.route, policy=DeliveryPolicy(max_messages_per_run=7)))

    answer = refused(other.apply(stored))

    assert answer.code is RefusalCode.POLICY_CHANGED
    assert "max_messages_per_run" in answer.message
    assert watch.sent_files() == []


def test_a_body_changed_since_the_approval_sends_nothing(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    stored = watch.approved()
    watch.drop(key, "something else")

    answer = refused(watch.apply(stored))

    assert answer.code is RefusalCode.STALE
    assert key in answer.message
    assert watch.state_of(key) == "free"


def test_a_body_changed_right_before_its_call_stops_that_message_alone(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    watch.customer("beta-2", DAILY)
    first, second = with_bodies(watch)

    def change(step: Step, moment: Moment, subject: str) -> None:
        if (step, moment, subject) == (Step.RECHECK, Moment.BEFORE, first):
            watch.drop(first, "something else")

    sent = watch.send(watcher=change)

    assert (sent[first].outcome, sent[second].outcome) == (Outcome.STALE, Outcome.SENT)
    assert watch.state_of(first) == "free"


@pytest.mark.parametrize(
    ("flags", "code"),
    [(Flags(dry_run=True, auto_remediate=True), "dry_run"), (Flags(dry_run=False, auto_remediate=False), "remediation_disabled")],
)
def test_without_both_keys_nothing_is_sent(made: Made, flags: Flags, code: str) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    with_bodies(watch)

    answer = watch.apply(watch.approved(), flags=flags)

    assert refused(answer).code == code
    assert watch.sent_files() == []


def test_a_check_in_that_arrives_at_the_last_moment_suppresses_its_reminder(made: Made) -> None:
    watch = made()
    watch.approve_template()
    watch.customer("acme-1", REMINDER)
    (key,) = due_keys(watch)

    def arrive(step: Step, moment: Moment, _: str) -> None:
        if (step, moment) == (Step.RESERVE, Moment.AFTER):
            watch.check_in("acme-1")

    sent = watch.send(watcher=arrive)

    assert sent[key].outcome is Outcome.SUPPRESSED
    held = watch.held(key)
    assert held is not None
    assert (held.state, held.reason) == ("abandoned", "terminal_response")
    assert watch.sent_files() == []
    assert watch.verdicts()[key] == "suppressed"


def test_a_check_in_between_plan_and_call_ends_its_reminder_and_the_others_go_on(made: Made) -> None:
    """One customer who checked in after the report made the whole plan stale, and nobody got a message that morning."""
    watch = made()
    watch.approve_template()
    watch.customer("acme-1", DAILY, REMINDER)
    keys = with_bodies(watch)
    stored = watch.approved()
    watch.check_in("acme-1")

    sent = watch.apply(stored)

    assert not isinstance(sent, Refused)
    assert {key.rpartition(":")[2]: one.outcome for key, one in sent.items()} == {
        "daily": Outcome.SENT,
        "reminder": Outcome.SUPPRESSED,
    }
    assert watch.state_of(next(key for key in keys if key.endswith("reminder"))) == "free"


def test_when_all_that_was_planned_has_ended_the_approval_is_not_used(made: Made) -> None:
    watch = made()
    watch.approve_template()
    watch.customer("acme-1", REMINDER)
    stored = watch.approved()
    watch.check_in("acme-1")

    answer = refused(watch.apply(stored))

    assert answer.code is RefusalCode.STALE
    decision = watch.state.decision(stored.digest)
    assert decision is not None
    assert decision.used_by == ""


def test_evidence_that_breaks_at_the_last_moment_sends_no_reminder(made: Made) -> None:
    watch = made()
    watch.approve_template()
    watch.customer("acme-1", REMINDER)
    (key,) = due_keys(watch)
    evidence = watch.root / "check_ins.jsonl"

    def break_it(step: Step, moment: Moment, _: str) -> None:
        if (step, moment) == (Step.RESERVE, Moment.AFTER):
            evidence.write_text('{"customer": "acme-1", "at"')

    sent = watch.send(watcher=break_it)

    assert sent[key].outcome is Outcome.STALE
    assert watch.state_of(key) == "prepared"
    assert watch.verdicts()[key] == "evidence_unreadable"
    evidence.write_text("")
    assert watch.verdicts()[key] == "due"
    assert watch.send()[key].outcome is Outcome.SENT
    assert len(watch.sent_files()) == 1


def test_two_runs_at_once_send_once(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    stored = watch.approved()
    inside, go_on = threading.Event(), threading.Event()

    def wait(step: Step, moment: Moment, _: str) -> None:
        if (step, moment) == (Step.CALL, Moment.BEFORE):
            inside.set()
            assert go_on.wait(PATIENCE_SECONDS)

    answers: list[object] = []
    first = threading.Thread(target=lambda: answers.append(watch.apply(stored, run_id="run-1", watcher=wait)))
    first.start()
    assert inside.wait(PATIENCE_SECONDS)
    second = watch.apply(stored, run_id="run-2")
    go_on.set()
    first.join(PATIENCE_SECONDS)

    assert refused(second).code in (RefusalCode.BUSY, RefusalCode.ALREADY_USED)
    assert isinstance(answers[0], dict)
    assert answers[0][key].outcome is Outcome.SENT
    assert len(watch.sent_files()) == 1


def test_a_no_is_a_known_failure_where_the_kind_allows_it_and_doubt_elsewhere(made: Made) -> None:
    with lying_webhook(Lie.REJECT) as server:
        hook = WebhookEndpoint(url=f"{server.url}/in")
        watch = made(providers=ProviderSettings(webhooks={"crm": hook}))
        watch.approve_template()
        watch.customer("acme-1", DAILY, REMINDER, route="{provider: webhook, webhook: crm}")
        keys = with_bodies(watch)

        sent = watch.send()

        outcomes = {key.rpartition(":")[2]: (sent[key].outcome, watch.state_of(key)) for key in keys}
        assert outcomes == {"daily": (Outcome.UNKNOWN, "unknown"), "reminder": (Outcome.FAILED, "known_failure")}
        assert watch.propose().targets == ()
        assert server.posts == 2


def test_a_person_may_allow_another_attempt_at_a_known_failure_after_its_cause_was_corrected(made: Made) -> None:
    with lying_webhook(Lie.REJECT) as refusing, lying_webhook() as taking:
        hooks = {"old": WebhookEndpoint(url=f"{refusing.url}/in"), "new": WebhookEndpoint(url=f"{taking.url}/in")}
        watch = made(providers=ProviderSettings(webhooks=hooks))
        watch.approve_template()
        watch.customer("acme-1", REMINDER, route="{provider: webhook, webhook: old}")
        (key,) = due_keys(watch)
        watch.send()
        watch.customer("acme-1", REMINDER, route="{provider: webhook, webhook: new}")
        slot = Slot(*key.split(":"))
        with open_ledger(watch.route, watch.state) as ledger:
            pins = current_pins(watch.route, watch.state, ledger, slot)
            assert pins is not None
            ledger.replace(slot, approval=Approval(0, "Lee", "", "channel corrected"), key="by-hand", pins=pins)

        sent = watch.send()

        assert sent[key].outcome is Outcome.SENT
        assert taking.accepted == [key_for("customers", slot.reservation_id(2))]
        assert refusing.accepted == []


def test_an_answer_that_is_lost_is_doubt_and_the_next_plan_does_not_send_it(made: Made) -> None:
    with lying_webhook(Lie.ACCEPT_THEN_DROP, look_up=LookUp.FAILS) as server:
        hook = WebhookEndpoint(url=f"{server.url}/in", lookup_url=f"{server.url}/in", timeout_seconds=PATIENCE_SECONDS)
        watch = made(providers=ProviderSettings(webhooks={"crm": hook}))
        watch.customer("acme-1", DAILY, route="{provider: webhook, webhook: crm}")
        (key,) = with_bodies(watch)

        sent = watch.send()

        assert sent[key].outcome is Outcome.UNKNOWN
        assert watch.verdicts()[key] == "in_doubt"
        assert watch.propose().targets == ()
        assert server.posts == 1


def test_a_provider_that_is_down_does_not_leave_a_doubt_for_every_customer(made: Made) -> None:
    """500 customers were in doubt one morning, and each had to be resolved by hand."""
    with lying_webhook(Lie.ACCEPT_THEN_RESET, look_up=LookUp.FAILS) as server:
        hook = WebhookEndpoint(url=f"{server.url}/in", timeout_seconds=PATIENCE_SECONDS)
        watch = made(providers=ProviderSettings(webhooks={"crm": hook}, file_provider_dir=None))
        for number in range(6):
            watch.customer(f"acme-{number}", DAILY, route="{provider: webhook, webhook: crm}")
        keys = with_bodies(watch)

        sent = watch.send()

        assert [sent[key].outcome for key in keys] == [Outcome.UNKNOWN] * 3 + [Outcome.HELD] * 3
        assert [watch.state_of(key) for key in keys[3:]] == ["free"] * 3
        assert server.posts == 3


def test_a_route_without_settings_is_due_and_never_planned(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY, route="{provider: slack, channel: C0123456}")
    (key,) = with_bodies(watch)

    stored = watch.propose()

    assert stored.targets == ()
    assert "no slack" in str(next(one["note"] for one in stored.findings if one["subject"] == key))


def test_a_registry_that_cannot_be_used_sends_nothing_and_says_where(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    with_bodies(watch)
    stored = watch.approved()
    watch.customer("acme-1", DAILY, more="surprise: 1")

    with pytest.raises(ConfigurationError, match=r"line \d+, column \d+"):
        watch.apply(stored)

    assert watch.sent_files() == []


def test_what_would_be_due_tomorrow_is_shown_and_cannot_be_sent(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    with_bodies(watch)
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    observed = watch.report(at=tomorrow)

    assert observed.plan.targets == ()
    assert "only shown, never sent" in observed.plan.observation
    assert len(observed.plan.findings) >= 1


def test_a_plan_of_another_ledger_is_refused(tmp_path: Path, state_store: StateStore) -> None:
    """Somebody pointed the watch at a fresh ledger directory, which knew nothing of what had been sent."""
    watch = watch_of(tmp_path, state_store)
    watch.customer("acme-1", DAILY)
    with_bodies(watch)
    stored = watch.approved()
    elsewhere = replace(watch, route=replace(watch.route, ledger_dir=watch.root / "ledger-2"))

    answer = refused(elsewhere.apply(stored))

    assert answer.code is RefusalCode.POLICY_CHANGED
    assert "ledger" in answer.message
