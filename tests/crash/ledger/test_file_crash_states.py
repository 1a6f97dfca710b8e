"""The file store after a crash of the machine: every state that could be left of a life's writes, each opened and held to the promise."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from resources.errors import OpsGuardError
from resources.ledger.file.store import FileLedger
from tests.crash.ledger.crashes import Model, Tree, crash_states, fingerprint
from tests.crash.ledger.promise import Fact, Life, assert_promise
from tests.crash.ledger.recording import NeverSyncs, NeverSyncsDirectories, Recorder, RecordingDisk, Step, recording
from tests.crash.ledger.restored import recovering, restored
from tests.ledgers.builders import feed

pytestmark = pytest.mark.crash

ROWS_PER_SEGMENT = 7
"""The life below fills four segments."""
MOST_PER_STEP = 70
FEWEST_STATES = 2_000
FEWEST_IN_RECOVERY = 300
MOST_SPARE_SYNCS = 4


@dataclass
class Recorded:
    """`facts` with the number of steps that had been taken when each was said."""

    steps: list[Step]
    facts: list[tuple[int, Fact]] = field(default_factory=list)

    def facts_after(self, steps: int) -> list[Fact]:
        return [fact for said_at, fact in self.facts if said_at <= steps]


def lived(root: Path, kind: type[RecordingDisk] = RecordingDisk) -> Recorded:
    recorder = Recorder()
    recorded = Recorded(recorder.steps)
    root.mkdir(mode=0o700)
    opened: list[FileLedger] = []

    def open_one() -> FileLedger:
        opened.append(FileLedger.open(root, disk=recording(recorder, kind), seal_rows=ROWS_PER_SEGMENT))
        return opened[-1]

    Life(
        open=open_one,
        gone=lambda handle, _: handle.close(),
        say=lambda fact: recorded.facts.append((len(recorder.steps), fact)),
    ).lead()
    for each in opened:
        each.close()
    return recorded


def left_by_crashes(recorded: Recorded, *, most: int) -> Iterator[tuple[int, Tree]]:
    """(steps taken, tree); the same tree again only when more had been said."""
    model = Model()
    seen: set[tuple[str, int]] = set()
    for number, step in enumerate([None, *recorded.steps]):
        if step is not None:
            model.take(step)
        said = len(recorded.facts_after(number))
        for tree in crash_states(model, most=most, seed=number):
            key = (fingerprint(tree), said)
            if key not in seen:
                seen.add(key)
                yield number, tree


def hold_to_the_promise(tree: Tree, facts: list[Fact], root: Path, *, repairs: bool) -> None:
    disk = restored(tree, root)
    try:
        with FileLedger.open(root, disk=disk, seal_rows=ROWS_PER_SEGMENT) as ledger:
            # A verification is a quarter of the time: with a repair, which is one, it is not made again.
            assert_promise(ledger, facts, fresh=feed("fresh"), repairs=repairs, verifies=not repairs)
    finally:
        shutil.rmtree(root)


def check(tree: Tree, recorded: Recorded, number: int, root: Path, *, repairs: bool, what: str = "") -> None:
    try:
        hold_to_the_promise(tree, recorded.facts_after(number), root, repairs=repairs)
    except (AssertionError, OpsGuardError) as broken:
        raise AssertionError(f"after step {number} ({recorded.steps[number - 1]}){what}: {broken}") from broken


def test_whatever_a_crash_leaves_no_message_is_sent_twice_and_nothing_acknowledged_is_lost(memory_disk):
    recorded = lived(memory_disk / "life")
    segments = {step.path for step in recorded.steps if step.call == "create" and step.path.startswith("segments/")}
    assert len(segments) >= 3, "the life must seal segments"
    checked: set[str] = set()
    for number, tree in left_by_crashes(recorded, most=MOST_PER_STEP):
        checked.add(fingerprint(tree))
        check(tree, recorded, number, memory_disk / "left", repairs=len(checked) % 2 == 0)
    print(f"\n{len(checked)} crash states of {len(recorded.steps)} steps")
    assert len(checked) >= FEWEST_STATES


def test_a_crash_in_the_middle_of_the_recovery_from_a_crash_loses_nothing_either(memory_disk):
    recorded = lived(memory_disk / "life")
    checked: set[str] = set()
    for number, tree in left_by_crashes(recorded, most=2):
        recorder, disk = recovering(tree, memory_disk / "first")
        with FileLedger.open(memory_disk / "first", disk=disk, seal_rows=ROWS_PER_SEGMENT) as ledger:
            ledger.repair()
        shutil.rmtree(memory_disk / "first")
        model = Model.of(tree)
        for count, step in enumerate(recorder.steps):
            model.take(step)
            for left in crash_states(model, most=2, seed=number + count):
                if fingerprint(left) not in checked:
                    checked.add(fingerprint(left))
                    check(left, recorded, number, memory_disk / "left", repairs=False, what=f", then {step}")
    print(f"\n{len(checked)} crash states of recoveries")
    assert len(checked) >= FEWEST_IN_RECOVERY


@pytest.mark.parametrize("kind", [NeverSyncs, NeverSyncsDirectories])
def test_a_disk_that_does_not_sync_is_found_out(memory_disk, kind):
    """The checker itself: were it blind, the tests above would prove nothing."""
    recorded = lived(memory_disk / "life", kind)

    def check_all() -> None:
        for number, tree in left_by_crashes(recorded, most=MOST_PER_STEP):
            check(tree, recorded, number, memory_disk / "left", repairs=False)

    with pytest.raises(AssertionError, match=r"is gone|was .*, and is|second time"):
        check_all()


def test_nearly_every_sync_is_needed_and_its_lack_is_found_out(memory_disk):
    """One sync at a time is taken out of the same life. Those that nobody misses come before anything was promised, or repeat another."""
    recorded = lived(memory_disk / "life")
    syncs = [number for number, step in enumerate(recorded.steps) if step.call in ("sync", "sync_directory")]
    missed = [number for number in syncs if _is_missed(recorded, number, memory_disk / "left")]
    print(f"\n{len(missed)} of {len(syncs)} syncs are missed when they are left out")
    assert len(syncs) - len(missed) <= MOST_SPARE_SYNCS, set(syncs) - set(missed)


def _is_missed(recorded: Recorded, left_out: int, root: Path) -> bool:
    """Within the steps of the next two transitions."""
    model = Model()
    for number, step in enumerate(recorded.steps[: left_out + 14]):
        if number != left_out:
            model.take(step)
        if number >= left_out:
            for tree in crash_states(model, most=6, seed=number):
                try:
                    hold_to_the_promise(tree, recorded.facts_after(number + 1), root, repairs=False)
                except (AssertionError, OpsGuardError):
                    return True
    return False
