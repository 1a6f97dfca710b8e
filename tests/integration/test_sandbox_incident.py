"""The nights that are played: the same everywhere for the same arguments, never the same twice in one home."""

import hashlib
from pathlib import Path

import pytest

from guards.spool.verdict import SpoolVerdict
from opsguard_defs.dev import TROUBLED, set_the_scene
from opsguard_defs.sandbox import Sandbox, clean_night, incident
from opsguard_defs.sandbox.incident import feed_bytes, unrepaired, waiting

pytestmark = pytest.mark.fast


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    """Only its directories: nothing is started."""
    sandbox = Sandbox(tmp_path / "home")
    sandbox.layout.make()
    return sandbox


def test_contents_follow_from_watch_feed_and_night_alone() -> None:
    content = feed_bytes("ftp_demo", "orders", 7)
    assert hashlib.sha256(content).hexdigest() == "5cea1d8974417bc34a5860d0b63decd13625dda3c6989501527e165554ede815"
    others = [feed_bytes("ftp_demo", "orders", 8), feed_bytes("sftp_demo", "orders", 7), feed_bytes("ftp_demo", "stock", 7)]
    assert content not in others


def test_the_incident_on_disk_is_the_one_it_tells_of(sandbox: Sandbox) -> None:
    night = incident(sandbox, "ftp_demo")
    places = sandbox.places("ftp_demo")
    assert {path.name for path in places.outbound.iterdir()} == set(night.expected)
    for name, digest in night.sha256.items():
        source, copy = places.outbound / name, places.inbox / name
        assert hashlib.sha256(source.read_bytes()).hexdigest() == digest
        match night.expected[name]:
            case SpoolVerdict.MISSING:
                assert not copy.exists()
            case SpoolVerdict.SHORT_DELIVERY:
                assert source.read_bytes().startswith(copy.read_bytes())
                assert 0 < copy.stat().st_size < source.stat().st_size
            case SpoolVerdict.DIVERGED:
                assert copy.stat().st_size > source.stat().st_size
            case SpoolVerdict.DELIVERED_SIZE_ONLY:
                assert copy.read_bytes() == source.read_bytes()
            case unexpected:
                pytest.fail(f"a feed with verdict {unexpected}")
    assert [name.split("_")[0] for name in night.to_send] == ["stock", "invoices", "prices"]
    assert [name.split("_")[0] for name in night.for_a_person] == ["returns"]


def test_an_incident_without_a_person_leaves_no_gap_after_its_repair(sandbox: Sandbox) -> None:
    night = incident(sandbox, "ftp_demo", needs_person=False)
    gaps = [name for name, verdict in night.expected.items() if verdict.is_gap]
    assert set(gaps) == set(night.to_send)


def test_what_a_repair_leaves_behind_is_no_incident_so_the_next_scene_plays_a_new_one(sandbox: Sandbox) -> None:
    """After `opsguard demo`, `opsguard dev` took delivered files for an incident that waits and showed none."""
    first = incident(sandbox, TROUBLED)
    set_the_scene(sandbox)
    places = sandbox.places(TROUBLED)
    assert {path.name for path in places.outbound.iterdir()} == set(first.expected), "it still waits"
    for name in first.to_send:
        (places.outbound / name).replace(places.inbox / name)
    (places.outbound / "by_hand.csv").write_text("dropped by hand")
    set_the_scene(sandbox)
    assert unrepaired(sandbox, TROUBLED)
    assert (places.outbound / "by_hand.csv").exists()


def test_a_clean_night_holds_no_gap(sandbox: Sandbox) -> None:
    night = clean_night(sandbox, "sftp_demo")
    assert not [name for name, verdict in night.expected.items() if verdict.is_gap]
    assert not night.to_send


def test_every_night_has_other_names_and_other_bytes(sandbox: Sandbox) -> None:
    """The ledger never sends one digest twice to one partner: a repeated night could not be repaired."""
    first, second = incident(sandbox, "ftp_demo"), incident(sandbox, "ftp_demo")
    assert not set(first.expected) & set(second.expected)
    assert not set(first.sha256.values()) & set(second.sha256.values())


def test_a_new_night_takes_away_only_what_earlier_nights_put_there(sandbox: Sandbox) -> None:
    incident(sandbox, "ftp_demo")
    places = sandbox.places("ftp_demo")
    mine = [places.outbound / "mine.csv", places.inbox / "orders.csv", places.archive / "orders_2026.csv"]
    for path in mine:
        path.write_text("kept")
    archived = places.archive / "orders_20260105.csv.20260106T010203Z.0123abcd"
    archived.write_text("ours")

    night = clean_night(sandbox, "ftp_demo")

    assert all(path.read_text() == "kept" for path in mine)
    assert not archived.exists()
    assert {path.name for path in places.outbound.iterdir()} == {"mine.csv", *night.expected}


def test_feeds_are_hours_old_and_the_writer_is_not_stuck(sandbox: Sandbox) -> None:
    import time

    night = incident(sandbox, "ftp_demo")
    outbound = sandbox.places("ftp_demo").outbound
    ages = {name: time.time() - (outbound / name).stat().st_mtime for name in night.expected}
    assert all(age > 3600 for name, age in ages.items() if name in night.sha256)
    assert all(age < 3600 for name, age in ages.items() if name.endswith(".writing"))
    assert list(night.to_send) == sorted(night.to_send, key=lambda name: -ages[name])


def test_waiting_says_whether_a_spool_holds_anything(sandbox: Sandbox) -> None:
    assert not waiting(sandbox, "ftp_demo")
    clean_night(sandbox, "ftp_demo")
    assert waiting(sandbox, "ftp_demo")
