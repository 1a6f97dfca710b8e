"""YAML with the place of everything: a closed part of YAML 1.1, read into nodes that know their line and column.

Closed on purpose: one document of mappings, lists and scalars. No anchors, aliases, merge keys or tags (whoever reads the file must see
what it says), no key twice, no control characters. What SafeLoader would make of a scalar is kept beside its text, so that `010` or
`yes` can be refused instead of meaning something else.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

import yaml
from yaml.resolver import Resolver

from guards.text import one_line

MOST_BYTES: Final = 4 * 1024 * 1024
MOST_DEPTH: Final = 8
MOST_PROBLEMS: Final = 200
"""More are not listed: whoever gets 200 sentences reads the first ten."""

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml reads a registry of 1,000 customers in 0.2 s, PyYAML's own parser in 3 s; but PyYAML may be built without it."""
_RESOLVER: Final = Resolver()
_UNREADABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\r(?!\n)")
"""What YAML refuses, and what it counts as the end of a line where an editor does not."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """`line` and `column` count from 1, as editors do; `sentence` says what is wrong and what is allowed."""

    line: int
    column: int
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.sentence}"


class Meant(StrEnum):
    """What SafeLoader makes of a scalar that is written without quotes. With quotes it is text."""

    TEXT = "text"
    NUMBER = "a number"
    TRUTH = "true or false"
    NOTHING = "nothing"
    DATE = "a date"
    UNKNOWN = "unknown"
    """An alias or a tagged value: the problem is already said."""


_MEANT: Final = {
    "int": Meant.NUMBER,
    "float": Meant.NUMBER,
    "bool": Meant.TRUTH,
    "null": Meant.NOTHING,
    "timestamp": Meant.DATE,
}


@dataclass(frozen=True, slots=True)
class Scalar:
    line: int
    column: int
    text: str
    meant: Meant


@dataclass(frozen=True, slots=True)
class Items:
    line: int
    column: int
    items: list["Node"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Table:
    line: int
    column: int
    pairs: dict[str, tuple[Scalar, "Node"]] = field(default_factory=dict)
    """Key to (where the key stands, its value), in the file's order."""


Node: TypeAlias = Scalar | Items | Table


class TooManyProblems(Exception):
    """Enough was said."""


@dataclass(slots=True)
class Problems:
    """What is wrong so far. Adding raises `TooManyProblems` once `MOST_PROBLEMS` are said."""

    said: list[Problem] = field(default_factory=list)

    def at(self, place: Node, sentence: str) -> None:
        self.add(place.line, place.column, sentence)

    def add(self, line: int, column: int, sentence: str) -> None:
        if len(self.said) == MOST_PROBLEMS:
            raise TooManyProblems
        self.said.append(Problem(line, column, sentence))

    def in_order(self) -> tuple[Problem, ...]:
        """By position; each once."""
        return tuple(sorted(set(self.said)))


def read_yaml(data: bytes, problems: Problems, *, loader: Any = LOADER) -> Node | None:
    """The document, or None when `problems` say why there is none. May raise `TooManyProblems`."""
    text = _text(data, problems)
    if text is None:
        return None
    try:
        return _Tree(problems).of(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problems.add(line, column, _syntax(text, line, error))
    except (ValueError, OverflowError):  # PyYAML's own parser, for an escape beyond U+10FFFF
        problems.add(1, 1, "not YAML: an escape in quotes (\\U...) names no character")
    return None


def _text(data: bytes, problems: Problems) -> str | None:
    if len(data) > MOST_BYTES:
        problems.add(1, 1, f"the file has more than {MOST_BYTES:,} bytes, which are the most")
        return None
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        problems.add(*_place(before, len(before)), f"not UTF-8: byte 0x{data[error.start]:02x} cannot stand here")
        return None
    unreadable = [found.start() for found in _UNREADABLE.finditer(text)]
    for at in unreadable:
        problems.add(*_place(text, at), f"the character U+{ord(text[at]):04X} cannot stand in this file")
    return None if unreadable else text


def _place(text: str, at: int) -> tuple[int, int]:
    """(line, column) of a position, from 1. Only `\\n` ends a line."""
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def _syntax(text: str, line: int, error: yaml.MarkedYAMLError) -> str:
    lines = text.split("\n")
    if line <= len(lines) and "\t" in re.match(r"[ \t]*", lines[line - 1])[0]:  # type: ignore[index]
        return "a tab in the indentation: YAML is indented with blanks"
    said = ", ".join(str(part) for part in (error.problem, error.context) if part)
    return f"not YAML: {one_line(said)}"


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end was not seen yet. `key`: of a mapping, the key whose value comes next."""

    node: Items | Table
    key: Scalar | None = None


@dataclass(slots=True)
class _Tree:
    """Nodes from parser events, without recursion: a file of 4 MiB of `[` must not end the program."""

    problems: Problems
    open: list[_Open] = field(default_factory=list)
    root: Node | None = None
    documents: int = 0

    def of(self, events: Iterable[Any]) -> Node | None:
        """None when it is not one document, or one too deep: said."""
        for event in events:
            match event:
                case yaml.ScalarEvent():
                    self._place(self._scalar(event))
                case yaml.AliasEvent():
                    self._refuse(event, "an alias (*name) is refused: write out what it stands for")
                    self._place(Scalar(*_start(event), "", Meant.UNKNOWN))
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    if len(self.open) == MOST_DEPTH:
                        self._refuse(event, f"nested deeper than {MOST_DEPTH} levels")
                        return None
                    self._refuse_extras(event)
                    kind = Table if isinstance(event, yaml.MappingStartEvent) else Items
                    opened = kind(*_start(event))
                    self._place(opened)
                    self.open.append(_Open(opened))
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self.open.pop()
                case yaml.DocumentStartEvent():
                    self.documents += 1
                    if self.documents == 2:
                        self._refuse(event, "a second document (---) begins here; the file is one")
                        return None
        if self.root is None:
            self.problems.add(1, 1, "the file is empty")
        return self.root

    def _place(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        if isinstance(parent.node, Items):
            parent.node.items.append(node)
        elif parent.key is None:
            parent.key = self._key(node)
        else:
            self._pair(parent.node, parent.key, node)
            parent.key = None

    def _key(self, node: Node) -> Scalar:
        if isinstance(node, Scalar):
            return node
        self.problems.at(node, "a key must be a word, not a list or a mapping")
        return Scalar(node.line, node.column, "", Meant.UNKNOWN)

    def _pair(self, table: Table, key: Scalar, value: Node) -> None:
        first = table.pairs.get(key.text)
        if key.meant is Meant.UNKNOWN:
            return
        if first is not None:
            self.problems.at(key, f"the key {one_line(key.text)} stands here a second time; the first is in line {first[0].line}")
        elif key.text == "<<":
            self.problems.at(key, "a merge key (<<) is refused: write out what it stands for")
        else:
            table.pairs[key.text] = (key, value)

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        if self._refuse_extras(event):
            text, meant = "", Meant.UNKNOWN
        else:
            text, meant = event.value, _meant(event.value) if event.implicit[0] else Meant.TEXT
        return Scalar(*_start(event), text, meant)

    def _refuse_extras(self, event: Any) -> bool:
        if event.anchor is not None:
            self._refuse(event, "an anchor (&name) is refused: nothing in this file may stand for something else")
        if event.tag is not None:
            self._refuse(event, "a tag (!name) is refused: values are what they look like")
        return event.anchor is not None or event.tag is not None

    def _refuse(self, event: Any, sentence: str) -> None:
        self.problems.add(*_start(event), sentence)


def _start(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _meant(text: str) -> Meant:
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return _MEANT.get(tag.rpartition(":")[2], Meant.TEXT)
