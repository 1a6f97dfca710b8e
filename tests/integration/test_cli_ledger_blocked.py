"""Slots that are blocked are said wherever somebody looks: status, doctor, not only verify."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guards.delivery.outcome import delivered
from guards.delivery.refusal import LedgerRefused
from guards.delivery.slot import Slot
from resources.ledger.file.store import FileLedger
from tests.integration.command import Command
from tests.integration.test_cli_ledger import NOBODY, SETTINGS, pins

CLAIM = "claims/acme-1/2026-11-29/daily"


@pytest.fixture
def opsguard(tmp_path: Path) -> Command:
    (tmp_path / "opsguard.toml").write_text(SETTINGS)
    (tmp_path / "home").mkdir()
    return Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home"), "OPSGUARD_STATE_URL": NOBODY})


def three_sent(directory: Path) -> None:
    with FileLedger.open(directory) as ledger:
        for day in (28, 29, 30):
            slot = Slot("acme-1", f"2026-11-{day}", "daily")
            held = ledger.reserve(slot, pins(slot), key="run-1")
            assert not isinstance(held, LedgerRefused)
            grant = ledger.grant(held.reservation_id, holder="run-1")
            assert not isinstance(grant, LedgerRefused)
            ledger.settle(grant, delivered({"status": 200}))


def alter_row(directory: Path) -> None:
    segment = directory / "segments/000001.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"2026-11-29", b"2026-11-27", 1))


def swap_lines(directory: Path) -> None:
    segment = directory / "segments/000001.jsonl"
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[3], lines[4] = lines[4], lines[3]
    segment.write_bytes(b"".join(lines))


def change_claim(directory: Path) -> None:
    claim = directory / CLAIM
    claim.write_bytes(claim.read_bytes().replace(b"acme", b"acne", 1))


@pytest.mark.parametrize("damage", [alter_row, swap_lines, change_claim])
def test_status_counts_blocked_slots_and_doctor_shows_the_first_fault(
    opsguard: Command, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """Over an altered row status ended with 0, and doctor said "all read and in order"."""
    directory = tmp_path / "home/ledger"
    three_sent(directory)
    assert opsguard("ledger", "status").code == 0
    damage(directory)
    seen = opsguard("ledger", "status")
    assert seen.code == 4
    assert "1 slot blocked: `opsguard ledger verify`" in seen.err
    as_json = opsguard("ledger", "status", "--json")
    assert (as_json.code, json.loads(as_json.out)["blocked"]) == (4, 1)


def test_a_slot_is_shown_in_one_piece_however_narrow_the_terminal(opsguard: Command, tmp_path: Path) -> None:
    """It was broken over two lines in the middle of the table, and copied so."""
    long = Slot("a" * 60, "2026-11-30", "daily")
    with FileLedger.open(tmp_path / "home/ledger") as ledger:
        ledger.reserve(long, pins(long), key="run-1")
    shown = opsguard("ledger", "show", long.key, COLUMNS="60")
    assert long.key in shown.out
