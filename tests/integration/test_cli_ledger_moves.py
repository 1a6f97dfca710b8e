"""`opsguard ledger` between the file store and PostgreSQL: the same rows, the same head, in both directions."""

from pathlib import Path

import pytest

from guards.delivery.outcome import Reason, delivered, known_failure, unknown
from guards.delivery.slot import Slot
from resources.ledger.file.store import FileLedger
from resources.state import StateStore
from tests.integration.command import Command
from tests.integration.ledger_transfer.old_tree import every_state
from tests.integration.test_cli_ledger import DAILY, REMINDER, SETTINGS, WEEKLY, keep


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
    assert opsguard("ledger", "export", "one.jsonl").code == 0
    taken = opsguard("ledger", "import", "one.jsonl", "--store", "postgres", "--json")
    assert taken.code == 0, taken.err
    assert [tuple(row) for row in state_store.ledger.rows()] == rows_of_files(first)
    assert opsguard("ledger", "verify", "--store", "postgres").code == 0
    assert opsguard("ledger", "export", "two.jsonl", "--store", "postgres").code == 0
    assert opsguard("ledger", "import", "two.jsonl", "--store", "./second").code == 0
    assert rows_of_files(tmp_path / "second") == rows_of_files(first)
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
    assert opsguard("ledger", "export", "one.jsonl").code == 0
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


def test_a_retired_flag_and_accepting_a_copy_are_for_files_only(opsguard: Command) -> None:
    assert opsguard("ledger", "export", "one.jsonl", "--store", "postgres", "--retire").code == 2
    assert opsguard("ledger", "repair", "--accept-copy", "--store", "postgres").code == 2
    assert opsguard("ledger", "repair", "--store", "postgres").code == 0
