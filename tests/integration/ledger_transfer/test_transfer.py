"""Export and import: the same rows and the same head, a file that was cut or altered is noticed, nothing is replaced unasked."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from guards.canonical import canonical_json
from guards.delivery.outcome import delivered
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerRefused
from guards.delivery.slot import Grant, Slot
from resources.errors import ConfigurationError
from resources.ledger.interface import StoredRow, Verification
from resources.ledger.memory import MemoryLedger
from resources.ledger.transfer import Export, export_to, import_from, read_export

pytestmark = pytest.mark.fast


def ledger_of(*customers: str) -> MemoryLedger:
    ledger = MemoryLedger()
    for customer in customers:
        held = ledger.reserve(Slot(customer, "2026-11-30", "daily"), Pins({"body": "Grüße }\n{ \ud800"}), key="run-1")
        assert not isinstance(held, LedgerRefused)
        grant = ledger.grant(held.reservation_id, holder="run-1")
        assert isinstance(grant, Grant)
        ledger.settle(grant, delivered({"id": customer}))
    return ledger


def test_what_is_exported_and_imported_has_the_same_rows_and_head(tmp_path: Path) -> None:
    ledger, other = ledger_of("acme-1", "acme-2"), MemoryLedger()
    made = export_to(ledger, tmp_path / "ledger.jsonl", retired=True)
    found = import_from(tmp_path / "ledger.jsonl", other)
    assert isinstance(found, Verification)
    assert made.head == found.head == other.head() == ledger.head()
    assert tuple(other.rows()) == tuple(ledger.rows())


def test_an_export_of_an_import_is_the_same_file_but_for_its_manifest(tmp_path: Path) -> None:
    export_to(ledger_of("acme-1"), tmp_path / "one", retired=True)
    other = MemoryLedger()
    import_from(tmp_path / "one", other)
    export_to(other, tmp_path / "two", retired=True)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_an_empty_ledger_can_be_exported_and_imported(tmp_path: Path) -> None:
    export_to(MemoryLedger(), tmp_path / "ledger.jsonl")
    found = import_from(tmp_path / "ledger.jsonl", MemoryLedger())
    assert isinstance(found, Verification)
    assert found.rows == 0


def test_a_file_cut_at_any_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    export_to(ledger_of("acme-1"), path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert isinstance(read_export(path), LedgerRefused)


def test_a_file_with_a_byte_changed_anywhere_is_refused_but_for_the_name_of_its_store(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    export_to(ledger_of("acme-1"), path)
    whole = path.read_bytes()
    named = whole.rindex(b'"memory"')
    for place in range(len(whole)):
        if not named < place <= named + len("memory"):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            assert isinstance(read_export(path), LedgerRefused), place


@pytest.mark.parametrize("said", ["", "2026-11-30", "2026-11-30T00:00:00", "2026-11-30T00:00:00+00:00", 7, None])
def test_an_acceptance_that_is_no_time_is_refused(tmp_path: Path, said: object) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = ledger_of("acme-1")
    ledger.repair(accept_copy=True)
    export_to(ledger, path, retired=True)
    *rows, last = path.read_bytes().splitlines(keepends=True)
    assert isinstance(read_export(path), Export)
    path.write_bytes(b"".join(rows) + canonical_json({**json.loads(last), "accepted_at": said}) + b"\n")
    assert isinstance(read_export(path), LedgerRefused)


def test_a_line_taken_out_or_put_in_or_put_after_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    export_to(ledger_of("acme-1"), path)
    lines = path.read_bytes().splitlines(keepends=True)
    for altered in (lines[:2] + lines[3:], lines[:3] + lines[2:], [*lines, b"\n"], [*lines, lines[1]], lines[:1], []):
        path.write_bytes(b"".join(altered))
        assert isinstance(read_export(path), LedgerRefused)


def test_rows_that_are_no_ledger_are_refused_by_the_store_although_every_digest_is_right(tmp_path: Path) -> None:
    path, other = tmp_path / "ledger.jsonl", MemoryLedger()
    export_to(ledger_of("acme-1", "acme-2"), path, retired=True)
    lines = path.read_bytes().splitlines(keepends=True)
    manifest = json.loads(lines[-1])
    lines[1], lines[2] = lines[2], lines[1]
    path.write_bytes(b"".join(lines))
    assert isinstance(read_export(path), Export)
    assert manifest["rows"] == 6
    assert isinstance(import_from(path, other), LedgerRefused)
    assert other.head().sequence == 0


def test_a_file_that_is_there_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text("mine")
    with pytest.raises(ConfigurationError, match="exists"):
        export_to(ledger_of("acme-1"), path)
    assert path.read_text() == "mine"
    export_to(ledger_of("acme-1"), path, force=True)
    assert isinstance(read_export(path), Export)


def test_a_file_made_while_the_export_ran_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"

    class Meanwhile(MemoryLedger):
        def rows(self) -> Iterator[StoredRow]:
            path.write_text("theirs")
            return super().rows()

    with pytest.raises(ConfigurationError, match="exists"):
        export_to(Meanwhile(), path)
    assert path.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["ledger.jsonl"]


def test_an_export_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    class Broken(MemoryLedger):
        def rows(self) -> Iterator[StoredRow]:
            yield from ()
            raise OSError(28, "No space left on device")

    with pytest.raises(ConfigurationError, match="No space left"):
        export_to(Broken(), tmp_path / "ledger.jsonl")
    assert os.listdir(tmp_path) == []


def test_an_export_is_for_its_owner_only(tmp_path: Path) -> None:
    export_to(ledger_of("acme-1"), tmp_path / "ledger.jsonl")
    assert stat.S_IMODE((tmp_path / "ledger.jsonl").stat().st_mode) == 0o600


def test_a_line_without_end_is_refused_without_reading_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with path.open("wb") as file:
        file.write(b'{"opsguard_ledger_export":1}\n')
        file.truncate(1 << 33)
    assert isinstance(read_export(path), LedgerRefused)


def test_a_file_that_is_not_there_is_said_to_be_unreadable(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="could not be read"):
        read_export(tmp_path / "nothing")
    with pytest.raises(ConfigurationError, match="no directory that can be written to"):
        export_to(MemoryLedger(), tmp_path / "nothing" / "ledger.jsonl")
