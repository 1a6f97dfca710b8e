"""The older single-file layout: what is taken over, and what is refused. No claim ever becomes something unsent."""

import json
import os
from pathlib import Path

import pytest

from guards.delivery.refusal import LedgerRefused
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Slot
from resources.ledger.interface import Verification
from resources.ledger.legacy import TakenOver, import_legacy, read_legacy
from resources.ledger.memory import MemoryLedger
from tests.integration.ledger_transfer.old_tree import DAY, OldTree, bytes_of, canonical, every_state, reservation, sha256

pytestmark = pytest.mark.fast


def taken(root: Path) -> TakenOver:
    found = read_legacy(root)
    assert isinstance(found, TakenOver), found
    return found


def refused(root: Path) -> str:
    ledger = MemoryLedger()
    found = import_legacy(root, ledger)
    assert isinstance(found, LedgerRefused), found
    assert ledger.head().sequence == 0
    return found.message


def imported(root: Path) -> MemoryLedger:
    ledger = MemoryLedger()
    found = import_legacy(root, ledger)
    assert isinstance(found, Verification), found
    assert found.faults == ()
    return ledger


def test_every_state_of_the_older_ledger_is_taken_over_and_every_doubt_stays_doubt(tmp_path: Path) -> None:
    ledger = imported(every_state(tmp_path).write())
    states = {each.slot.customer: each.state for each in ledger.snapshot().reservations}
    assert states == {
        "acme-1": S.DELIVERED,
        "acme-2": S.SENT_AUDITED,
        "acme-3": S.UNKNOWN,
        "acme-4": S.UNKNOWN,
        "acme-5": S.KNOWN_FAILURE,
        "acme-6": S.UNKNOWN,
        "acme-7": S.ABANDONED,
        "acme-8": S.RESOLVED_SENT,
        "acme-9": S.RESOLVED_NOT_SENT,
        "bolt-1": S.UNKNOWN,
        "bolt-2": S.UNKNOWN,
        "bolt-3": S.UNKNOWN,
        "bolt-4": S.UNKNOWN,
        "bolt-5": S.DELIVERED,
    }


def test_the_import_names_the_slots_that_it_made_doubtful_itself(tmp_path: Path) -> None:
    """acme-6 was in doubt before; the operator is told of what is new."""
    doubtful = {slot.customer for slot in taken(every_state(tmp_path).write()).doubtful}
    assert doubtful == {"acme-3", "acme-4", "bolt-1", "bolt-2", "bolt-3", "bolt-4"}


def test_a_delivered_slot_keeps_its_receipt_and_a_resolved_one_its_evidence_and_who(tmp_path: Path) -> None:
    ledger = imported(every_state(tmp_path).write())
    (delivered,) = ledger.of(Slot("acme-1", DAY, "daily"))
    (audited,) = ledger.of(Slot("acme-2", DAY, "daily"))
    (resolved,) = ledger.of(Slot("acme-9", DAY, "reminder"))
    assert delivered.receipt == {"message": "acme-1-daily", "at": "2026-11-30T09:00:00Z"}
    assert audited.receipt == {"message": "acme-2-daily", "at": "2026-11-30T09:00:00Z"}
    assert (resolved.evidence, resolved.approval["approved_by"]) == ({"asked": "the customer"}, "Ada L.")


def test_an_imported_slot_says_what_the_older_ledger_had_pinned_and_why(tmp_path: Path) -> None:
    ledger = imported(every_state(tmp_path).write())
    (failed,) = ledger.of(Slot("acme-5", DAY, "reminder"))
    assert failed.pins.facts["old_reservation"] == reservation("acme-5", "reminder")
    assert failed.pins.facts["old_pins"] == {"body_sha256": sha256(b"acme-5"), "destination": "#acme-5"}
    assert failed.note == "422 from the webhook: no such channel"


def test_a_reason_with_spaces_line_breaks_and_great_length_does_not_stop_the_import(tmp_path: Path) -> None:
    """A space in a reason once bricked a store."""
    tree = OldTree(tmp_path).slot("acme-1", "daily", "prepared", "sending", "unknown", reason="lost\n\x1b[31m " + "x" * 1900)
    ledger = imported(tree.write())
    (held,) = ledger.of(Slot("acme-1", DAY, "daily"))
    assert len(held.note) == 500
    assert held.note.startswith("lost\n")


def test_the_same_tree_gives_the_same_rows_and_may_be_imported_again(tmp_path: Path) -> None:
    root = every_state(tmp_path).write()
    ledger = imported(root)
    head = ledger.head()
    again = import_legacy(root, ledger)
    assert isinstance(again, Verification)
    assert (again.head, taken(root).rows) == (head, tuple(ledger.rows()))


def test_a_ledger_that_has_gone_on_since_refuses_the_import(tmp_path: Path) -> None:
    root = every_state(tmp_path).write()
    ledger = imported(root)
    ledger.audit(Slot("acme-1", DAY, "daily").reservation_id(1))
    head = ledger.head()
    assert isinstance(import_legacy(root, ledger), LedgerRefused)
    assert ledger.head() == head


def test_the_older_tree_is_only_read(tmp_path: Path) -> None:
    root = every_state(tmp_path).write()
    before = bytes_of(root)
    imported(root)
    assert bytes_of(root) == before


def test_an_empty_older_ledger_is_an_empty_ledger(tmp_path: Path) -> None:
    assert imported(OldTree(tmp_path).write()).head().sequence == 0


@pytest.mark.parametrize("name", ["scheduled-deliveries.jsonl", "scheduled-deliveries-fence.json"])
def test_a_byte_changed_anywhere_in_rows_or_fence_is_refused(tmp_path: Path, name: str) -> None:
    root = OldTree(tmp_path).slot("acme-1", "daily", "prepared", "sending", "delivered").write()
    whole = (root / name).read_bytes()
    for place in range(len(whole)):
        (root / name).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert "nothing was imported" in refused(root)


def test_a_byte_changed_anywhere_in_a_claim_is_refused(tmp_path: Path) -> None:
    tree = OldTree(tmp_path).claim("acme-1", "daily")
    root = tree.write()
    (path,) = root.rglob("*.claim")
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert "nothing was imported" in refused(root)


def test_rows_cut_at_any_length_are_refused(tmp_path: Path) -> None:
    root = OldTree(tmp_path).slot("acme-1", "daily", "prepared", "sending", "delivered").write()
    rows = root / "scheduled-deliveries.jsonl"
    whole = rows.read_bytes()
    for length in range(len(whole)):
        rows.write_bytes(whole[:length])
        refused(root)


def test_a_claim_cut_inside_its_second_line_is_refused_and_one_cut_to_a_line_or_less_is_still_a_claim(tmp_path: Path) -> None:
    """What is left of a claim may look like an older one: then its slot is in doubt, which is the safe side."""
    root = OldTree(tmp_path).claim("acme-1", "daily").write()
    (path,) = root.rglob("*.claim")
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        found = read_legacy(root)
        if isinstance(found, TakenOver):
            assert found.doubtful == (Slot("acme-1", DAY, "daily"),)
            assert length < len("opsguard-claim-v1 ")


def test_two_lines_swapped_are_refused(tmp_path: Path) -> None:
    root = OldTree(tmp_path).slot("acme-1", "daily", "prepared", "sending", "delivered").write()
    rows = root / "scheduled-deliveries.jsonl"
    one, two, three = rows.read_bytes().splitlines(keepends=True)
    rows.write_bytes(one + three + two)
    assert "out of order" in refused(root)


def test_rows_whose_claim_is_gone_are_refused(tmp_path: Path) -> None:
    root = OldTree(tmp_path).slot("acme-1", "daily", "prepared", claim="none").write()
    assert "its claim was lost" in refused(root)


@pytest.mark.parametrize("changed", [{"reservation": "f" * 40}, {"pins_digest": "e" * 64}])
def test_a_claim_that_contradicts_its_row_is_refused(tmp_path: Path, changed: dict[str, str]) -> None:
    tree = OldTree(tmp_path).slot("acme-1", "daily", "prepared")
    tree.claim("acme-1", "daily", tree.rows[0]["pins_digest"], **changed)
    assert "contradicts" in refused(tree.write())


def test_a_claim_of_another_slot_in_this_place_is_refused(tmp_path: Path) -> None:
    root = OldTree(tmp_path).claim("acme-1", "daily", customer="acme-2").write()
    assert "another slot" in refused(root)


@pytest.mark.parametrize("state", ["preparing", "recovery_required"])
def test_a_fence_that_is_not_ready_is_refused(tmp_path: Path, state: str) -> None:
    tree = OldTree(tmp_path, fence={"version": 1, "state": state}).slot("acme-1", "daily", "prepared")
    assert "middle of a change" in refused(tree.write())


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("state", "sent", "is no state"),
        ("state", "delivered", "does not follow"),
        ("extra", 1, "unknown or missing keys: 'extra'"),
        ("customer", "../../etc", "customer key"),
        ("day", "2026-02-31", "line 2"),
        ("day", "20261130", "YYYY-MM-DD"),
        ("kind", "feed", "no feeds"),
        ("at", "2026-11-30T09:00:00", "not a time"),
        ("at", "yesterday", "not a time"),
        ("at", 4, "not a text"),
        ("reservation", "../x", "not hex digits"),
        ("pins", {}, "pins are not"),
        ("pins", [], "not an object"),
        ("pins", {"body": "x" * 41_000}, "not an object of"),
        ("receipt", {"it": "was sent"}, "a receipt is there exactly"),
        ("evidence", {"it": "was sent"}, "evidence and by whom"),
        ("approved_by", "Ada", "evidence and by whom"),
        ("reason", "x" * 2001, "not a text"),
    ],
)
def test_a_row_outside_the_format_is_refused_with_its_line(tmp_path: Path, key: str, value: object, why: str) -> None:
    tree = OldTree(tmp_path).slot("acme-1", "daily", "prepared", "sending")
    tree.rows[1][key] = value
    if key == "state":
        tree.rows[1]["receipt"] = {"id": 1} if value == "delivered" else {}
    message = refused(tree.write())
    assert why in message
    assert "line 2" in message


def test_a_row_of_another_reservation_for_the_same_slot_is_refused(tmp_path: Path) -> None:
    tree = OldTree(tmp_path).slot("acme-1", "daily", "prepared", "sending")
    tree.rows[1]["reservation"] = "c" * 32
    assert "another reservation" in refused(tree.write())


def test_an_audit_that_replaced_the_receipt_is_refused(tmp_path: Path) -> None:
    tree = OldTree(tmp_path).slot("acme-1", "daily", "prepared", "sending", "delivered", "sent_audited")
    tree.rows[3]["receipt"] = {"message": "another"}
    assert "an audit replaced the receipt" in refused(tree.write())


def test_a_name_of_a_person_that_could_act_on_a_terminal_is_refused(tmp_path: Path) -> None:
    tree = OldTree(tmp_path).slot("acme-1", "daily", "prepared", "sending", "unknown", "resolved_sent")
    tree.rows[3]["approved_by"] = "Ada\x1b[2J"
    assert "approved_by" in refused(tree.write())


def test_a_line_of_valid_json_that_is_not_canonical_is_refused(tmp_path: Path) -> None:
    root = OldTree(tmp_path).slot("acme-1", "daily", "prepared").write()
    rows = root / "scheduled-deliveries.jsonl"
    rows.write_text(json.dumps(json.loads(rows.read_text())) + "\n")
    assert "canonical" in refused(root)


def test_a_number_that_is_not_whole_and_a_pit_of_brackets_are_refused(tmp_path: Path) -> None:
    root = OldTree(tmp_path).slot("acme-1", "daily", "prepared").write()
    rows = root / "scheduled-deliveries.jsonl"
    for hostile in (b'{"at":1.5}\n', b'{"at":NaN}\n', b"[" * 100_000 + b"\n", b'"text"\n', b"\xff\n", b"\n"):
        rows.write_bytes(hostile)
        assert "canonical" in refused(root)


def test_a_fence_of_two_lines_or_another_version_is_refused(tmp_path: Path) -> None:
    tree = OldTree(tmp_path).slot("acme-1", "daily", "prepared")
    root = tree.write()
    fence = root / "scheduled-deliveries-fence.json"
    fence.write_bytes(fence.read_bytes() * 2)
    assert "one whole line" in refused(root)
    for version in (2, True):
        tree.fence = {"version": version, "state": "ready"}
        assert "version" in refused(tree.write())


def test_a_sequence_that_is_true_is_refused_although_it_equals_one(tmp_path: Path) -> None:
    tree = OldTree(tmp_path).slot("acme-1", "daily", "prepared")
    content = {"sequence": True, "previous": "0" * 64, **tree.rows[0]}
    root = tree.write()
    line = canonical({**content, "digest": sha256(canonical(content))}) + b"\n"
    (root / "scheduled-deliveries.jsonl").write_bytes(line)
    assert "does not continue" in refused(root)


@pytest.mark.parametrize("missing", ["scheduled-deliveries.jsonl", "scheduled-deliveries-fence.json"])
def test_a_missing_file_is_refused(tmp_path: Path, missing: str) -> None:
    root = every_state(tmp_path).write()
    (root / missing).unlink()
    assert missing in refused(root)


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "nothing")


def test_a_link_in_place_of_anything_is_refused_and_never_followed(tmp_path: Path) -> None:
    elsewhere = every_state(tmp_path / "elsewhere").write()
    places = ["scheduled-deliveries.jsonl", "scheduled-deliveries-fence.json", "customer-schedule-claims"]
    places += ["customer-schedule-claims/acme-1", f"customer-schedule-claims/acme-1/{DAY}"]
    places += [f"customer-schedule-claims/acme-1/{DAY}/daily.claim"]
    for number, place in enumerate(places):
        root = every_state(tmp_path / f"tree{number}").write()
        (root / place).rename(root / f"{number}.moved")
        (root / place).symlink_to(elsewhere / place)
        assert place in refused(root)


def test_a_pipe_in_place_of_the_rows_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    root = every_state(tmp_path).write()
    (root / "scheduled-deliveries.jsonl").unlink()
    os.mkfifo(root / "scheduled-deliveries.jsonl")
    assert "is not a file" in refused(root)


@pytest.mark.parametrize("name", ["daily.claim.tmp", "daily", "DAILY.claim", "yearly.claim", "\x1b[2J.claim"])
def test_a_name_among_the_claims_that_is_no_claim_is_refused(tmp_path: Path, name: str) -> None:
    root = every_state(tmp_path).write()
    (root / "customer-schedule-claims" / "acme-1" / DAY / name).write_bytes(b"")
    message = refused(root)
    assert message.isprintable()
    assert ascii(name)[1:-1] in message


def test_a_claim_or_fence_too_large_to_be_one_is_refused(tmp_path: Path) -> None:
    for number, name in enumerate(["scheduled-deliveries-fence.json", f"customer-schedule-claims/acme-1/{DAY}/daily.claim"]):
        root = every_state(tmp_path / str(number)).write()
        (root / name).write_bytes(b"x" * 70_000)
        assert f"{name} is larger than" in refused(root)


def test_a_claim_with_the_header_and_one_line_is_refused(tmp_path: Path) -> None:
    tree = OldTree(tmp_path)
    tree.claims[f"acme-1/{DAY}/daily.claim"] = b"opsguard-claim-v1 " + b"a" * 64 + b"\n"
    assert "two whole lines" in refused(tree.write())
