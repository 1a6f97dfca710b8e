"""The crash model itself, on programs of a few steps whose crash states can be written down by hand."""

import pytest

from resources.ledger.file.disk import Disk
from tests.crash.ledger.crashes import Leaf, Model, Tree, crash_states, fingerprint, written_out
from tests.crash.ledger.recording import NeverSyncs, NeverSyncsDirectories, Recorder, RecordingDisk, recording
from tests.ledgers.worlds import tree

pytestmark = pytest.mark.crash


def publish(disk: Disk, name: str, data: bytes) -> None:
    """The usual way to replace a small file whole."""
    file = disk.create(f"{name}.new")
    disk.append(file, data)
    disk.sync(file)
    disk.done(file)
    disk.rename(f"{name}.new", name)
    disk.sync_directory()


def states(tmp_path, program, *, kind: type[RecordingDisk] = RecordingDisk, after: int | None = None) -> set[frozenset]:
    recorder = Recorder()
    root = tmp_path / "root"
    root.mkdir()
    program(recording(recorder, kind)(root))
    found: set[frozenset] = set()
    model = Model()
    for number, step in enumerate(recorder.steps, start=1):
        model.take(step)
        if after is None or number == after:
            found |= {frozenset(flat(left)) for left in crash_states(model, most=10_000, seed=1)}
    return found


def flat(left: Tree, above: str = ""):
    for name, below in left.items():
        if isinstance(below, Leaf):
            yield above + name, below.content
        else:
            yield above + name + "/", b""
            yield from flat(below, f"{above}{name}/")


def test_a_file_replaced_whole_is_old_or_new_at_every_step(tmp_path):
    def program(disk):
        publish(disk, "a", b"old")
        publish(disk, "a", b"new")

    values = {dict(state).get("a") for state in states(tmp_path, program)}
    assert values == {None, b"old", b"new"}


@pytest.mark.parametrize(
    ("kind", "lost"), [(NeverSyncs, {b"", b"\0\0\0"}), (NeverSyncsDirectories, {None})], ids=["file", "directory"]
)
def test_without_the_sync_the_same_program_loses_data(tmp_path, kind, lost):
    left = {dict(state).get("a") for state in states(tmp_path, lambda disk: publish(disk, "a", b"new"), kind=kind, after=4)}
    assert lost <= left


def test_an_unsynced_append_is_absent_cut_zero_filled_or_whole(tmp_path):
    def program(disk):
        file = disk.create("log")
        disk.append(file, b"one.")
        disk.sync(file)
        disk.sync_directory()
        disk.append(file, b"two.")

    left = {dict(state)["log"] for state in states(tmp_path, program, after=5)}
    assert left == {b"one." + rest for rest in (b"", b"\0\0\0\0", b"t", b"t\0\0\0", b"tw", b"tw\0\0", b"two", b"two\0", b"two.")}


def test_of_two_unsynced_appends_the_second_may_be_there_without_the_first(tmp_path):
    def program(disk):
        file = disk.create("log")
        disk.sync_directory()
        disk.append(file, b"aa")
        disk.append(file, b"bb")

    left = {dict(state)["log"] for state in states(tmp_path, program, after=4)}
    assert {b"", b"aa", b"\0\0bb", b"aabb", b"ab"} <= left | {b"ab"}
    assert b"\0\0bb" in left


def test_an_overwrite_in_place_is_old_new_or_torn(tmp_path):
    def program(disk):
        file = disk.create("slot")
        disk.append(file, b"AAAA")
        disk.sync(file)
        disk.sync_directory()
        disk.done(file)
        disk.overwrite(disk.open_fixed("slot"), 0, b"BBBB")

    left = {dict(state)["slot"] for state in states(tmp_path, program, after=5)}
    assert {b"AAAA", b"BBBB", b"BBAA", b"AABB"} <= left


def test_a_rename_to_another_directory_never_loses_both_names(tmp_path):
    def program(disk):
        disk.make_directory("d")
        disk.sync_directory()
        file = disk.create("a")
        disk.sync(file)
        disk.sync_directory()
        disk.rename("a", "d/a")

    left = {frozenset(name for name, _ in state if name != "d/") for state in states(tmp_path, program, after=6)}
    assert left == {frozenset({"a"}), frozenset({"d/a"}), frozenset({"a", "d/a"})}


def test_a_directory_that_was_not_synced_takes_its_files_with_it(tmp_path):
    def program(disk):
        disk.make_directory("d")
        file = disk.create("d/a")
        disk.sync(file)
        disk.sync_directory("d")

    left = {frozenset(name for name, _ in state) for state in states(tmp_path, program, after=4)}
    assert left == {frozenset(), frozenset({"d/", "d/a"})}


def test_all_that_was_synced_is_there_and_one_state_is_left(tmp_path):
    left = states(tmp_path, lambda disk: publish(disk, "a", b"new"), after=5)
    assert left == {frozenset({("a", b"new")})}


def test_a_tree_is_written_out_as_it_is(tmp_path):
    """Two names of one file stay two names of one file, and nothing is readable by others."""
    one = Leaf(1, b"x")
    left: Tree = {"a": one, "d": {"b": one, "c": Leaf(2, b"")}}
    written_out(left, tmp_path / "out")
    assert (tmp_path / "out/a").samefile(tmp_path / "out/d/b")
    assert {name: oct(mode & 0o777) for name, (mode, _) in tree(tmp_path / "out").items()} == {
        "a": "0o600",
        "d": "0o700",
        "d/b": "0o600",
        "d/c": "0o600",
    }
    assert fingerprint(left) != fingerprint({"a": one, "d": {"b": Leaf(3, b"x"), "c": Leaf(2, b"")}})
