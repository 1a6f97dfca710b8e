"""Files that were changed from outside: what is wrong is named exactly, nothing is sent where there is doubt, the rest goes on."""

import re
from pathlib import Path

import pytest

from guards.delivery.outcome import Reason, delivered, known_failure
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.replay import FaultKind as F
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Grant, Slot
from resources.ledger.file.store import FileLedger
from resources.state.errors import Altered
from tests.ledgers.builders import EVIDENCE, KIM, PINS, RECEIPT, brought_to, code, feed, granted, reserved, told, weekly

DOUBTFUL, BESIDE, LATER = feed("doubtful"), feed("beside"), feed("later")


def written(root: Path, *, seal_rows: int = 20_000) -> list[bytes]:
    """Five rows: two slots prepared, one sent, and their claims. Returns the lines."""
    with FileLedger.open(root, seal_rows=seal_rows) as ledger:
        reserved(ledger, DOUBTFUL)
        told(ledger.settle(granted(ledger, feed("sent")), delivered(RECEIPT)))
        reserved(ledger, BESIDE)
    return [line for path in sorted((root / "segments").iterdir()) for line in path.read_bytes().splitlines(keepends=True)]


def segment(root: Path, number: int = 1) -> Path:
    return root / "segments" / f"{number:06d}.jsonl"


def can_be_sent(ledger: FileLedger, slot: Slot) -> bool:
    answer = ledger.grant(slot.reservation_id(1), holder="run-9")
    if isinstance(answer, Grant):
        return True
    assert code(answer) is C.RECOVERY_REQUIRED
    return False


def test_the_last_segment_cut_at_any_length_is_noticed(root):
    """A restore that ran out of space cut the file; whatever followed was forgotten, and sent again."""
    lines = written(root)
    whole, anchor = b"".join(lines), (root / "anchor").read_bytes()
    for length in range(len(whole)):
        segment(root).write_bytes(whole[:length])
        (root / "anchor").write_bytes(anchor)
        with FileLedger.open(root) as ledger:
            assert "gone" in ledger.health().recovery
            assert F.HEAD in {fault.kind for fault in ledger.verify().faults}
            assert not any(can_be_sent(ledger, slot) for slot in (DOUBTFUL, BESIDE))
            assert code(ledger.reserve(LATER, PINS, key="run-9")) is C.RECOVERY_REQUIRED
        assert segment(root).read_bytes() == whole[:length]
    segment(root).write_bytes(whole)
    with FileLedger.open(root) as ledger:
        assert ledger.verify().faults == ()
        assert can_be_sent(ledger, DOUBTFUL)


@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_one_changed_byte_of_a_row_blocks_its_slot_and_no_other(root, bit):
    lines = written(root)
    for place in range(len(lines[0])):
        changed = bytearray(lines[0])
        changed[place] ^= bit
        segment(root).write_bytes(bytes(changed) + b"".join(lines[1:]))
        with FileLedger.open(root) as ledger:
            assert ledger.health().recovery == ""
            faults = ledger.verify().faults
            assert (faults[0].sequence, faults[0].slot) == (1, DOUBTFUL), (place, faults)
            assert not can_be_sent(ledger, DOUBTFUL), place
            with pytest.raises(Altered, match="doubtful"):
                ledger.of(DOUBTFUL)
            assert told(ledger.of(BESIDE)[0]).state is S.PREPARED
    with FileLedger.open(root) as ledger:
        assert can_be_sent(ledger, BESIDE)
        granted(ledger, LATER)


def test_one_changed_byte_of_the_last_row_blocks_its_slot_and_no_other(root):
    lines = written(root)
    anchor = (root / "anchor").read_bytes()
    for place in range(len(lines[-1]) - 1):
        changed = bytearray(lines[-1])
        changed[place] ^= 0x01
        segment(root).write_bytes(b"".join(lines[:-1]) + bytes(changed))
        (root / "anchor").write_bytes(anchor)
        for each in (root / "claims").rglob("later"):
            each.unlink()
        with FileLedger.open(root) as ledger:
            faults = ledger.verify().faults
            assert (faults[0].sequence, faults[0].slot) == (5, BESIDE), (place, faults)
            assert not can_be_sent(ledger, BESIDE)
            if place % 50 == 0:
                granted(ledger, feed(f"later-{place}"))
                assert can_be_sent(ledger, DOUBTFUL)


def test_a_byte_changed_under_a_running_process_is_noticed_for_exactly_that_slot(root, ledger):
    written(root)
    assert ledger.get(DOUBTFUL.reservation_id(1)) is not None
    with segment(root).open("r+b") as file:
        file.seek(200)
        byte = file.read(1)
        file.seek(200)
        file.write(bytes([byte[0] ^ 1]))
    assert not can_be_sent(ledger, DOUBTFUL)
    assert can_be_sent(ledger, BESIDE)
    assert ledger.verify().faults[0].slot == DOUBTFUL


@pytest.mark.parametrize("first", range(4))
def test_two_lines_swapped_are_both_named(root, first):
    lines = written(root)
    swapped = [*lines[:first], lines[first + 1], lines[first], *lines[first + 2 :]]
    segment(root).write_bytes(b"".join(swapped))
    with FileLedger.open(root) as ledger:
        faults = ledger.verify().faults
        assert {fault.sequence for fault in faults if fault.kind is F.SEQUENCE} == {first + 1, first + 2}
        touched = [DOUBTFUL, feed("sent"), feed("sent"), feed("sent"), BESIDE][first : first + 2]
        for slot in (DOUBTFUL, BESIDE):
            assert can_be_sent(ledger, slot) == (slot not in touched)
        granted(ledger, LATER)


def test_a_line_that_is_gone_blocks_what_it_may_have_concerned(root):
    lines = written(root)
    del lines[2]  # the grant of the slot that was sent
    segment(root).write_bytes(b"".join(lines))
    with FileLedger.open(root) as ledger:
        kinds = {fault.kind for fault in ledger.verify().faults}
        assert F.SEQUENCE in kinds
        assert not can_be_sent(ledger, DOUBTFUL), "the lost row could have been its grant"
        assert can_be_sent(ledger, BESIDE), "it was reserved after the lost row"
        granted(ledger, LATER)


def test_what_became_of_a_call_is_still_recorded_where_a_row_is_missing(root):
    """The holder was told to call, and did; refusing its answer would lose the only evidence."""
    with FileLedger.open(root) as ledger:
        grant = granted(ledger, DOUBTFUL)
        reserved(ledger, feed("lost"))
        reserved(ledger, BESIDE)
    lines = segment(root).read_bytes().splitlines(keepends=True)
    segment(root).write_bytes(b"".join(lines[:2] + lines[3:]))
    with FileLedger.open(root) as ledger:
        assert not can_be_sent(ledger, feed("lost"))
        assert code(ledger.reserve(feed("lost"), PINS, key="run-9")) is C.RECOVERY_REQUIRED
        assert told(ledger.settle(grant, delivered(RECEIPT))).state is S.DELIVERED
        assert can_be_sent(ledger, BESIDE)


def test_doubt_about_a_missing_row_keeps_a_failed_slot_from_being_replaced(root):
    with FileLedger.open(root) as ledger:
        told(ledger.settle(granted(ledger, DOUBTFUL), known_failure(Reason.REJECTED)))
        brought_to(ledger, S.UNKNOWN, weekly("w"))
    lines = segment(root).read_bytes().splitlines(keepends=True)
    del lines[4]  # a grant
    segment(root).write_bytes(b"".join(lines))
    with FileLedger.open(root) as ledger:
        assert code(ledger.replace(DOUBTFUL, approval=KIM, key="run-2")) is C.RECOVERY_REQUIRED


@pytest.mark.parametrize("number", [1, 2])
def test_a_missing_segment_is_named_and_new_slots_go_on(root, number):
    written(root, seal_rows=2)
    segment(root, number).unlink()
    with FileLedger.open(root, seal_rows=2) as ledger:
        faults = ledger.verify().faults
        assert any(fault.kind is F.MISSING_SEGMENT and f"{number:06d}" in fault.why for fault in faults)
        if number == 1:
            assert code(ledger.reserve(DOUBTFUL, PINS, key="run-9")) is C.RECOVERY_REQUIRED
        else:
            assert not can_be_sent(ledger, DOUBTFUL)
        granted(ledger, LATER)


def test_a_missing_last_segment_stops_the_whole_store(root):
    written(root, seal_rows=2)
    segment(root, 3).unlink()
    with FileLedger.open(root, seal_rows=2) as ledger:
        assert "gone" in ledger.health().recovery
        assert code(ledger.reserve(LATER, PINS, key="run-9")) is C.RECOVERY_REQUIRED


def test_a_newline_that_was_changed_blocks_the_row_it_ended(root):
    lines = written(root)
    lines[0] = lines[0][:-1] + b"x"
    segment(root).write_bytes(b"".join(lines))
    with FileLedger.open(root) as ledger:
        assert not can_be_sent(ledger, DOUBTFUL)
        assert can_be_sent(ledger, BESIDE)
        assert [fault.sequence for fault in ledger.verify().faults] == [1]


def test_a_stretch_of_zeros_over_several_rows_blocks_what_it_may_have_concerned(root):
    lines = written(root)
    lines[1:3] = [b"\0" * (len(lines[1]) + len(lines[2]) - 1) + b"\n"]
    segment(root).write_bytes(b"".join(lines))
    with FileLedger.open(root) as ledger:
        assert not can_be_sent(ledger, DOUBTFUL)
        assert can_be_sent(ledger, BESIDE)
        granted(ledger, LATER)


def test_one_changed_byte_of_a_claim_blocks_its_slot_and_repair_writes_it_again(root):
    written(root)
    path = root / "claims" / "partner-1" / "p-doubtful" / "feed"
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with FileLedger.open(root) as ledger:
            assert [(fault.kind, fault.slot) for fault in ledger.verify().faults] == [(F.CLAIM, DOUBTFUL)]
            assert not can_be_sent(ledger, DOUBTFUL)
            repairs = ledger.repair()
            assert repairs.left == ()
            assert [each.slot for each in repairs.made] == [DOUBTFUL]
        assert path.read_bytes() == whole
    with FileLedger.open(root) as ledger:
        assert can_be_sent(ledger, BESIDE)
        assert can_be_sent(ledger, DOUBTFUL)


def test_a_slot_whose_rows_were_altered_and_whose_claim_is_gone_is_not_taken_for_a_new_one(root):
    """The altered rows still name it in words: it may have been sent."""
    with FileLedger.open(root) as ledger:
        granted(ledger, feed("sent"))
        other = reserved(ledger, feed("other"))
    path = segment(root)
    first, second, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*(line.replace(b'"attempt":1', b'"attempt":7') for line in (first, second)), *rest]))
    (root / "claims" / feed("sent").customer / feed("sent").period / "feed").unlink()
    with FileLedger.open(root) as again:
        assert code(again.reserve(feed("sent"), PINS, key="run-9")) is C.RECOVERY_REQUIRED
        again.repair()
        assert code(again.reserve(feed("sent"), PINS, key="run-9")) is C.RECOVERY_REQUIRED
        assert isinstance(again.grant(reserved(again, feed("new")).reservation_id, holder="run-9"), Grant)
        assert told(again.get(other.reservation_id)).state is S.PREPARED


def test_a_claim_that_changes_under_a_running_process_is_noticed_before_the_call(root, ledger):
    written(root)
    assert ledger.verify().faults == ()
    (root / "claims" / "partner-1" / "p-doubtful" / "feed").write_bytes(b"{}")
    assert not can_be_sent(ledger, DOUBTFUL)
    assert can_be_sent(ledger, BESIDE)


@pytest.mark.parametrize("sequence", [b"1.5", b"1e5", b"NaN", b"true", b'"1"', b"null", b"[]", b"{}"])
def test_a_claim_that_names_no_row_is_not_what_was_written(root, ledger, sequence):
    reserved(ledger, feed("first"))
    reserved(ledger, DOUBTFUL)
    path = root / "claims" / "partner-1" / "p-doubtful" / "feed"
    path.write_bytes(path.read_bytes().replace(b'"sequence":1}', b'"sequence":' + sequence + b"}"))
    assert not can_be_sent(ledger, DOUBTFUL)
    assert can_be_sent(ledger, feed("first"))


def test_a_claim_that_is_gone_is_written_again(root):
    written(root)
    path = root / "claims" / "partner-1" / "p-doubtful" / "feed"
    whole = path.read_bytes()
    path.unlink()
    with FileLedger.open(root) as ledger:
        assert [(fault.kind, fault.slot) for fault in ledger.verify().faults] == [(F.CLAIM, DOUBTFUL)]
        assert ledger.repair().left == ()
        assert path.read_bytes() == whole


def test_one_changed_byte_of_the_fence_stops_the_whole_store(root):
    written(root)
    path = root / "fence.json"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with FileLedger.open(root) as ledger:
            assert F.FENCE in {fault.kind for fault in ledger.verify().faults}
            assert not can_be_sent(ledger, BESIDE)
            assert ledger.repair().made == ()
    path.unlink()
    with FileLedger.open(root) as ledger:
        assert not can_be_sent(ledger, BESIDE)


def test_one_changed_byte_of_the_anchor_is_named_and_the_other_slot_of_it_holds(root):
    written(root)
    path = root / "anchor"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with FileLedger.open(root) as ledger:
            faults = ledger.verify().faults
            assert [fault.kind for fault in faults] == [F.ANCHOR]
            assert f"slot {place // 512}" in faults[0].why
            assert ledger.health().recovery == ""
    with FileLedger.open(root) as ledger:
        repairs = ledger.repair()
        assert (len(repairs.made), repairs.left) == (1, ())
        assert can_be_sent(ledger, BESIDE)
        assert ledger.verify().faults == ()


def test_who_has_the_store_open_while_another_repairs_the_anchor_goes_on_with_the_new_one(root):
    with FileLedger.open(root) as one, FileLedger.open(root) as other:
        granted(one, BESIDE)
        assert other.head().sequence == 2
        whole = (root / "anchor").read_bytes()
        (root / "anchor").write_bytes(b"x" + whole[1:])
        assert len(one.repair().made) == 1
        grant = granted(other, DOUBTFUL)
        assert b'"sequence":4' in (root / "anchor").read_bytes()
    segment(root).write_bytes(b"".join(segment(root).read_bytes().splitlines(keepends=True)[:2]))
    with FileLedger.open(root) as ledger:
        assert "gone" in ledger.health().recovery
        assert code(ledger.reserve(grant.slot, PINS, key="run-1")) is C.RECOVERY_REQUIRED


@pytest.mark.parametrize("content", [b"", b"x" * 1024, b"\0" * 1024])
def test_without_an_anchor_nothing_is_sent_until_a_person_accepts(root, content):
    written(root)
    (root / "anchor").write_bytes(content)
    with FileLedger.open(root) as ledger:
        assert F.ANCHOR in {fault.kind for fault in ledger.verify().faults}
        assert not can_be_sent(ledger, BESIDE)
        assert ledger.repair().made == ()
        assert not can_be_sent(ledger, BESIDE)
        assert ledger.repair(accept_loss=True).left == ()
        assert told(ledger.of(BESIDE)[0]).state is S.UNKNOWN
        granted(ledger, LATER)


@pytest.mark.parametrize("name", [b"is_synced", b"is_retired"])
def test_an_anchor_that_says_a_number_where_it_says_yes_or_no_was_altered(root, name):
    written(root)
    stored = (root / "anchor").read_bytes()
    (root / "anchor").write_bytes(re.sub(b'"' + name + b'":[a-z]+', b'"' + name + b'":7   ', stored))
    with FileLedger.open(root) as ledger:
        assert "anchor" in ledger.health().recovery
        assert not can_be_sent(ledger, DOUBTFUL)


def test_a_torn_line_that_nobody_was_told_of_is_set_aside_and_cut(root):
    lines = written(root)
    whole = b"".join(lines)
    segment(root).write_bytes(whole + lines[0][:77])
    with FileLedger.open(root) as ledger:
        assert ledger.verify().faults == ()
        assert can_be_sent(ledger, BESIDE)
    (kept,) = (root / "quarantine").iterdir()
    assert kept.read_bytes() == lines[0][:77]
    assert segment(root).read_bytes().startswith(whole)


def test_a_row_that_grew_keeps_the_rows_behind_it(root):
    """The published size ended in the middle of the last line: that was taken for torn, and cut."""
    lines = written(root)
    segment(root).write_bytes(lines[0].replace(b"prepared", b"known_failure", 1) + b"".join(lines[1:]))
    with FileLedger.open(root) as ledger:
        assert not can_be_sent(ledger, DOUBTFUL)
        assert can_be_sent(ledger, BESIDE)
        granted(ledger, LATER)
    assert segment(root).read_bytes().splitlines(keepends=True)[1:5] == lines[1:]


def test_an_altered_slot_does_not_hide_what_a_person_can_still_do_elsewhere(root):
    lines = written(root)
    segment(root).write_bytes(lines[0].replace(b"prepared", b"sending!", 1) + b"".join(lines[1:]))
    with FileLedger.open(root) as ledger:
        grant = granted(ledger, LATER)
        told(ledger.settle(grant, known_failure(Reason.REJECTED)))
        again = told(ledger.replace(LATER, approval=KIM, key="run-2"))
        assert again.attempt == 2
        assert code(ledger.resolve(DOUBTFUL.reservation_id(1), was_sent=True, evidence=EVIDENCE, approval=KIM)) in (
            C.RECOVERY_REQUIRED,
            C.NOT_FOUND,
        )
