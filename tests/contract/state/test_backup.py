"""Backup and restore: every row comes back byte for byte, into an empty store, all or nothing."""

import hashlib
import json
import stat
from datetime import timedelta

import pytest

from guards.delivery.outcome import Reason
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState
from guards.delivery.slot import Grant, Slot
from guards.gate import Lease
from resources.errors import ConfigurationError
from resources.state import StateStore
from resources.state.migrate import REVISION
from tests.contract.state.worlds import SCOPE, decide, plan, report


@pytest.fixture
def empty(other_database_url):
    with StateStore.open(other_database_url) as store:
        yield store


@pytest.fixture
def file(filled, tmp_path):
    path = tmp_path / "state.jsonl"
    filled.backup(path)
    return path


def everything(store, folder):
    """The content of every table, as a backup has it, without the moment it was taken and the server it is on."""
    path = folder / f"{id(store)}.jsonl"
    store.backup(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:-1]]
    path.unlink()
    for row in rows:
        if row["table"] == "ledger_head":
            del row["row"]["server"]
    return rows


def test_every_row_comes_back(filled, file, empty, tmp_path):
    restored = empty.restore(file)
    assert restored.counts["plans"] == restored.counts["ledger_slots"] == 1
    assert everything(empty, tmp_path) == everything(filled, tmp_path)
    assert empty.plans() == filled.plans()
    assert empty.receipts() == filled.receipts()
    assert empty.first_seen("shelf", "one", ["b\0\udc80"]) == filled.first_seen("shelf", "one", ["b\0\udc80"])


def test_a_restored_store_goes_on_where_the_other_stopped(filled, file, empty):
    """No number, fence or sequence is given out twice, and a person accepts the ledger before it grants."""
    empty.restore(file)
    before = filled.decisions(plan("a.csv").digest)[0]
    report(empty, plan("b.csv"))
    assert decide(empty, plan("b.csv").digest).decision_id == before.decision_id + 1
    lease = empty.acquire_lease(SCOPE, holder="run-2", ttl_seconds=60)
    assert isinstance(lease, Lease)
    assert lease.fence == 2
    assert empty.ledger.verify().faults == ()
    refused = empty.ledger.reserve(Slot("partner-1", "p-2", "feed"), Pins({"a": 1}), key="k")
    assert isinstance(refused, LedgerRefused)
    assert refused.code is LedgerCode.RECOVERY_REQUIRED
    assert empty.ledger.repair(accept_copy=True).left == ()
    assert not isinstance(empty.ledger.reserve(Slot("partner-1", "p-2", "feed"), Pins({"a": 1}), key="k"), LedgerRefused)
    assert empty.ledger.verify().faults == ()


def test_what_was_sent_since_the_backup_is_not_sent_again_from_it(state_store, empty, tmp_path):
    """A backup of Monday, restored on Wednesday: one message was prepared in it, another not even reserved; both went out on Tuesday."""
    prepared, unknown_to_it = Slot("acme-1", "2026-11-30", "daily"), Slot("acme-1", "2026-12-01", "daily")
    pins = Pins({"name": "a"})
    held = state_store.ledger.reserve(prepared, pins, key="run-1")
    state_store.backup(tmp_path / "monday.jsonl")
    due = state_store.now() - timedelta(minutes=1)
    empty.restore(tmp_path / "monday.jsonl")
    ledger = empty.ledger
    assert ledger.verify().faults == ()
    assert isinstance(ledger.grant(held.reservation_id, holder="run-2"), LedgerRefused)
    ledger.repair(accept_copy=True)
    assert isinstance(ledger.grant(held.reservation_id, holder="run-2"), LedgerRefused)
    other = ledger.reserve(unknown_to_it, pins, key="run-2", not_before=due)
    assert (other.state, other.reason) == (ReservationState.UNKNOWN, Reason.MIGRATED)
    assert isinstance(ledger.grant(other.reservation_id, holder="run-2"), LedgerRefused)
    later = ledger.reserve(Slot("acme-1", "2026-12-02", "daily"), pins, key="run-2", not_before=ledger.now())
    assert isinstance(ledger.grant(later.reservation_id, holder="run-2"), Grant)
    assert ledger.verify().faults == ()


def test_a_backup_is_whole_private_and_replaces_nothing(filled, file):
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(ConfigurationError, match="exists"):
        filled.backup(file)
    with pytest.raises(ConfigurationError, match="no backup was made"):
        filled.backup(file.parent / "no" / "such" / "folder")
    assert [each.name for each in file.parent.iterdir() if each.is_file()] == [file.name]


def test_a_store_that_is_not_empty_is_not_restored_into(filled, file):
    with pytest.raises(ConfigurationError, match="not empty"):
        filled.restore(file)


def spoiled(lines: list[str], how: str) -> list[str]:
    match how:
        case "cut":
            return lines[:-1]
        case "row_missing":
            return [*lines[:3], *lines[4:]]
        case "row_doubled":
            return [*lines[:3], lines[2], *lines[3:]]
        case "byte_changed":
            return [line.replace("a.csv", "b.csv") for line in lines]
        case "half_a_line":
            return [*lines[:-1], lines[-1][:20]]
        case "other_revision":
            return [lines[0].replace('"0002"', '"0099"'), *lines[1:]]
        case "no_backup":
            return ["{}", "{}"]
        case "empty":
            return []
        case _:
            return ["not json", *lines[1:]]


@pytest.mark.parametrize(
    "how",
    ["cut", "row_missing", "row_doubled", "byte_changed", "half_a_line", "other_revision", "no_backup", "empty", "not_json"],
)
def test_a_file_that_is_not_what_was_written_restores_nothing(file, empty, how, tmp_path):
    before = everything(empty, tmp_path)
    file.write_text("".join(f"{line}\n" for line in spoiled(file.read_text().splitlines(), how)))
    with pytest.raises(ConfigurationError, match="nothing was restored"):
        empty.restore(file)
    assert everything(empty, tmp_path) == before


def test_a_backup_of_the_first_revision_names_who_can_restore_it(file, empty, tmp_path):
    """Its answers lack the approvals used and its tables lack columns: taken as they are, no slot of the ledger would be believed."""
    before = everything(empty, tmp_path)
    header, *rows, end = file.read_text().splitlines()
    content = "".join(f"{line}\n" for line in [header.replace(f'"{REVISION}"', '"0001"'), *rows])
    signed = {**json.loads(end), "sha256": hashlib.sha256(content.encode()).hexdigest()}
    file.write_text(f"{content}{json.dumps(signed)}\n")
    with pytest.raises(ConfigurationError, match=r"revision 0001.* restore with the OpsGuard that made it, then upgrade"):
        empty.restore(file)
    assert everything(empty, tmp_path) == before


def test_a_missing_file_says_so(empty, tmp_path):
    with pytest.raises(ConfigurationError, match="could not be read"):
        empty.restore(tmp_path / "none")


def test_a_backup_is_readable_json_lines(file):
    header, *rows, end = (json.loads(line) for line in file.read_text().splitlines())
    assert header["opsguard_state_backup"] == 1
    assert sum(end["counts"].values()) == len(rows)
    assert {row["table"] for row in rows} == set(end["counts"])
