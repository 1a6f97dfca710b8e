"""Rows of listings: read strictly, and whatever bytes a server sends, a row is an entry, passed over, or unparsable - never an error."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.spool.listing import Entry, EntryType, TimeSource
from resources.file_servers import list_rows, mlsd
from resources.file_servers.mlsd import Passed, Unparsable
from resources.file_servers.names import decoded, directory_refusal, encoded, refusal

pytestmark = pytest.mark.fast

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ZONE = ZoneInfo("UTC")

_ROW_PIECES = st.sampled_from(
    [
        *[b"-rw-r--r--", b"drwxr-xr-x", b"lrwxrwxrwx", b"crw-rw----", b" ", b"  ", b"1", b"ftp", b"12345", b"Jan", b"31", b"Foo"],
        *[
            b"12:30",
            b"2026",
            b"99:99",
            b"feed.csv",
            b" -> ",
            b"01-31-26",
            b"13-41-2026",
            b"09:15AM",
            b"25:00PM",
            b"<DIR>",
            b"\x00",
        ],
        *[
            b"type=file;",
            b"size=12;",
            b"modify=20260102030405;",
            b"modify=20269999999999;",
            b"=",
            b";",
            b"\xff\xfe",
            b"2026-01-31",
        ],
    ]
)
rows = st.one_of(st.binary(max_size=200), st.lists(_ROW_PIECES, max_size=20).map(b"".join))


def of_list(row: bytes, *, zone: str = "UTC", now: datetime = NOW) -> Entry | Passed | Unparsable:
    return list_rows.parse_row(row, zone=ZoneInfo(zone), now=now)


@given(row=rows)
def test_any_bytes_of_a_list_row_have_an_answer(row: bytes) -> None:
    answer = of_list(row)
    assert isinstance(answer, Entry | Passed | Unparsable)
    if isinstance(answer, Entry):
        assert encoded(answer.name) in row


@given(row=rows)
def test_any_bytes_of_an_mlsd_row_have_an_answer(row: bytes) -> None:
    answer = mlsd.parse_row(row)
    assert isinstance(answer, Entry | Passed | Unparsable)
    if isinstance(answer, Entry):
        assert row.endswith(b" " + encoded(answer.name))
        assert isinstance(mlsd.parse_answer(row, "x"), Entry | Unparsable)


@given(raw=st.binary(max_size=300))
def test_every_name_gives_its_bytes_back(raw: bytes) -> None:
    assert encoded(decoded(raw)) == raw


@given(name=st.text(max_size=300))
def test_what_may_be_asked_is_one_component_and_ends_no_command(name: str) -> None:
    if not refusal(name):
        raw = encoded(name)
        assert name not in ("", ".", "..")
        assert len(raw) <= 255
        assert not set(raw) & set(b"\0\r\n/\\\xff")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "a\0", "a\r", "a\n", "a\udcff", "a" + chr(0xD800), "x" * 256, "é" * 128]
)
def test_names_that_are_never_asked_about_have_a_reason(name: str) -> None:
    assert refusal(name)


@pytest.mark.parametrize("name", ["feed.csv", "-rf", "~", "a b", "caf\udce9", "é" * 127, "\u202e", "...", "a\tb"])
def test_all_other_names_can_be_asked_about(name: str) -> None:
    assert refusal(name) == ""


@given(path=st.text(alphabet="/.ab\n\\\0\ud800", max_size=12))
def test_what_may_be_a_directory_is_absolute_and_plain(path: str) -> None:
    if not directory_refusal(path):
        assert path.startswith("/")
        assert not {".", ".."} & set(path.split("/"))


@pytest.mark.parametrize("path", ["/", "/inbox", "/inbox/", "/a b/ü", "/..a/b..", "/caf\udce9"])
def test_ordinary_directories_are_taken(path: str) -> None:
    assert directory_refusal(path) == ""


@pytest.mark.parametrize("path", ["", "inbox", "/a/../b", "/.", "/a//b", "/a\nb", "/a\\b", "/\ud800"])
def test_other_directories_are_refused_with_a_reason(path: str) -> None:
    assert directory_refusal(path)


@pytest.mark.parametrize(
    ("row", "entry"),
    [
        (b"-rw-r--r--    1 ftp      ftp           5 Jan 31 09:15 feed.csv", Entry("feed.csv", EntryType.FILE, 5, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"-rw-r--r--   1 0        0               0 Dec  1  2024 feed.csv", Entry("feed.csv", EntryType.FILE, 0, datetime(2024, 12, 1, tzinfo=UTC), TimeSource.LIST)),
        (b"-rwSr-sr-T+  1 a b 7 jan 31 9:15 feed.csv", Entry("feed.csv", EntryType.FILE, 7, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"-rw-r--r-- 1 domain users staff group 7 Jan 31 09:15  two  blanks ", Entry(" two  blanks ", EntryType.FILE, 7, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"-rw-r--r-- ftp 7 Jan 31 09:15 a", Entry("a", EntryType.FILE, 7, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"-rw-r--r-- 1 a b 7 2026-01-31 09:15 a", Entry("a", EntryType.FILE, 7, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"-rw-r--r-- 1 a b 7 Feb 30 09:15 a", Entry("a", EntryType.FILE, 7)),
        (b"-rw-r--r-- 1 a b 99999999999999999999 Jan 31 09:15 a", Entry("a", EntryType.FILE, None, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"-rw-r--r-- 1 a b 7 Jan 31 09:15 caf\xe9", Entry("caf\udce9", EntryType.FILE, 7, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"drwxr-xr-x 2 a b 4096 Jan 31 09:15 in", Entry("in", EntryType.DIRECTORY, None, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"lrwxrwxrwx 1 a b 7 Jan 31 09:15 x -> ../y", Entry("x", EntryType.LINK, None, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"crw-rw---- 1 a b 1, 3 Jan 31 09:15 null", Entry("null", EntryType.OTHER, None, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"01-31-26  09:15AM                    5 feed.csv", Entry("feed.csv", EntryType.FILE, 5, datetime(2026, 1, 31, 9, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"01-31-2026  12:15AM                    5 a  b", Entry("a  b", EntryType.FILE, 5, datetime(2026, 1, 31, 0, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"01-31-99  12:15PM       <DIR>          old", Entry("old", EntryType.DIRECTORY, None, datetime(1999, 1, 31, 12, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"01-31-26  21:15                    5 a", Entry("a", EntryType.FILE, 5, datetime(2026, 1, 31, 21, 15, tzinfo=UTC), TimeSource.LIST)),
        (b"31-01-26  09:15AM                    5 a", Entry("a", EntryType.FILE, 5)),
        (b"01-31-26  13:15PM                    5 a", Entry("a", EntryType.FILE, 5)),
    ],
)  # fmt: skip
def test_rows_of_list_as_servers_write_them(row: bytes, entry: Entry) -> None:
    assert of_list(row) == entry


@pytest.mark.parametrize("row", [b"total 12", b"drwxr-xr-x 2 a b 4096 Jan 31 09:15 .", b"drwxr-xr-x 2 a b 4096 Jan 31 09:15 ..", b"01-31-26  09:15AM       <DIR>          ."])  # fmt: skip
def test_rows_about_no_entry_are_passed_over(row: bytes) -> None:
    assert isinstance(of_list(row), Passed)


@pytest.mark.parametrize(
    "row",
    [
        b"",
        b"feed.csv",
        b"-rw-r--r-- 1 a b 7 31 Jan 09:15 a",
        b"-rw-r--r-- 1 a b 7 Okt 31 09:15 a",
        b"-rw-r--r-- 1 a b Jan 31 09:15 a",
        b"-rw-r--r-- 1 a b 7 Jan 31 09:15 ",
        b"lrwxrwxrwx 1 a b 7 Jan 31 09:15 x -> y -> z",
        b"lrwxrwxrwx 1 a b 7 Jan 31 09:15 x",
        b"-rw-r--r-- 1 a b 7 Jan 31 09:15 " + b"x" * 5000,
        b"01-31-26  09:15AM      x feed.csv",
    ],
)
def test_rows_that_are_none_are_unparsable(row: bytes) -> None:
    assert of_list(row) == Unparsable(row)


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        (b"Feb 28 12:00", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 2, 28, 12, 0, tzinfo=UTC)),
        (b"Dec 31 23:00", datetime(2026, 1, 1, tzinfo=UTC), datetime(2025, 12, 31, 23, 0, tzinfo=UTC)),
        (b"Jan  1 02:00", datetime(2025, 12, 31, 22, 0, tzinfo=UTC), datetime(2026, 1, 1, 2, 0, tzinfo=UTC)),
        (b"Mar  3 00:00", datetime(2026, 3, 1, tzinfo=UTC), datetime(2025, 3, 3, tzinfo=UTC)),
        (b"Feb 29 12:00", datetime(2026, 3, 1, tzinfo=UTC), datetime(2024, 2, 29, 12, 0, tzinfo=UTC)),
    ],
)
def test_a_missing_year_is_the_newest_that_is_not_in_the_future(text: bytes, now: datetime, expected: datetime) -> None:
    """On New Year's morning every feed of the night before looked a year too young."""
    seen = of_list(b"-rw-r--r-- 1 a b 7 " + text + b" a", now=now)
    assert isinstance(seen, Entry)
    assert seen.modified_at == expected


def test_times_of_list_are_in_the_servers_zone() -> None:
    seen = of_list(b"-rw-r--r-- 1 a b 7 Jan 31 09:15 a", zone="Europe/Berlin")
    assert isinstance(seen, Entry)
    assert seen.modified_at == datetime(2026, 1, 31, 8, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("row", "entry"),
    [
        (b"type=file;size=3;modify=20260102030405; a b", Entry("a b", EntryType.FILE, 3, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), TimeSource.MLSD)),
        (b"Type=FILE;Size=3;Modify=20260102030405.999;perm=r; a", Entry("a", EntryType.FILE, 3, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), TimeSource.MLSD)),
        (b"type=dir;sizd=4096; d", Entry("d", EntryType.DIRECTORY)),
        (b"type=OS.unix=slink:/x;size=3; l", Entry("l", EntryType.LINK, 3)),
        (b"type=OS.unix=symlink; l", Entry("l", EntryType.LINK)),
        (b"size=x; a", Entry("a", EntryType.OTHER)),
        (b"type=file;size=-1;modify=2026; a", Entry("a", EntryType.FILE)),
        (b"type=file;modify=20260102030460; a", Entry("a", EntryType.FILE, None, datetime(2026, 1, 2, 3, 4, 59, tzinfo=UTC), TimeSource.MLSD)),
        (b" a", Entry("a", EntryType.OTHER)),
    ],
)  # fmt: skip
def test_rows_of_mlsd_as_servers_write_them(row: bytes, entry: Entry) -> None:
    assert mlsd.parse_row(row) == entry


@pytest.mark.parametrize("row", [b"type=cdir; /inbox", b"type=pdir; /", b"type=dir; .", b"type=dir; .."])
def test_the_directory_itself_is_passed_over(row: bytes) -> None:
    assert mlsd.parse_row(row) == Passed()


@pytest.mark.parametrize("row", [b"", b"type=file;", b"type=file; ", b"feed.csv", b"type a", b"type=file;type=dir; a", b"=x; a"])
def test_rows_of_mlsd_that_are_none_are_unparsable(row: bytes) -> None:
    assert mlsd.parse_row(row) == Unparsable(row)


@pytest.mark.parametrize(
    "text", ["", "2026", "20261301000000", "20260102030461", "20260102030405.", "２0260102030405", "20260102030405\n"]
)
def test_what_is_no_time_is_unknown(text: str) -> None:
    assert mlsd.utc_time(text) is None


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("", None), ("-1", None), ("1 ", None), ("١", None), ("9" * 5000, None)])  # fmt: skip
def test_an_unknown_size_is_never_zero(text: str, expected: int | None) -> None:
    assert mlsd.count(text) == expected


def test_a_row_that_is_made_to_be_slow_is_read_at_once() -> None:
    """Blanks upon blanks made a pattern try every way to share them."""
    for row in (b"-rw-r--r-- " + b"1 " * 2000, b"-rw-r--r-- 1 a b" + b" " * 4000, b"01-31-26  09:15AM" + b" " * 4000 + b"x"):
        assert isinstance(of_list(row[:4096]), Unparsable)
