"""A run that dies anywhere: nothing that may have gone out goes out again, and nothing that did not is forgotten."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from guards.check import CheckOutcome
from resources.delivery.examine import examine
from resources.delivery.ledger import open_ledger
from resources.delivery.receipts import without_receipt
from resources.delivery.recover import Recovery
from resources.delivery.sent import Outcome
from resources.delivery.steps import Moment, Step
from resources.ledger.interface import Ledger
from resources.providers.settings import ProviderSettings, WebhookEndpoint
from resources.state.receipts_owed import add_owed
from tests.integration.delivery.test_send import due_keys, with_bodies
from tests.integration.delivery.watch import DAILY, REMINDER, Watch
from tests.servers.webhook import lying_webhook

pytestmark = pytest.mark.crash

Made = Callable[..., Watch]


@pytest.mark.parametrize(
    ("step", "moment"),
    [
        (Step.RECHECK, Moment.AFTER),
        (Step.RESERVE, Moment.BEFORE),
        (Step.RESERVE, Moment.AFTER),
        (Step.EVIDENCE, Moment.AFTER),
        (Step.GRANT, Moment.BEFORE),
    ],
)
def test_a_run_that_dies_before_its_grant_leaves_a_message_that_the_next_plan_sends_once(
    made: Made, step: Step, moment: Moment
) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    watch.killed_at(watch.approved(), step, moment)
    assert watch.sent_files() == []
    assert watch.verdicts()[key] == "due"

    sent = watch.send()

    assert sent[key].outcome is Outcome.SENT
    assert len(watch.sent_files()) == 1


@pytest.mark.parametrize(("step", "moment"), [(Step.GRANT, Moment.AFTER), (Step.CALL, Moment.BEFORE)])
def test_a_run_that_dies_between_grant_and_call_leaves_doubt_and_nobody_calls(made: Made, step: Step, moment: Moment) -> None:
    """That the provider does not show it proves nothing: it stays in doubt until a person has looked."""
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    watch.killed_at(watch.approved(), step, moment)

    done = watch.recover()

    assert [one.what for one in done] == [Recovery.EXPIRED, Recovery.IN_DOUBT]
    assert watch.state_of(key) == "unknown"
    assert watch.verdicts()[key] == "in_doubt"
    assert watch.propose().targets == ()
    assert watch.sent_files() == []
    finding = next(one for one in watch.report().plan.findings if one.subject == key)
    assert "The file provider" in finding.note


@pytest.mark.parametrize(("step", "moment"), [(Step.CALL, Moment.AFTER), (Step.SETTLE, Moment.BEFORE)])
def test_a_run_that_dies_after_its_call_is_settled_by_what_the_provider_holds(made: Made, step: Step, moment: Moment) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    watch.killed_at(watch.approved(), step, moment)
    assert len(watch.sent_files()) == 1

    done = watch.recover()

    assert [one.what for one in done] == [Recovery.EXPIRED, Recovery.FOUND]
    assert watch.state_of(key) == "resolved_sent"
    assert watch.verdicts()[key] == "sent"
    assert watch.propose().targets == ()
    assert len(watch.sent_files()) == 1


@pytest.mark.parametrize(("step", "moment"), [(Step.SETTLE, Moment.AFTER), (Step.RECEIPT, Moment.BEFORE)])
def test_a_run_that_dies_after_settling_has_sent_and_nothing_is_in_doubt(made: Made, step: Step, moment: Moment) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    watch.killed_at(watch.approved(), step, moment)

    assert watch.state_of(key) == "delivered"
    assert watch.verdicts()[key] == "sent"
    assert [one.what for one in watch.recover()] == ([Recovery.RECEIPTED] if step is Step.RECEIPT else [])
    assert len(watch.sent_files()) == 1


def test_a_provider_that_cannot_look_is_asked_nothing_twice_and_called_once(made: Made) -> None:
    with lying_webhook() as server:
        watch = made(providers=ProviderSettings(webhooks={"crm": WebhookEndpoint(url=f"{server.url}/in")}))
        watch.customer("acme-1", DAILY, route="{provider: webhook, webhook: crm}")
        watch.customer("beta-2", DAILY, route="{provider: webhook, webhook: crm}")
        first, second = with_bodies(watch)
        watch.killed_at(watch.approved(), Step.CALL, Moment.AFTER)

        watch.recover()
        sent = watch.send()

        assert watch.state_of(first) == "unknown"
        assert list(sent) == [second]
        assert len(server.accepted) == 2
        assert len(set(server.accepted)) == 2


def test_a_live_call_is_left_alone(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    seen: list[object] = []

    def look(step: Step, moment: Moment, _: str) -> None:
        if (step, moment) == (Step.CALL, Moment.BEFORE):
            seen.extend([watch.recover(), watch.state_of(key), watch.verdicts()[key]])

    sent = watch.send(watcher=look)

    assert seen == [(), "sending", "sending"]
    assert sent[key].outcome is Outcome.SENT


def test_recovering_twice_changes_nothing_more(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    with_bodies(watch)
    watch.killed_at(watch.approved(), Step.GRANT, Moment.AFTER)
    watch.recover()

    with open_ledger(watch.route, watch.state) as ledger:
        before = ledger.head()
    again_done = watch.recover()

    with open_ledger(watch.route, watch.state) as ledger:
        assert ledger.head() == before
    assert [one.what for one in again_done] == [Recovery.IN_DOUBT]


def test_a_reminder_reserved_by_a_dead_run_is_not_sent_once_its_check_in_is_there(made: Made) -> None:
    watch = made()
    watch.approve_template()
    watch.customer("acme-1", REMINDER)
    (key,) = due_keys(watch)
    watch.killed_at(watch.approved(), Step.RESERVE, Moment.AFTER)
    watch.check_in("acme-1")

    assert watch.verdicts()[key] == "suppressed"
    assert watch.propose().targets == ()
    assert watch.sent_files() == []


def test_a_receipt_that_a_dead_run_could_not_write_is_written_from_the_ledger_by_recovery(made: Made) -> None:
    """The message was in the ledger and its receipt was nowhere, for good: the check said that each had its evidence."""
    watch = made()
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    stored = watch.approved()
    watch.killed_at(stored, Step.RECEIPT, Moment.BEFORE, run_id="died")
    with open_ledger(watch.route, watch.state) as ledger:
        before = receipts_check(watch, ledger)

    done = watch.recover()
    (receipt,) = watch.state.receipts()
    with open_ledger(watch.route, watch.state) as ledger:
        after = receipts_check(watch, ledger)

    assert not before.passed
    assert "no receipt in the state database" in before.message
    assert [(one.slot.key, one.what) for one in done] == [(key, Recovery.RECEIPTED)]
    assert (receipt.subject, receipt.run_id, receipt.approved_by, receipt.plan_digest) == (key, "died", "Kim", stored.digest)
    assert receipt.evidence["written_by"] == "recovery"
    assert after.passed
    assert watch.recover() == ()
    assert len(watch.sent_files()) == 1


def receipts_check(watch: Watch, ledger: Ledger) -> CheckOutcome:
    examined = examine(ledger, published=None, without_receipt=lambda: set(without_receipt(watch.route, watch.state)))
    return next(one for one in examined.outcomes if one.name == "every_delivered_has_a_receipt")


def test_a_receipt_is_written_late_only_for_a_call_that_a_run_recorded(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    with_bodies(watch)
    watch.send()
    (receipt,) = watch.state.receipts()

    with pytest.raises(ValueError, match="recorded no intent"):
        add_owed(watch.state.engine, replace(receipt, subject="beta-2:2026-11-30:daily"))

    assert add_owed(watch.state.engine, receipt) == receipt
    assert watch.state.receipts() == [receipt]
