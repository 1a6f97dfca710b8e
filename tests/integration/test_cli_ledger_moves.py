"""`opsguard ledger` between the file store and PostgreSQL: the same rows, the same head, in both directions."""

from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from guards.delivery.entry import Reservation
from guards.delivery.outcome import Reason, delivered, known_failure, unknown
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head
from guards.delivery.slot import Slot
from resources.ledger.file.store import FileLedger
from resources.state import StateStore
from tests.integration.command import Command
from tests.integration.ledger_transfer.old_tree import every_state
from tests.integration.test_cli_ledger import DAILY, REMINDER, SETTINGS, WEEKLY, keep, pins


@pytest.fixture
def opsguard(tmp_path: Path, database_url: str) -> Command:
    (tmp_path / "opsguard.toml").write_text(SETTINGS)
    (tmp_path / "home").mkdir()
    return Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home"), "OPSGUARD_STATE_URL": database_url})


def rows_of_files(directory: Path) -> list[tuple[int, str, bytes]]:
    with FileLedger.open(directory) as ledger:
        return [tuple(row) for row in ledger.rows()]


def test_from_files_to_the_database_and_back_every_row_is_the_same(
    opsguard: Command, tmp_path: Path, state_store: StateStore
) -> None:
    first = tmp_path / "home" / "ledger"
    keep(first, DAILY, delivered({"id": "1"}))
    keep(first, REMINDER, known_failure(Reason.REJECTED))
    keep(first, WEEKLY, unknown(Reason.NO_ANSWER))
    keep(first, Slot("acme-2", "2026-11", "monthly"))
    assert opsguard("ledger", "export", "one.jsonl", "--retire").code == 0
    taken = opsguard("ledger", "import", "one.jsonl", "--store", "postgres", "--json")
    assert taken.code == 0, taken.err
    assert [tuple(row) for row in state_store.ledger.rows()] == rows_of_files(first)
    assert opsguard("ledger", "verify", "--store", "postgres").code == 0
    assert opsguard("ledger", "export", "two.jsonl", "--store", "postgres").code == 0
    assert opsguard("ledger", "import", "two.jsonl", "--store", "./second").code == 3, "the database may go on"
    assert opsguard("ledger", "import", "two.jsonl", "--store", "./second", "--accept-copy").code == 0
    before = rows_of_files(first)
    assert rows_of_files(tmp_path / "second")[: len(before)] == before
    lines = [(tmp_path / name).read_bytes().splitlines()[:-1] for name in ("one.jsonl", "two.jsonl")]
    assert lines[0] == lines[1]


def test_a_ledger_that_moved_goes_on_where_it_was_and_nothing_is_sent_twice(
    opsguard: Command, tmp_path: Path, state_store: StateStore
) -> None:
    """What was `sending` in the files is in nobody's hands in the database: it is ended as doubt, and never granted again."""
    first = tmp_path / "home" / "ledger"
    keep(first, DAILY)
    assert opsguard("ledger", "export", "one.jsonl", "--retire").code == 0
    assert opsguard("ledger", "import", "one.jsonl", "--store", "postgres").code == 0
    words = ["--by", "Ada", "--comment", "they have it", "--yes", "--json"]
    done = opsguard("ledger", "resolve", DAILY.key, "--sent", *words, "--store", "postgres")
    assert done.code == 0, done.err
    assert done.objects[0]["resolved"]["state"] == "resolved_sent"
    assert opsguard("ledger", "resolve", DAILY.key, "--sent", *words, "--store", "file").code != 0


def test_the_anchor_of_the_files_is_extended_by_the_database_that_took_them_over(opsguard: Command, tmp_path: Path) -> None:
    keep(tmp_path / "home" / "ledger", DAILY, delivered({"id": "1"}))
    (tmp_path / "anchor.json").write_text(opsguard("ledger", "anchor").out)
    assert opsguard("ledger", "export", "one.jsonl", "--retire").code == 0
    before = opsguard("ledger", "verify", "--against", "anchor.json", "--store", "postgres")
    assert opsguard("ledger", "import", "one.jsonl", "--store", "postgres").code == 0
    after = opsguard("ledger", "verify", "--against", "anchor.json", "--store", "postgres")
    assert (before.code, after.code) == (4, 0)


def test_the_older_layout_can_be_imported_into_the_database_with_the_same_head(opsguard: Command, tmp_path: Path) -> None:
    every_state(tmp_path / "old").write()
    into_files = opsguard("ledger", "import", "old", "--json")
    into_database = opsguard("ledger", "import", "old", "--store", "postgres", "--json")
    assert into_files.code == into_database.code == 0
    assert into_files.objects[0]["head"] == into_database.objects[0]["head"]


def test_a_retired_flag_and_accepting_a_loss_are_for_files_only(opsguard: Command) -> None:
    assert opsguard("ledger", "export", "one.jsonl", "--store", "postgres", "--retire").code == 2
    assert opsguard("ledger", "repair", "--accept-loss", "--store", "postgres").code == 2
    assert opsguard("ledger", "repair", "--store", "postgres").code == 0


def test_another_ledger_is_a_watchs_own_once_a_person_has_accepted_it(
    opsguard: Command, tmp_path: Path, state_store: StateStore
) -> None:
    """The disk of the ledger was gone: an empty one in its place knows of nothing that was sent."""
    words = ["--by", "Ada", "--comment", "the disk is gone, ticket 4713", "--json"]
    (tmp_path / "customers.yaml").write_text("version: 1\ncustomers: []\n")
    published = state_store.published
    assert opsguard("ledger", "accept", "customers", *words, "--yes").objects[0]["accepted"] is False, "nothing was published"
    published.publish("file 0badcafe", Head(7, "a" * 64), run_id="run-1", watch="customers", slot_identity="period")
    assert opsguard("ledger", "accept", "customers", *words).objects[0]["accepted"] is False
    assert not (tmp_path / "home" / "ledger").exists()
    assert opsguard("ledger", "accept", "nobody", *words, "--yes").code == 2
    before = datetime.now(UTC)

    done = opsguard("ledger", "accept", "customers", *words, "--yes")

    assert done.code == 0, done.err
    known = published.of_watch("customers")
    assert known is not None
    assert (known.accepted_by, known.comment, known.slot_identity) == ("Ada", "the disk is gone, ticket 4713", "period")
    with FileLedger.open(tmp_path / "home" / "ledger") as ledger:
        assert known.store == ledger.health().store
        held = ledger.reserve(DAILY, pins(DAILY), key="run-2", not_before=before)
        assert isinstance(held, Reservation)
        assert held.state is ReservationState.UNKNOWN, "it was due before the loss was accepted"
    assert opsguard("ledger", "accept", "customers", *words, "--yes").objects[0]["accepted"] is False


def test_a_ledger_in_which_nothing_could_be_put_in_doubt_is_not_accepted(
    opsguard: Command, tmp_path: Path, state_store: StateStore, database_url: str
) -> None:
    """One altered row, and it was recorded as accepted: what was open, or due and not known any more, was sent."""
    (tmp_path / "opsguard.toml").write_text(SETTINGS + 'ledger = "postgres"\n')
    (tmp_path / "customers.yaml").write_text("version: 1\ncustomers: []\n")
    ledger = state_store.ledger
    for slot in (DAILY, WEEKLY):
        assert isinstance(ledger.reserve(slot, pins(slot), key="run-1"), Reservation)
    state_store.published.publish(ledger.health().store, Head(7, "a" * 64), run_id="run-1", watch="customers")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("UPDATE opsguard.ledger_rows SET row = replace(row, 'run-1', 'run-2') WHERE sequence = 2")

    done = opsguard("ledger", "accept", "customers", "--by", "Ada", "--comment", "restored", "--yes", "--json")

    assert done.code == 4
    assert "ledger verify" in done.err
    assert done.objects[0]["accepted"] is False
    known = state_store.published.of_watch("customers")
    assert known is not None
    assert known.accepted_by == ""
    assert ledger.health().doubt_before is None


def test_a_ledger_that_was_moved_with_everything_in_it_makes_no_doubt(
    opsguard: Command, tmp_path: Path, state_store: StateStore
) -> None:
    keep(tmp_path / "home" / "ledger", DAILY, granted=False)
    (tmp_path / "customers.yaml").write_text("version: 1\ncustomers: []\n")
    with FileLedger.open(tmp_path / "home" / "ledger") as ledger:
        state_store.published.publish(ledger.health().store, ledger.head(), run_id="run-1", watch="customers")
    assert opsguard("ledger", "export", "one.jsonl", "--retire").code == 0
    assert opsguard("ledger", "import", "one.jsonl", "--store", "postgres").code == 0
    (tmp_path / "opsguard.toml").write_text(SETTINGS + 'ledger = "postgres"\n')

    done = opsguard("ledger", "accept", "customers", "--by", "Ada", "--comment", "moved", "--yes")

    assert done.code == 0, done.err
    assert state_store.ledger.counts() == {"prepared": 1}
    known = state_store.published.of_watch("customers")
    assert known is not None
    assert known.store.startswith("postgres ")
