"""What every file server must do behind the one interface, whatever its protocol and maker.

A test module makes a class of its own from `FileServerContract` with a `peer` fixture (class scope) for one server. Each case works in
a fresh directory of the inbox and is judged by the disk behind the server.
"""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from itertools import count

import pytest
from pydantic import SecretStr

from guards.gate import NotAuthorized
from guards.spool.listing import Entry, EntryType, Listing
from resources.errors import NotObserved, Rejected, Transient, Unreachable
from resources.file_servers import open_server
from resources.file_servers.interface import BLOCK_BYTES, Reader, Writer
from tests.contract.file_servers.quick import QUICK
from tests.servers.authorization import authorized
from tests.servers.peer import Folder, Peer

CEILING = 10**8
MODIFIED_AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVERY_BYTE = bytes(range(256)) + b"\r\n\n\r\x00\xff\x1a" * 3

ASKABLE_NAMES = (
    "plain.csv",
    "with blanks  inside.csv",
    "-rf.csv",
    "~root.csv",
    "[a-z]*.csv",
    "100% done.csv",
    "quote'\"`.csv",
    "two -> arrows.csv",
    "20260102030405 time.csv",
    "größe-é.csv",
    "e\u0301-decomposed.csv",
    "right\u202eleft.csv",
    "<!here> & [link](x).csv",
    "x" * 251 + ".csv",
    "日本語.csv",
)
UNDECODABLE = "latin-\udce9.csv"

_folders = count()


class FileServerContract:
    """Subclass it, and give it a `peer`."""

    @pytest.fixture
    def folder(self, peer: Peer) -> Folder:
        return peer.folder(f"case{next(_folders)}")

    @pytest.fixture
    def reader(self, peer: Peer) -> Iterator[Reader]:
        with open_server(peer.endpoint, patience=QUICK).reader() as session:
            yield session

    @pytest.fixture
    def write_in(self, peer: Peer) -> Iterator["Opener"]:
        with ExitStack() as stack:
            yield lambda *folders: stack.enter_context(_writer(peer, *folders))

    # Listing

    def test_an_empty_directory_is_an_empty_and_complete_listing(self, reader: Reader, folder: Folder) -> None:
        """Servers answer 226, 450 or 550 for "nothing there"; none of them is an error."""
        assert reader.list(folder.path, limit=10) == Listing(folder.path)

    def test_a_row_tells_name_type_size_and_time(self, peer: Peer, reader: Reader, folder: Folder) -> None:
        folder.put("feed.csv", b"12345")
        (row,) = reader.list(folder.path, limit=10)
        assert (row.name, row.type, row.size_bytes) == ("feed.csv", EntryType.FILE, 5)
        assert row.modified_at is not None
        if peer.abilities.tells_seconds:
            assert row.modified_at == MODIFIED_AT
        else:
            assert abs((row.modified_at - MODIFIED_AT).total_seconds()) < 86_400

    def test_an_empty_file_has_size_zero(self, reader: Reader, folder: Folder) -> None:
        folder.put("feed.csv", b"")
        (row,) = reader.list(folder.path, limit=10)
        assert row.size_bytes == 0

    def test_a_directory_is_listed_as_one(self, reader: Reader, folder: Folder) -> None:
        (folder.disk / "feed.csv").mkdir()
        (row,) = reader.list(folder.path, limit=10)
        assert (row.name, row.type) == ("feed.csv", EntryType.DIRECTORY)

    def test_a_link_is_listed_as_one(self, peer: Peer, reader: Reader, folder: Folder) -> None:
        folder.put("target.csv")
        (folder.disk / "link.csv").symlink_to("target.csv")
        listing = reader.list(folder.path, limit=10)
        row = listing.get("link.csv")
        assert row is not None
        assert (row.type is EntryType.LINK) == peer.abilities.types_links

    def test_every_name_is_listed_exactly_and_answers_by_itself(self, reader: Reader, folder: Folder) -> None:
        """A name that is listed one way and addressed another would be called missing."""
        for name in ASKABLE_NAMES:
            folder.put(name, name.encode())
        listing = reader.list(folder.path, limit=100)
        assert listing.incomplete == ""
        assert sorted(row.name for row in listing) == sorted(ASKABLE_NAMES)
        for name in ASKABLE_NAMES:
            seen = reader.stat(folder.path, name)
            assert seen is not None, name
            assert (seen.name, seen.size_bytes) == (name, len(name.encode()))
            assert b"".join(reader.read(folder.path, name, ceiling_bytes=CEILING)) == name.encode()

    def test_an_undecodable_name_keeps_its_bytes_and_spoils_nothing(self, peer: Peer, reader: Reader, folder: Folder) -> None:
        """One Latin-1 name once made a whole directory unreadable."""
        folder.put(UNDECODABLE, b"1234")
        folder.put("plain.csv")
        listing = reader.list(folder.path, limit=10)
        assert listing.get("plain.csv") is not None
        if peer.abilities.keeps_bytes:
            assert listing.get(UNDECODABLE) is not None
            seen = reader.stat(folder.path, UNDECODABLE)
            assert seen is not None
            assert seen.size_bytes == 4
            assert b"".join(reader.read(folder.path, UNDECODABLE, ceiling_bytes=CEILING)) == b"1234"

    def test_a_row_forged_by_a_newline_is_never_confirmed(self, reader: Reader, folder: Folder) -> None:
        """A producer's file name held a newline and what followed it looked like a second feed."""
        folder.put("a.csv\n-rw-r--r--    1 0        0               7 Jan 02 03:04 forged.csv")
        folder.put("b.csv\ntype=file;size=7;modify=20260102030405; forged.csv")
        folder.put("c.csv\n01-02-26  03:04AM                    7 forged.csv")
        listing = reader.list(folder.path, limit=100)
        try:
            confirmed = reader.stat(folder.path, "forged.csv")
        except NotObserved:
            return
        assert confirmed is None
        assert listing.get("forged.csv") is None or not listing.is_complete

    def test_dot_names_are_listed_where_the_server_shows_them(self, peer: Peer, reader: Reader, folder: Folder) -> None:
        folder.put(".hidden.csv")
        listing = reader.list(folder.path, limit=10)
        assert listing.is_complete
        assert (listing.get(".hidden.csv") is not None) == peer.abilities.shows_dot_names

    def test_a_listing_that_reaches_the_limit_is_incomplete(self, reader: Reader, folder: Folder) -> None:
        for number in range(5):
            folder.put(f"feed{number}.csv")
        assert reader.list(folder.path, limit=6).is_complete
        assert "limit" in reader.list(folder.path, limit=5).incomplete
        assert not reader.list(folder.path, limit=2).is_complete
        assert len(reader.list(folder.path, limit=6)) == 5, "the session goes on after a listing that was broken off"

    def test_a_suspiciously_round_number_of_rows_is_doubted(self, peer: Peer, reader: Reader, folder: Folder) -> None:
        for number in range(1000):
            (folder.disk / f"feed{number}.csv").touch()
        assert reader.list(folder.path, limit=100_000).is_complete != peer.abilities.doubts_round_counts
        folder.put("one-more.csv")
        listing = reader.list(folder.path, limit=100_000)
        assert (len(listing), listing.incomplete) == (1001, "")

    def test_a_directory_that_is_not_there_is_not_an_empty_one(self, peer: Peer, reader: Reader) -> None:
        with pytest.raises(NotObserved, match=peer.endpoint.side):
            reader.list(f"{peer.endpoint.directory}/nowhere", limit=10)

    def test_a_directory_that_is_closed_to_us_is_not_an_empty_one(self, peer: Peer, reader: Reader, folder: Folder) -> None:
        """vsftpd says 226 "Transfer done (but failed to open directory)." and sends no rows."""
        if not peer.abilities.obeys_permissions:
            pytest.skip(f"{peer.name} runs as root")
        folder.put("feed.csv")
        folder.disk.chmod(0o300)
        try:
            listing = reader.list(folder.path, limit=10)
        except NotObserved:
            return
        assert not listing.is_complete

    # One name

    def test_a_file_tells_size_and_time_to_the_second(self, reader: Reader, folder: Folder) -> None:
        folder.put("feed.csv", b"12345")
        seen = reader.stat(folder.path, "feed.csv")
        assert seen is not None
        assert (seen.name, seen.type, seen.size_bytes, seen.modified_at) == ("feed.csv", EntryType.FILE, 5, MODIFIED_AT)

    def test_size_is_answered_right_after_a_listing(self, reader: Reader, folder: Folder) -> None:
        """A listing leaves ASCII mode behind on some clients, and servers answer SIZE with 550 there: "missing"."""
        folder.put("feed.csv", b"12\r\n5")
        for _ in range(3):
            reader.list(folder.path, limit=10)
            assert _size(reader.stat(folder.path, "feed.csv")) == 5

    @pytest.mark.parametrize("name", ["absent.csv", ".absent.csv.12345678.part", "-absent.csv"])
    def test_an_absent_name_is_provably_absent(self, reader: Reader, folder: Folder, name: str) -> None:
        folder.put("feed.csv")
        assert reader.stat(folder.path, name) is None

    def test_absence_is_proven_in_an_empty_directory_too(self, reader: Reader, folder: Folder) -> None:
        assert reader.stat(folder.path, "absent.csv") is None

    def test_a_dot_name_answers_by_itself_even_where_listings_hide_it(self, reader: Reader, folder: Folder) -> None:
        """Our own temporary names are such names: the sweep asks for them one by one."""
        folder.put(".feed.csv.12345678.part", b"123")
        assert _size(reader.stat(folder.path, ".feed.csv.12345678.part")) == 3

    def test_a_directory_is_not_taken_for_a_file(self, reader: Reader, folder: Folder) -> None:
        (folder.disk / "feed.csv").mkdir()
        seen = reader.stat(folder.path, "feed.csv")
        assert seen is not None
        assert seen.type is EntryType.DIRECTORY

    def test_what_comes_and_goes_is_seen_at_once(self, reader: Reader, folder: Folder) -> None:
        assert reader.stat(folder.path, "feed.csv") is None
        file = folder.put("feed.csv", b"1")
        assert _size(reader.stat(folder.path, "feed.csv")) == 1
        reader.list(folder.path, limit=10)
        file.unlink()
        assert reader.stat(folder.path, "feed.csv") is None

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secret", "a\0b"])
    def test_no_server_is_asked_about_what_is_no_single_name(self, reader: Reader, folder: Folder, name: str) -> None:
        for ask in (
            lambda: reader.stat(folder.path, name),
            lambda: list(reader.read(folder.path, name, ceiling_bytes=CEILING)),
        ):
            with pytest.raises(NotObserved):
                ask()

    @pytest.mark.parametrize("name", ["a\nb.csv", "a\r\nDELE feed.csv", "a\rb"])
    def test_a_line_end_never_enters_a_command(self, peer: Peer, reader: Reader, folder: Folder, name: str) -> None:
        """Else the rest of the name would be the next command."""
        folder.put("feed.csv")
        if peer.abilities.sends_newlines:
            assert reader.stat(folder.path, name) is None
        else:
            with pytest.raises(NotObserved):
                reader.stat(folder.path, name)
        assert _size(reader.stat(folder.path, "feed.csv")) is not None

    # Reading

    @pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 7])
    def test_bytes_are_read_exactly_in_bounded_blocks(self, reader: Reader, folder: Folder, size: int) -> None:
        content = (EVERY_BYTE * (size // len(EVERY_BYTE) + 1))[:size]
        folder.put("feed.csv", content)
        blocks = list(reader.read(folder.path, "feed.csv", ceiling_bytes=CEILING))
        assert b"".join(blocks) == content
        assert all(0 < len(block) <= BLOCK_BYTES for block in blocks)

    def test_a_file_above_the_ceiling_is_not_read(self, reader: Reader, folder: Folder) -> None:
        folder.put("feed.csv", bytes(1001))
        assert len(b"".join(reader.read(folder.path, "feed.csv", ceiling_bytes=1001))) == 1001
        with pytest.raises(NotObserved, match="1000"):
            list(reader.read(folder.path, "feed.csv", ceiling_bytes=1000))

    def test_reading_what_is_not_there_is_not_observed(self, peer: Peer, reader: Reader, folder: Folder) -> None:
        with pytest.raises(NotObserved, match=peer.endpoint.side):
            list(reader.read(folder.path, "absent.csv", ceiling_bytes=CEILING))
        folder.put("feed.csv")
        assert _size(reader.stat(folder.path, "feed.csv")) is not None, "the session goes on"

    def test_a_session_goes_on_after_a_reading_that_was_given_up(self, reader: Reader, folder: Folder) -> None:
        folder.put("feed.csv", bytes(8 * BLOCK_BYTES))
        blocks = reader.read(folder.path, "feed.csv", ceiling_bytes=CEILING)
        next(blocks)
        blocks.close()  # type: ignore[attr-defined]
        assert _size(reader.stat(folder.path, "feed.csv")) == 8 * BLOCK_BYTES
        assert sum(map(len, reader.read(folder.path, "feed.csv", ceiling_bytes=CEILING))) == 8 * BLOCK_BYTES

    def test_many_transfers_fit_into_one_session(self, reader: Reader, folder: Folder) -> None:
        """vsftpd and ProFTPD accept a TLS data connection only with the control connection's session, each time anew."""
        folder.put("feed.csv", b"123")
        for _ in range(20):
            assert b"".join(reader.read(folder.path, "feed.csv", ceiling_bytes=CEILING)) == b"123"
            assert len(reader.list(folder.path, limit=10)) == 1

    def test_the_servers_own_hash_is_right_or_not_given(self, peer: Peer, reader: Reader, folder: Folder) -> None:
        for name, content in (("feed.csv", EVERY_BYTE), ("with blanks.csv", b"1\r\n2"), ("big.csv", bytes(BLOCK_BYTES + 1))):
            folder.put(name, content)
            reader.list(folder.path, limit=10)
            expected = hashlib.sha256(content).hexdigest() if peer.abilities.hashes else None
            assert reader.sha256(folder.path, name) == expected
        assert reader.sha256(folder.path, "absent.csv") is None

    # Writing

    @pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES, 5 * BLOCK_BYTES + 7])
    def test_what_was_written_is_there_byte_for_byte(self, write_in: "Opener", folder: Folder, size: int) -> None:
        content = (EVERY_BYTE * (size // len(EVERY_BYTE) + 1))[:size]
        blocks = [content[at : at + BLOCK_BYTES] for at in range(0, size, BLOCK_BYTES)]
        writer = write_in(folder)
        assert writer.write(folder.path, ".feed.csv.12345678.part", blocks) == size
        assert folder.contents(folder.names()) == {".feed.csv.12345678.part": content}
        assert _size(writer.stat(folder.path, ".feed.csv.12345678.part")) == size

    def test_an_existing_file_is_never_written_over(self, write_in: "Opener", folder: Folder) -> None:
        folder.put("feed.csv", b"theirs")
        with pytest.raises(Rejected):
            write_in(folder).write(folder.path, "feed.csv", [b"ours"])
        assert folder.contents(folder.names()) == {"feed.csv": b"theirs"}

    def test_a_source_that_fails_in_the_middle_is_told_as_it_is(self, write_in: "Opener", folder: Folder) -> None:
        """The relay reads from the other side while it writes here: that side's error must not be blamed on this one."""

        def broken() -> Iterator[bytes]:
            yield bytes(BLOCK_BYTES)
            raise Transient("source: cut")

        writer = write_in(folder)
        with pytest.raises(Transient, match="source: cut"):
            writer.write(folder.path, ".feed.csv.12345678.part", broken())
        writer.remove(folder.path, ".feed.csv.12345678.part")
        assert folder.names() == []

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a\0b"])
    def test_nothing_is_written_under_what_is_no_single_name(self, write_in: "Opener", folder: Folder, name: str) -> None:
        folder.put("feed.csv")
        writer = write_in(folder)
        for change in (
            lambda: writer.write(folder.path, name, [b"x"]),
            lambda: writer.rename(folder.path, "feed.csv", folder.path, name),
            lambda: writer.rename(folder.path, name, folder.path, "other.csv"),
            lambda: writer.remove(folder.path, name),
        ):
            with pytest.raises(Rejected):
                change()
        assert folder.names() == ["feed.csv"]

    def test_a_writer_stays_in_the_directories_it_was_opened_for(self, peer: Peer, write_in: "Opener", folder: Folder) -> None:
        other = peer.folder(f"other-{folder.disk.name}")
        other.put("feed.csv", b"theirs")
        folder.put("feed.csv")
        writer = write_in(folder)
        for change in (
            lambda: writer.write(other.path, "new.csv", [b"x"]),
            lambda: writer.rename(folder.path, "feed.csv", other.path, "new.csv"),
            lambda: writer.rename(other.path, "feed.csv", folder.path, "new.csv"),
            lambda: writer.remove(other.path, "feed.csv"),
        ):
            with pytest.raises(Rejected):
                change()
        assert (folder.names(), other.names()) == (["feed.csv"], ["feed.csv"])

    def test_a_directory_closed_to_us_takes_nothing(self, peer: Peer, write_in: "Opener", folder: Folder) -> None:
        if not peer.abilities.obeys_permissions:
            pytest.skip(f"{peer.name} runs as root")
        folder.put("feed.csv", b"theirs")
        folder.disk.chmod(0o555)
        writer = write_in(folder)
        with pytest.raises(Rejected):
            writer.write(folder.path, "new.csv", [b"x"])
        with pytest.raises(Rejected):
            writer.remove(folder.path, "feed.csv")
        assert folder.names() == ["feed.csv"]

    def test_renaming_moves_a_file_also_to_another_directory(self, peer: Peer, write_in: "Opener", folder: Folder) -> None:
        archive = peer.folder(f"archive-{folder.disk.name}")
        writer = write_in(folder, archive)
        writer.write(folder.path, ".feed.csv.part", [b"1"])
        writer.rename(folder.path, ".feed.csv.part", folder.path, "feed.csv")
        assert folder.names() == ["feed.csv"]
        writer.rename(folder.path, "feed.csv", archive.path, "feed.csv")
        assert (folder.names(), archive.contents(archive.names())) == ([], {"feed.csv": b"1"})

    def test_renaming_onto_a_taken_name_is_refused(self, write_in: "Opener", folder: Folder) -> None:
        """FTP servers replace without a word: the archive of an earlier feed would be gone."""
        writer = write_in(folder)
        writer.write(folder.path, "new.csv", [b"new"])
        folder.put("old.csv", b"old")
        with pytest.raises(Rejected):
            writer.rename(folder.path, "new.csv", folder.path, "old.csv")
        assert folder.contents(folder.names()) == {"new.csv": b"new", "old.csv": b"old"}

    def test_replacing_is_done_or_refused_whole(self, peer: Peer, write_in: "Opener", folder: Folder) -> None:
        writer = write_in(folder)
        writer.write(folder.path, "old.csv", [b"old"])
        writer.write(folder.path, "new.csv", [b"new"])
        if peer.abilities.replaces:
            writer.rename(folder.path, "new.csv", folder.path, "old.csv", replace=True)
            assert folder.contents(folder.names()) == {"old.csv": b"new"}
        else:
            with pytest.raises(Rejected):
                writer.rename(folder.path, "new.csv", folder.path, "old.csv", replace=True)
            assert folder.contents(folder.names()) == {"new.csv": b"new", "old.csv": b"old"}

    @pytest.mark.parametrize("replace", [False, True])
    def test_renaming_what_is_not_there_is_refused(self, write_in: "Opener", folder: Folder, replace: bool) -> None:
        writer = write_in(folder)
        with pytest.raises(Rejected):
            writer.rename(folder.path, "absent.csv", folder.path, "feed.csv", replace=replace)
        assert folder.names() == []

    def test_removing_takes_one_file_and_is_content_with_none(self, write_in: "Opener", folder: Folder) -> None:
        writer = write_in(folder)
        writer.write(folder.path, ".feed.csv.part", [b"1"])
        folder.put("feed.csv")
        writer.remove(folder.path, ".feed.csv.part")
        writer.remove(folder.path, ".feed.csv.part")
        assert folder.names() == ["feed.csv"]

    def test_a_directory_is_not_removed(self, write_in: "Opener", folder: Folder) -> None:
        (folder.disk / "feed.csv").mkdir()
        with pytest.raises(Rejected):
            write_in(folder).remove(folder.path, "feed.csv")
        assert folder.names() == ["feed.csv"]

    def test_every_name_can_be_written_renamed_and_removed(self, peer: Peer, write_in: "Opener", folder: Folder) -> None:
        names = [*ASKABLE_NAMES, *([UNDECODABLE] if peer.abilities.keeps_bytes else [])]
        writer = write_in(folder)
        for name in names:
            writer.write(folder.path, "temporary", [name.encode("utf-8", "surrogateescape")])
            writer.rename(folder.path, "temporary", folder.path, name)
        assert folder.names() == sorted(names)
        for name in names:
            writer.remove(folder.path, name)
        assert folder.names() == []

    # Trust

    def test_a_reader_has_no_way_to_write(self, reader: Reader) -> None:
        assert not {"write", "rename", "remove", "delete", "mkdir", "store"} & {name.lower() for name in dir(reader)}

    def test_without_the_gates_authorization_there_is_no_writer(self, peer: Peer) -> None:
        for scope, authorization in (("spool/acme", object()), ("spool/other", authorized()), ("spool/acme", None)):
            with (
                pytest.raises(NotAuthorized),
                open_server(peer.endpoint).writer(authorization, scope=scope, directories=("/",)),  # type: ignore[arg-type]
            ):
                pytest.fail("a writer was opened")

    def test_the_server_is_identified(self, peer: Peer, reader: Reader) -> None:
        identity = reader.identity
        assert (identity.host, identity.port, identity.protocol) == (
            peer.endpoint.host,
            peer.endpoint.port,
            peer.endpoint.scheme,
        )
        assert identity.fingerprint.startswith("SHA256:") == (peer.endpoint.scheme != "ftp")

    def test_a_wrong_password_names_the_side_and_shows_no_secret(self, peer: Peer) -> None:
        """Exit code 5, and never a "missing" verdict."""
        wrong = peer.at(password=SecretStr("canary-wrong-password"), key_file=None)
        with pytest.raises(Unreachable) as raised, open_server(wrong, patience=QUICK).reader():
            pytest.fail("let in with a wrong password")
        assert not isinstance(raised.value, Transient | NotObserved)
        assert peer.endpoint.side in str(raised.value)
        assert "canary" not in f"{raised.value!r} {raised.value} {wrong!r}"

    def test_a_server_that_is_not_there_is_said_with_its_side(self, peer: Peer) -> None:
        with pytest.raises(Unreachable, match=peer.endpoint.side), open_server(peer.at(port=1), patience=QUICK).reader():
            pytest.fail("somebody listens on port 1")


class Opener:
    """Type of the `write_in` fixture: opens a writer for these folders, closed after the test."""

    def __call__(self, *folders: Folder) -> Writer: ...  # type: ignore[empty-body]


def _writer(peer: Peer, *folders: Folder) -> AbstractContextManager[Writer]:
    server = open_server(peer.endpoint, patience=QUICK)
    return server.writer(authorized(), scope="spool/acme", directories=tuple(folder.path for folder in folders))


def _size(entry: Entry | None) -> int | None:
    return None if entry is None else entry.size_bytes
