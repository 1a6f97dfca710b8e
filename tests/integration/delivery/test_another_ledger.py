"""The ledger that a watch kept is exchanged, lost, cut back or asked about other slots: nothing that was sent may look unsent."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from guards.delivery.row import Head
from guards.refusal import RefusalCode, Refused
from resources.delivery.ledger import open_ledger
from resources.delivery.sent import Outcome
from resources.delivery.steps import Moment, Step
from resources.errors import Unreachable
from resources.ledger.file.store import FileLedger
from resources.state import StateStore
from tests.integration.delivery.watch import DAILY, WEEKLY, Watch
from tests.integration.delivery.watch import watch as watch_of

Made = Callable[..., Watch]


@pytest.fixture
def filed(tmp_path: Path, state_store: StateStore) -> Watch:
    return watch_of(tmp_path, state_store, "file")


def with_bodies(watch: Watch) -> list[str]:
    keys = [key for key, verdict in watch.verdicts().items() if verdict in ("due", "body_missing")]
    for key in keys:
        watch.drop(key)
    return keys


def refused(answer: object) -> Refused:
    assert isinstance(answer, Refused), answer
    return answer


def test_a_ledger_that_is_gone_is_not_made_anew(filed: Watch) -> None:
    """A disk that was not mounted looked like an empty ledger, and every message of the day went out again."""
    filed.customer("acme-1", DAILY)
    with_bodies(filed)
    filed.send()
    filed.customer("bolt-1", DAILY)
    with_bodies(filed)
    stored = filed.approved()
    shutil.rmtree(filed.route.ledger_dir)

    with pytest.raises(Unreachable, match=r"opsguard ledger accept customers"):
        filed.report()
    with pytest.raises(Unreachable):
        filed.apply(stored)

    filed.route.ledger_dir.mkdir(mode=0o700)
    with pytest.raises(Unreachable):
        filed.report()
    assert list(filed.route.ledger_dir.iterdir()) == [], "an empty mount point stays empty"
    assert len(filed.sent_files()) == 1


def test_another_store_in_its_place_makes_no_targets(filed: Watch, tmp_path: Path) -> None:
    filed.customer("acme-1", DAILY)
    with_bodies(filed)
    filed.send()
    filed.customer("bolt-1", DAILY)
    with_bodies(filed)
    stored = filed.approved()
    filed.route.ledger_dir.rename(tmp_path / "moved")
    FileLedger.open(filed.route.ledger_dir).close()

    plan = filed.report().plan

    assert plan.targets == ()
    assert "its ledger was file " in plan.observation
    assert "opsguard ledger accept customers" in plan.observation
    assert refused(filed.apply(stored)).code is RefusalCode.POLICY_CHANGED
    assert len(filed.sent_files()) == 1


def test_a_head_that_the_chain_does_not_extend_refuses_the_run_before_it_is_authorised(made: Made) -> None:
    watch = made()
    watch.customer("acme-1", DAILY)
    with_bodies(watch)
    stored = watch.approved()
    with open_ledger(watch.route, watch.state) as ledger:
        store = ledger.health().store
    watch.state.published.publish(store, Head(40, "ab" * 32), run_id="run-0", watch="customers")

    answer = refused(watch.apply(stored))

    assert answer.code is RefusalCode.OBSERVATION_INCOMPLETE
    assert "does not hold row 40" in answer.message
    decision = watch.state.decision(stored.digest)
    assert decision is not None
    assert not decision.used_by
    assert watch.sent_files() == []
    assert "does not hold row 40" in watch.report().plan.observation


def test_another_slot_identity_makes_no_targets_until_a_person_accepts_it(made: Made) -> None:
    """A weekly message that had gone out was due again, under the key of its day."""
    watch = made()
    watch.customer("acme-1", WEEKLY)
    with_bodies(watch)
    watch.send()
    registry = watch.route.registry.read_text()
    watch.route.registry.write_text(registry.replace("version: 1\n", "version: 1\ndefaults: {slot_identity: day}\n"))
    with_bodies(watch)

    plan = watch.report().plan

    assert plan.targets == ()
    assert "slot_identity was period and is day" in plan.observation


def test_what_has_a_receipt_is_sent_even_when_its_ledger_was_lost_and_that_was_accepted(filed: Watch) -> None:
    filed.customer("acme-1", DAILY)
    (key,) = with_bodies(filed)
    stored = filed.approved()
    filed.send()
    shutil.rmtree(filed.route.ledger_dir)
    with FileLedger.open(filed.route.ledger_dir) as ledger:
        store = ledger.health().store
    filed.state.published.accept("customers", store, Head(), slot_identity="period", by="Ada", comment="the disk is gone")

    found = next(one for one in filed.report().plan.findings if one.subject == key)

    assert found.verdict == "sent"
    assert "a receipt proves that it was sent" in found.note
    assert refused(filed.apply(stored))
    assert len(filed.sent_files()) == 1


def test_what_was_due_before_a_copy_was_accepted_is_said_to_open_in_doubt_and_does(filed: Watch) -> None:
    """The report listed it as to be sent, and a person learnt only from the run that nothing was."""
    filed.customer("acme-1", DAILY)
    with_bodies(filed)
    filed.send()
    kept = filed.route.ledger_dir
    shutil.copytree(kept, kept.with_name("copy"))
    shutil.rmtree(kept)
    kept.with_name("copy").rename(kept)
    with FileLedger.open(kept) as ledger:
        assert ledger.repair(accept_copy=True).left == ()
        store = ledger.health().store
    filed.state.published.accept("customers", store, Head(), slot_identity="period", by="Ada", comment="restored")
    filed.customer("bolt-1", DAILY)
    (key,) = with_bodies(filed)
    (found,) = [one for one in filed.report().plan.findings if one.subject == key]
    assert "opens it in doubt, for you to resolve, and sends nothing" in found.note

    filed.send()

    assert filed.state_of(key) == "unknown"
    assert filed.verdicts()[key] == "in_doubt"
    assert len(filed.sent_files()) == 1


def test_a_run_whose_call_is_not_granted_since_the_message_is_doubt_now_says_so(tmp_path: Path, state_store: StateStore) -> None:
    """It was told as failed and not sent, of what may have been sent by the ledger that is gone."""
    watch = watch_of(tmp_path, state_store, "postgres")
    watch.customer("acme-1", DAILY)
    (key,) = with_bodies(watch)
    watch.killed_at(watch.approved(), Step.GRANT, Moment.BEFORE)
    assert watch.state_of(key) == "prepared"
    with watch.state.engine.begin() as connection:
        connection.execute(text("UPDATE opsguard.ledger_head SET accepted_at = clock_timestamp()"))

    told = watch.send()[key]

    assert told.outcome is Outcome.UNKNOWN
    assert "before a copy of the ledger was accepted" in told.message
    assert watch.state_of(key) == "unknown"
    assert watch.sent_files() == []
