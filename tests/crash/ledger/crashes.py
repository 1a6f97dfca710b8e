"""What a crash may leave on a disk: every tree that the steps so far allow when only what was synced is sure.

Synced data and synced entries are there. Of the rest, independently of the order they were asked for in: a write may be absent, whole,
cut short, or present in size with zeros for content; one in place may be old, new or torn; an entry (created, linked, renamed,
removed) may be there or not. Two limits, which every file system keeps that the store accepts: a rename never loses the file from both of its names,
and a file or directory that an entry names exists.
"""

import hashlib
import itertools
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.ledger.recording import Stat, Step


@dataclass(slots=True)
class Inode:
    synced: bytes = b""
    live: bytearray = field(default_factory=bytearray)
    pending: list[Step] = field(default_factory=list)
    """Since the last sync; an append has the offset that it happened at."""
    stat: Stat | None = None


@dataclass(slots=True)
class Change:
    """One entry added (`node`) or removed (None). The removal of a rename names the addition that it must not happen without."""

    name: str
    node: "Node | None"
    only_with: "Change | None" = None


@dataclass(slots=True)
class Directory:
    synced: dict[str, "Node"] = field(default_factory=dict)
    live: dict[str, "Node"] = field(default_factory=dict)
    pending: list[Change] = field(default_factory=list)

    def change(self, change: Change) -> Change:
        if change.node is None:
            del self.live[change.name]
        else:
            self.live[change.name] = change.node
        self.pending.append(change)
        return change


Node = Inode | Directory


class Model:
    """The disk after some steps: what is sure, and what is pending."""

    def __init__(self) -> None:
        self.root = Directory()
        self.files: dict[int, Inode] = {}
        """By the step that created them."""

    @classmethod
    def of(cls, tree: "Tree") -> "Model":
        """After a crash: what is left is sure. Its files have negative numbers, as `numbered` gives them out."""
        model = cls()
        numbers = numbered(tree)

        def walk(below: Tree, into: Directory, above: str) -> None:
            for name, each in below.items():
                node: Node
                if isinstance(each, Leaf):
                    number = numbers[above + name]
                    node = model.files.setdefault(number, Inode(each.content, bytearray(each.content), stat=each.stat))
                else:
                    node = Directory()
                    walk(each, node, f"{above}{name}/")
                into.synced[name] = into.live[name] = node

        walk(tree, model.root, "")
        return model

    def take(self, step: Step) -> None:
        match step.call:
            case "make_directory":
                where, name = self._place(step.path)
                where.change(Change(name, Directory()))
            case "create":
                where, name = self._place(step.path)
                self.files[step.file] = Inode(stat=step.stat)
                where.change(Change(name, self.files[step.file]))
            case "append" | "overwrite" | "truncate":
                self._write(self.files[step.file], step)
            case "sync":
                file = self.files[step.file]
                file.synced, file.pending = bytes(file.live), []
            case "sync_directory":
                directory = self._directory(step.path)
                directory.synced, directory.pending = dict(directory.live), []
            case "link":
                where, name = self._place(step.target)
                where.change(Change(name, self._node(step.path)))
            case "rename":
                where, name = self._place(step.target)
                added = where.change(Change(name, self._node(step.path)))
                source, old = self._place(step.path)
                source.change(Change(old, None, only_with=added))
            case "unlink" | "remove_directory":
                where, name = self._place(step.path)
                where.change(Change(name, None))

    def _write(self, file: Inode, step: Step) -> None:
        if step.call == "append":
            step = Step("append", step.path, data=step.data, offset=len(file.live), file=step.file, stat=step.stat)
        file.live[:] = _written(bytes(file.live), step, len(step.data))
        file.pending.append(step)
        file.stat = step.stat

    def _directory(self, path: str) -> Directory:
        directory = self.root
        for part in path.split("/"):
            if part != ".":
                below = directory.live[part]
                assert isinstance(below, Directory)
                directory = below
        return directory

    def _place(self, path: str) -> tuple[Directory, str]:
        above, _, name = path.rpartition("/")
        return self._directory(above or "."), name

    def _node(self, path: str) -> Node:
        where, name = self._place(path)
        return where.live[name]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A file that a crash left; two names of one file have the same `inode`."""

    inode: int
    content: bytes
    stat: Stat | None = None


Tree = dict[str, "Leaf | Tree"]


def crash_states(model: Model, *, most: int, seed: int) -> Iterator[Tree]:
    """Every combination when there are at most `most`, else a sample: none and all of what is pending, each alone, each missing."""
    choices = _choices(model)
    sizes = [len(options) for _, options in choices]
    for picks in _combinations(sizes, most=most, seed=seed):
        tree = _tree(model, {id(node): options[pick] for (node, options), pick in zip(choices, picks, strict=True)})
        if tree is not None:
            yield tree


def fingerprint(tree: Tree) -> str:
    """Equal for trees that a program cannot tell apart."""
    lines: list[str] = []
    seen: dict[int, int] = {}

    def walk(tree: Tree, above: str) -> None:
        for name in sorted(tree):
            below = tree[name]
            if isinstance(below, Leaf):
                number = seen.setdefault(below.inode, len(seen))
                lines.append(f"{above}/{name} {number} {hashlib.sha256(below.content).hexdigest()}")
            else:
                lines.append(f"{above}/{name}/")
                walk(below, f"{above}/{name}")

    walk(tree, "")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def written_out(tree: Tree, root: Path) -> None:
    """The tree as real files in `root`, private as the store makes them."""
    made: dict[int, Path] = {}

    def walk(tree: Tree, where: Path) -> None:
        where.mkdir(mode=0o700)
        for name, below in tree.items():
            path = where / name
            if not isinstance(below, Leaf):
                walk(below, path)
            elif below.inode in made:
                os.link(made[below.inode], path)
            else:
                made[below.inode] = path
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                os.write(descriptor, below.content)
                os.close(descriptor)

    walk(tree, root)


def numbered(tree: Tree) -> dict[str, int]:
    """Path to the number of the file there, below zero."""
    found: dict[str, int] = {}
    numbers: dict[int, int] = {}

    def walk(below: Tree, above: str) -> None:
        for name, each in below.items():
            if isinstance(each, Leaf):
                found[above + name] = numbers.setdefault(each.inode, -len(numbers) - 2)
            else:
                walk(each, f"{above}{name}/")

    walk(tree, "")
    return found


def stats(tree: Tree, above: str = "") -> dict[str, Stat]:
    """By path, of the files that have one."""
    found: dict[str, Stat] = {}
    for name, below in tree.items():
        if not isinstance(below, Leaf):
            found |= stats(below, f"{above}{name}/")
        elif below.stat is not None:
            found[above + name] = below.stat
    return found


Option = tuple[int, ...] | bytes
"""Of a directory: the pending changes that happened. Of a file: its content."""


def _choices(model: Model) -> list[tuple[Node, list[Option]]]:
    directories = _all_directories(model)
    choices: list[tuple[Node, list[Option]]] = [(each, _subsets(len(each.pending))) for each in directories if each.pending]
    files = {id(node): node for directory in directories for node in _nodes(directory) if isinstance(node, Inode)}
    return choices + [(file, _contents(file)) for file in files.values() if file.pending]


def _subsets(count: int) -> list[Option]:
    """The first is none, the last all; beyond six changes only prefixes and single ones missing."""
    numbers = range(count)
    if count <= 6:
        return [chosen for size in range(count + 1) for chosen in itertools.combinations(numbers, size)]
    prefixes: list[Option] = [tuple(numbers[:size]) for size in range(count + 1)]
    missing: list[Option] = [tuple(each for each in numbers if each != gone) for gone in numbers]
    return [prefixes[0], *missing, *prefixes[1:]]


def _contents(file: Inode) -> list[Option]:
    """The first is what was synced, the last all that was written."""
    found: dict[bytes, None] = {file.synced: None}
    if len(file.pending) == 1:
        (step,) = file.pending
        for content in _torn(file.synced, step):
            found[content] = None
    else:
        for kept in itertools.islice(itertools.product((0, 1, 2), repeat=len(file.pending)), 243):
            content = file.synced
            for share, step in zip(kept, file.pending, strict=True):
                if share:
                    content = _written(content, step, len(step.data) * share // 2)
            found[content] = None
    found.pop(bytes(file.live), None)
    found[bytes(file.live)] = None
    return list(found)


def _torn(content: bytes, step: Step) -> Iterator[bytes]:
    size = len(step.data)
    if step.call == "truncate":
        yield _written(content, step, 0)
        return
    for length in sorted({0, 1, size // 4, size // 2, 3 * size // 4, size - 1} & set(range(size))):
        cut = _written(content, step, length)
        yield cut
        if step.call == "append":
            yield cut + bytes(size - length)
        else:
            yield content[: step.offset + length] + step.data[length:] + content[step.offset + size :]


def _written(content: bytes, step: Step, length: int) -> bytes:
    """With the first `length` bytes of a write. A gap before it (an earlier append that is lost) reads as zeros."""
    if step.call == "truncate":
        return content[: step.offset] + bytes(max(0, step.offset - len(content)))
    before = content[: step.offset] + bytes(max(0, step.offset - len(content)))
    return before + step.data[:length] + content[step.offset + length :]


def _combinations(sizes: Sequence[int], *, most: int, seed: int) -> Iterator[tuple[int, ...]]:
    total = 1
    for size in sizes:
        total *= size
    if total <= most:
        yield from itertools.product(*(range(size) for size in sizes))
        return
    none, every = tuple(0 for _ in sizes), tuple(size - 1 for size in sizes)
    chosen = {none: None, every: None}
    for place, size in enumerate(sizes):
        for pick in range(size):
            chosen[(*none[:place], pick, *none[place + 1 :])] = None
            chosen[(*every[:place], pick, *every[place + 1 :])] = None
    picks = random.Random(seed)
    wanted = list(chosen)
    if len(wanted) > most:
        wanted = [none, every, *picks.sample(wanted[2:], most - 2)]
    while len(wanted) < most:
        wanted.append(tuple(picks.randrange(size) for size in sizes))
    yield from wanted


def _tree(model: Model, chosen: dict[int, Option]) -> Tree | None:
    """None when the choice would lose a renamed file from both of its names."""
    directories = _all_directories(model)
    pending = {id(change) for directory in directories for change in directory.pending}
    happened = {id(change) for directory in directories for change in _happened(directory, chosen)}
    for change in (change for directory in directories for change in _happened(directory, chosen)):
        addition = change.only_with
        if addition is not None and id(addition) in pending - happened:
            return None
    return _entries(model.root, chosen)


def _happened(directory: Directory, chosen: dict[int, Option]) -> list[Change]:
    option = chosen.get(id(directory), ())
    assert isinstance(option, tuple)
    return [directory.pending[place] for place in option]


def _entries(directory: Directory, chosen: dict[int, Option]) -> Tree:
    entries = dict(directory.synced)
    for change in _happened(directory, chosen):
        if change.node is None:
            entries.pop(change.name, None)
        else:
            entries[change.name] = change.node
    made: Tree = {}
    for name, node in entries.items():
        if isinstance(node, Directory):
            made[name] = _entries(node, chosen)
        else:
            content = chosen.get(id(node), node.synced)
            assert isinstance(content, bytes)
            made[name] = Leaf(id(node), content, node.stat)
    return made


def _all_directories(model: Model) -> list[Directory]:
    found: dict[int, Directory] = {}
    waiting = [model.root]
    while waiting:
        directory = waiting.pop()
        if id(directory) not in found:
            found[id(directory)] = directory
            waiting += [node for node in _nodes(directory) if isinstance(node, Directory)]
    return list(found.values())


def _nodes(directory: Directory) -> list[Node]:
    """All that a crash may leave in it."""
    return [*directory.synced.values(), *(change.node for change in directory.pending if change.node is not None)]
