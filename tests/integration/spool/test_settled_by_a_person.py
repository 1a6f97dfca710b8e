"""What looking cannot settle, a person does: `opsguard ledger resolve`, and what the next report makes of it.

The incident: an upload's answer was lost, the partner had moved the file, and nobody could tell. Somebody telephoned, and then had no
place to put the answer but a file moved by hand.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from guards.delivery.pins import Pins
from guards.delivery.slot import Grant, Slot
from resources.spool.memory import feed_slot
from resources.spool.sent import Outcome
from resources.state import StateStore
from tests.integration.command import Command
from tests.integration.spool.world import Place, at_partner, sha256
from tests.servers.ftp_faults import Faults, FaultyFtp, faulty_ftp
from tests.servers.peer import Peer

On = Callable[..., Place]
FEED = b"0123456789abcdef" * 512
BY = ("--by", "Kim", "--comment", "acme was asked, ticket 4711")


@pytest.fixture
def opsguard(tmp_path: Path, database_url: str) -> Command:
    return Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home"), "OPSGUARD_STATE_URL": database_url})


@contextmanager
def in_doubt(on: On, sftp: Peer, *, consumes: bool) -> Iterator[tuple[Place, FaultyFtp]]:
    """The answer to the rename was lost, and the file was gone at the next look: an approved `resolve` cannot tell either."""
    with faulty_ftp(Faults(machine=True)) as server:
        world = at_partner(on(sftp), server.endpoint(consumes_on_arrival=consumes))
        world.feed("feed.csv", FEED)
        report = world.report()
        world.approve(report)
        server.faults.after_reply_lost = "RNTO"

        def taken(step: object, moment: object, _name: str) -> None:
            if (step, moment) == ("place", "after"):
                server.faults.after_reply_lost = ""
                del server.files[b"feed.csv"]

        assert world.apply(report, watcher=taken).outcomes == {"feed.csv": Outcome.UNKNOWN}
        assert world.verdicts() == {"feed.csv": "delivery_unknown"}
        assert world.repair().outcomes == {"feed.csv": Outcome.UNKNOWN}, "looking cannot tell"
        assert placed(server) == 1
        yield world, server


def placed(server: FaultyFtp) -> int:
    return server.record.count("RNTO /inbox/feed.csv")


def slot_of(world: Place) -> Slot:
    return feed_slot(world.route, "feed.csv", sha256(FEED))


@pytest.mark.parametrize("consumes", [True, False], ids=["consuming", "keeping"])
def test_what_a_person_says_was_not_sent_is_sent_by_the_next_plan(on: On, sftp: Peer, opsguard: Command, consumes: bool) -> None:
    with in_doubt(on, sftp, consumes=consumes) as (world, server):
        slot = slot_of(world)
        shown = opsguard("ledger", "resolve", slot.key, "--not-sent", *BY)
        assert (shown.code, "unknown" in shown.out, "--yes" in shown.out) == (0, True, True), shown.err
        assert world.verdicts() == {"feed.csv": "delivery_unknown"}, "only shown"

        done = opsguard("ledger", "resolve", slot.key, "--not-sent", *BY, "--yes", "--json")
        assert done.code == 0, done.err
        (said,) = done.objects
        assert (said["held"]["state"], said["resolved"]["state"], said["refusal"]) == ("unknown", "resolved_not_sent", None)
        evidence = said["resolved"]["evidence"]
        assert (evidence["by"], evidence["comment"], set(evidence)) == ("Kim", BY[3], {"by", "comment", "at"})

        assert world.verdicts() == {"feed.csv": "missing"}
        assert world.repair().outcomes == {"feed.csv": Outcome.DELIVERED}
        assert server.files == {b"feed.csv": FEED}
        assert placed(server) == 2
        attempts = world.store.ledger.of(slot)
        assert [(one.attempt, one.state.value) for one in attempts] == [(1, "resolved_not_sent"), (2, "delivered")]


@pytest.mark.parametrize(
    ("consumes", "verdict"), [(True, "delivered_consumed"), (False, "lost_after_delivery")], ids=["consuming", "keeping"]
)
def test_what_a_person_says_was_sent_is_never_sent_again(
    on: On, sftp: Peer, opsguard: Command, consumes: bool, verdict: str
) -> None:
    with in_doubt(on, sftp, consumes=consumes) as (world, server):
        reservation = world.store.ledger.of(slot_of(world))[-1].reservation_id
        done = opsguard("ledger", "resolve", reservation, "--sent", *BY, "--yes")
        assert done.code == 0, done.err

        assert world.verdicts() == {"feed.csv": verdict}
        world.repair_until_done()
        assert placed(server) == 1
        spool, archive, _ = world.held()
        assert (archive if consumes else spool) == {"feed.csv": FEED}

        other = opsguard("ledger", "resolve", reservation, "--not-sent", *BY, "--yes", "--json")
        assert (other.code, other.objects[0]["refusal"]["code"]) == (3, "illegal_edge")


def test_an_attempt_that_may_still_be_sending_is_refused_and_one_whose_lease_has_ended_is_not(
    opsguard: Command, state_store: StateStore
) -> None:
    slot = Slot("partner-0123456789abcdef", "0123456789abcdef-ab", "feed")
    held = state_store.ledger.reserve(slot, Pins(facts={"name": "feed.csv"}), key="run-1")
    early = opsguard("ledger", "resolve", slot.key, "--sent", *BY, "--yes", "--json")
    assert isinstance(state_store.ledger.grant(held.reservation_id, holder="run-1"), Grant)  # type: ignore[union-attr]
    live = opsguard("ledger", "resolve", slot.key, "--sent", *BY, "--yes")
    with state_store.engine.begin() as connection:
        connection.execute(text("UPDATE opsguard.ledger_slots SET lease_expires_at = clock_timestamp()"))
    ended = opsguard("ledger", "resolve", slot.key, "--sent", *BY, "--yes", "--json")

    assert (early.code, early.objects[0]["refusal"]["code"]) == (3, "illegal_edge"), "nobody was allowed to send yet"
    assert live.code == 3
    assert live.err.startswith("live: ")
    assert (ended.code, ended.objects[0]["resolved"]["state"]) == (0, "resolved_sent"), ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("partner-1:x:feed", "--sent", *BY, "--yes"), 3, "not_found"),
        (("0" * 32, "--sent", *BY, "--yes"), 3, "not_found"),
        (("a:b", "--sent", *BY), 2, "customer:period:kind"),
        (("0" * 32, *BY), 2, "--sent"),
        (("0" * 32, "--sent", "--by", "Kim"), 2, "--comment"),
        (("0" * 32, "--sent", "--by", "Kim", "--comment", " "), 2, "--comment"),
    ],
)
def test_what_is_not_in_the_ledger_or_lacks_its_evidence_changes_nothing(
    opsguard: Command, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = opsguard("ledger", "resolve", *arguments)
    assert (done.code, said in done.err) == (code, True), done.err
