"""What FTP servers do rarely, and what must then be said: never "missing" for "not seen", never "failed" for "unknown"."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from guards.spool.listing import EntryType, TimeSource
from opsguard_defs.sandbox.servers.certificate import write_self_signed
from resources.errors import NotObserved, OutcomeUnknown, Rejected, Transient, Unreachable, UntrustedServer
from resources.file_servers import open_server
from resources.file_servers.connect import Patience
from resources.file_servers.interface import Reader, Writer
from tests.servers.authorization import authorized
from tests.servers.ftp_faults import PASSWORD, Faults, FaultyFtp, faulty_ftp

QUICK = Patience(connect_seconds=60, stall_seconds=60, settle_seconds=60, attempts=3, first_pause_seconds=0.01)
IMPATIENT = replace(QUICK, stall_seconds=2, settle_seconds=2)
"""Only where the server is meant to say nothing: on a busy machine an honest answer may take longer."""
CEILING = 10**9
FEED = b"0123456789" * 100_000

Start = Callable[..., FaultyFtp]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server with faults and the files `names -> content`."""
    with ExitStack() as stack:

        def one(files: dict[bytes, bytes] | None = None, **faults: object) -> FaultyFtp:
            return stack.enter_context(faulty_ftp(Faults(**faults), files))  # type: ignore[arg-type]

        yield one


def reading(server: FaultyFtp, *, patience: Patience = QUICK, **profile: object) -> AbstractContextManager[Reader]:
    return open_server(server.endpoint(**profile), patience=patience).reader()


def writing(server: FaultyFtp, *, patience: Patience = QUICK) -> AbstractContextManager[Writer]:
    return open_server(server.endpoint(), patience=patience).writer(authorized(), scope="spool/acme", directories=("/inbox",))


def blocks(data: bytes = FEED, size: int = 256 * 1024) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


# Listings that are not whole


def test_a_honest_listing_is_complete(start: Start) -> None:
    with reading(start({b"feed.csv": b"12345"})) as session:
        listing = session.list("/inbox", limit=100)
    (row,) = listing
    assert listing.incomplete == ""
    assert (row.name, row.size_bytes, row.time_source) == ("feed.csv", 5, TimeSource.LIST)


@pytest.mark.parametrize("rows", [1000, 2000, 5000, 9999, 10_000])
def test_a_listing_cut_at_a_round_number_proves_no_absence(start: Start, rows: int) -> None:
    """A partner's server stopped at 2000 rows with 226; forty delivered feeds were sent again."""
    server = start({b"feed%05d.csv" % number: b"" for number in range(10_050)}, list_rows_cut=rows)
    with reading(server) as session:
        assert f"exactly {rows} rows" in session.list("/inbox", limit=100_000).incomplete
        with pytest.raises(NotObserved, match="may be incomplete"):
            session.stat("/inbox", "absent.csv")


@pytest.mark.parametrize(
    "text",
    [
        "226 Output truncated to 2000 matches",
        "226-Options: -l\r\n226 Listing limited to 500 entries",
        "226 Transfer done (but failed to open directory).",
        "226 Too many files, only the first 100 shown",
        "226 Directory listing incomplete",
        "226-" + "x" * 300 + "\r\n226-Output truncated\r\n226 " + "y" * 300,
    ],
)
def test_a_listing_that_admits_a_cut_is_incomplete(start: Start, text: str) -> None:
    with reading(start({b"feed.csv": b""}, list_end=text)) as session:
        listing = session.list("/inbox", limit=100)
    assert len(listing) == 1
    assert "the server says" in listing.incomplete


@pytest.mark.parametrize(
    "text",
    [
        "226 Transfer complete.",
        "226 Directory send OK.",
        "226-12 matches total\r\n226 Done",
        "250 Listing OK",
        "226 57,344 bytes free",
    ],
)
def test_an_ordinary_end_is_no_reason_to_doubt(start: Start, text: str) -> None:
    with reading(start({b"feed.csv": b""}, list_end=text)) as session:
        assert session.list("/inbox", limit=100).is_complete


def test_a_listing_without_an_end_is_no_listing(start: Start) -> None:
    """The data connection closed in order, but 226 never came."""
    server = start({b"feed.csv": b""}, list_end="")
    with reading(server) as session, pytest.raises(Transient, match="tried 3 times"):
        session.list("/inbox", limit=100)
    assert server.said("LIST") == 3


@pytest.mark.parametrize("end", ["426 Connection closed; transfer aborted.", "451 Local error", "550 Error"])
def test_a_listing_that_ends_with_an_error_is_no_listing(start: Start, end: str) -> None:
    with reading(start({b"feed.csv": b""}, list_end=end)) as session, pytest.raises(Transient):
        session.list("/inbox", limit=100)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"-rw-r--r-- 1 a b 1 Jan 02 2026 feed.csv\r\n-rw-r--r-- 1 a b 1 Jan 02 20", "no end"),
        (b"-rw-r--r-- 1 a b 1 Jan 02 2026 feed.csv\r\nwhat is this\r\n", "cannot be read"),
        (b"-rw-r--r-- 1 a b 1 Jan 02 2026 feed.csv\r\n" * 2, "comes twice"),
        (b"-rw-r--r-- 1 a b 1 Jan 02 2026 feed.csv\r\n\r\n", "cannot be read"),
    ],
)
def test_rows_that_are_not_understood_make_a_listing_incomplete(start: Start, raw: bytes, why: str) -> None:
    with reading(start(list_raw=raw)) as session:
        listing = session.list("/inbox", limit=100)
    assert listing.get("feed.csv") is not None
    assert why in listing.incomplete


def test_an_endless_listing_is_broken_off_and_incomplete(start: Start) -> None:
    server = start({b"feed.csv": b"1"}, list_endless=True)
    with reading(server) as session:
        assert "more than 500 rows" in session.list("/inbox", limit=500).incomplete
        assert session.sha256("/inbox", "feed.csv") is None, "the session goes on"


@pytest.mark.parametrize("begin", ["450 No files found.", "550 No files found", "226 Nothing here", "550 Directory is empty"])
def test_nothing_there_may_be_said_as_an_error(start: Start, begin: str) -> None:
    with reading(start(list_begin=begin)) as session:
        listing = session.list("/inbox", limit=100)
    assert (listing.entries, listing.incomplete) == ((), "")


@pytest.mark.parametrize("begin", ["550 Permission denied", "550 No such file or directory", "501 Syntax", "553 No"])
def test_a_refused_listing_is_never_an_empty_one(start: Start, begin: str) -> None:
    with reading(start(list_begin=begin)) as session, pytest.raises(NotObserved, match="partner"):
        session.list("/inbox", limit=100)


def test_a_server_that_offers_mlsd_is_asked_for_it(start: Start) -> None:
    server = start({b"caf\xe9.csv": b"12345"}, machine=True)
    with reading(server) as session:
        (row,) = session.list("/inbox", limit=100)
        assert session.stat("/inbox", row.name) == row
    assert (row.name, row.size_bytes, row.time_source) == ("caf\udce9.csv", 5, TimeSource.MLSD)
    with reading(server, list_command="list") as session:
        (row,) = session.list("/inbox", limit=100)
    assert row.time_source is TimeSource.LIST


@pytest.mark.parametrize("machine", [False, True])
def test_a_listing_whose_tls_was_cut_is_incomplete_although_226_came(start: Start, tmp_path: Path, machine: bool) -> None:
    """Who sits between can end the TCP stream early; only the TLS close cannot be forged. The server itself believes all was sent."""
    write_self_signed(cert=tmp_path / "cert.pem", key=tmp_path / "key.pem")
    server = start({b"feed.csv": b"12345"}, tls_files=(tmp_path / "cert.pem", tmp_path / "key.pem"), machine=machine)
    with reading(server) as session:
        assert session.list("/inbox", limit=100).is_complete
        assert b"".join(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING)) == b"12345"
        server.faults.tls_cut = True
        assert "TLS connection ended without a close" in session.list("/inbox", limit=100).incomplete
        assert b"".join(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING)) == b"12345", "SIZE proves the end"
        server.faults.size_refused = "550 No"
        with pytest.raises(Transient, match="it was cut"):
            list(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING))


# One name


def test_size_is_never_asked_in_ascii_mode(start: Start) -> None:
    """550 "SIZE not allowed in ASCII mode" right after a listing once looked like "no such file"."""
    server = start({b"feed.csv": b"12345"}, ascii_after_listing=True)
    with reading(server) as session:
        for _ in range(3):
            session.list("/inbox", limit=100)
            seen = session.stat("/inbox", "feed.csv")
            assert seen is not None
            assert seen.size_bytes == 5
            assert session.stat("/inbox", "absent.csv") is None
            assert b"".join(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING)) == b"12345"


@pytest.mark.parametrize("machine", [False, True])
def test_a_550_for_a_name_that_is_listed_is_unknown(start: Start, machine: bool) -> None:
    server = start({b"feed.csv": b"1"}, size_refused="550 Permission denied", machine=machine)
    with reading(server) as session, pytest.raises(NotObserved, match="the listing shows it"):
        session.stat("/inbox", "feed.csv")


def test_a_hidden_name_is_not_called_absent_where_dot_names_are_hidden(start: Start) -> None:
    """No row with a leading dot, not even `.`: the listing proves nothing about such names."""
    with reading(start({b"feed.csv": b"1"})) as session, pytest.raises(NotObserved, match="hides names"):
        session.stat("/inbox", ".feed.csv.part")


@pytest.mark.parametrize("kind", ["d", "l"])
def test_what_is_listed_as_no_file_is_told_as_such(start: Start, kind: str) -> None:
    arrow = b" -> elsewhere" if kind == "l" else b""
    row = kind.encode() + b"rwxr-xr-x 1 a b 1 Jan 02 2026 feed.csv" + arrow + b"\r\n"
    with reading(start(list_raw=row)) as session:
        seen = session.stat("/inbox", "feed.csv")
    assert seen is not None
    assert seen.type is (EntryType.LINK if kind == "l" else EntryType.DIRECTORY)


def test_a_number_that_is_none_is_an_unknown_size(start: Start) -> None:
    with reading(start({b"feed.csv": b"1"}, size_refused="213 many")) as session:
        seen = session.stat("/inbox", "feed.csv")
    assert seen is not None
    assert seen.size_bytes is None


# Reading


@pytest.mark.parametrize("at", [0, 1, 999_999])
def test_a_226_after_too_few_bytes_is_a_lie(start: Start, at: int) -> None:
    """The server said "Transfer complete" and had sent a third of the feed."""
    server = start({b"feed.csv": FEED}, retr_lies_after=at)
    with reading(server) as session, pytest.raises(Transient, match=f"cut after {at} of 1000000"):
        list(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING))


@pytest.mark.parametrize("at", [0, 1, 500_000])
def test_a_cut_download_is_transient_and_the_session_goes_on(start: Start, at: int) -> None:
    server = start({b"feed.csv": FEED}, retr_cut_at=at)
    with reading(server) as session:
        with pytest.raises(Transient, match="partner"):
            list(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING))
        server.faults.retr_cut_at = None
        assert b"".join(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING)) == FEED


def test_a_download_that_stalls_is_given_up(start: Start) -> None:
    server = start({b"feed.csv": FEED}, retr_stalls_at=1000)
    with reading(server, patience=IMPATIENT) as session, pytest.raises(Unreachable, match=r"no answer in 2 s"):
        list(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING))


def test_a_file_whose_size_is_not_told_is_still_stopped_at_the_ceiling(start: Start) -> None:
    server = start({b"feed.csv": FEED}, size_refused="550 No")
    with reading(server) as session, pytest.raises(NotObserved, match="ceiling of 1000"):
        list(session.read("/inbox", "feed.csv", ceiling_bytes=1000))


def test_a_storm_before_the_first_byte_is_weathered(start: Start) -> None:
    server = start({b"feed.csv": FEED}, storms={"RETR": 2})
    with reading(server) as session:
        assert b"".join(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING)) == FEED
    assert server.record.count("connect") == 3, "each attempt is on a fresh connection"


# Storms, silence, closed doors


@pytest.mark.parametrize("command", ["USER", "TYPE", "EPSV", "CWD", "LIST"])
def test_a_short_storm_is_weathered_and_a_long_one_is_bounded(start: Start, command: str) -> None:
    server = start({b"feed.csv": b""}, storms={command: 2})
    with reading(server) as session:
        session.stat("/inbox", "feed.csv")
        assert len(session.list("/inbox", limit=100)) == 1
    server.faults.storms[command] = 1000
    before = server.said(command)
    with pytest.raises(Transient, match="tried 3 times"):
        _look_around(server)
    assert server.said(command) - before <= 4


@pytest.mark.parametrize("command", ["USER", "PASS", "FEAT", "CWD", "EPSV", "LIST"])
def test_a_server_that_hangs_is_given_up_once_and_named(start: Start, command: str) -> None:
    server = start({b"feed.csv": b""}, hangs=frozenset({command}))
    with pytest.raises(Unreachable, match="partner") as raised, reading(server, patience=IMPATIENT) as session:
        session.list("/inbox", limit=100)
    assert not isinstance(raised.value, Transient)
    assert server.record.count("connect") == 1


@pytest.mark.parametrize("command", ["USER", "PASS", "FEAT", "CWD", "EPSV", "LIST"])
def test_a_server_that_closes_is_tried_again_and_then_named(start: Start, command: str) -> None:
    server = start({b"feed.csv": b""}, closes=frozenset({command}))
    with pytest.raises(Transient, match="closed the connection"), reading(server) as session:
        session.list("/inbox", limit=100)
    assert server.record.count("connect") == 3


@pytest.mark.parametrize("greeting", ["SSH-2.0-OpenSSH_9.2", "HTTP/1.1 400 Bad Request", "554 No", "2200 what", ""])
def test_what_is_no_ftp_server_is_said_to_be_none(start: Start, greeting: str) -> None:
    with pytest.raises(Unreachable, match="partner"), reading(start(greeting=greeting)):
        pytest.fail("that was no FTP server")


def test_a_full_server_is_transient_whatever_code_it_uses(start: Start) -> None:
    for login in ("421 Too many users", "530 Sorry, the maximum number of clients (3) for this user already connected."):
        with pytest.raises(Transient), reading(start(login=login)):
            pytest.fail("it was full")


def test_a_server_that_repeats_the_password_does_not_get_it_into_our_words(start: Start) -> None:
    server = start(login="530 Wrong password {password} for you\x1b[2J")
    with pytest.raises(Unreachable) as raised, reading(server):
        pytest.fail("let in")
    shown = f"{raised.value} {raised.value!r} {raised.value.__context__!r} {raised.value.__cause__!r}"
    assert PASSWORD not in shown
    assert "\x1b" not in shown
    assert "log in as feeds" in shown


def test_cleartext_is_refused_before_anything_is_contacted(start: Start) -> None:
    server = start()
    with pytest.raises(UntrustedServer, match="allow_cleartext"), reading(server, allow_cleartext=False):
        pytest.fail("let in")
    assert server.record == []


def test_the_address_of_a_pasv_reply_is_not_trusted(start: Start) -> None:
    """A server could aim our data connections at a third machine."""
    server = start({b"feed.csv": b"12345"}, pasv_address="10.11.12.13")
    with reading(server) as session:
        assert len(session.list("/inbox", limit=100)) == 1
        assert b"".join(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING)) == b"12345"
    assert (server.said("EPSV"), server.said("PASV")) == (1, 2)


def test_the_passive_address_of_the_profile_is_used(start: Start) -> None:
    """127.0.0.2 reaches nobody: the server listens on 127.0.0.1 only."""
    server = start({b"feed.csv": b""})
    with reading(server, passive_address="127.0.0.2") as session, pytest.raises(Transient, match="no data connection"):
        session.list("/inbox", limit=100)


@pytest.mark.parametrize("answer", ["229 no port here", "229 (|||0|)", "229 (|||99999|)", "229 (1,2,3,4,5,6)"])
def test_a_passive_reply_without_a_port_is_refused(start: Start, answer: str) -> None:
    with reading(start({b"feed.csv": b""}, epsv_answer=answer)) as session, pytest.raises(NotObserved):
        session.list("/inbox", limit=100)


# Hashes


@pytest.mark.parametrize(
    "answer",
    [
        "213 SHA-256 0-1000000 " + "z" * 64 + " feed.csv",
        "213 SHA-1 0-1000000 " + "a" * 64 + " feed.csv",
        "213 SHA-256 0-999 " + "a" * 64 + " feed.csv",
        "213 SHA-256 1-1000000 " + "a" * 64 + " feed.csv",
        "213 SHA-256 0-1000000 " + "a" * 63 + " feed.csv",
        "550 No",
        "213 ",
    ],
)
def test_a_hash_that_is_not_sure_is_none(start: Start, answer: str) -> None:
    server = start({b"feed.csv": FEED}, features=("HASH SHA-1;SHA-256*",), hash_answer=answer)
    with reading(server) as session:
        assert session.sha256("/inbox", "feed.csv") is None
    assert server.said("HASH") == 1


@pytest.mark.parametrize(
    ("feature", "answer"),
    [
        ("HASH SHA-1;SHA-256*", "213 SHA-256 0-1000000 " + "AB" * 32 + " feed.csv"),
        ("HASH SHA-256", "213 SHA-256 0-999999 " + "ab" * 32),
        ("XSHA256", "250 " + "ab" * 32),
        ("XSHA256 filename", "213 " + "AB" * 32),
    ],
)
def test_a_hash_to_the_letter_counts(start: Start, feature: str, answer: str) -> None:
    server = start({b"feed.csv": FEED}, features=(feature,), hash_answer=answer)
    with reading(server) as session:
        assert session.sha256("/inbox", "feed.csv") == "ab" * 32


def test_a_hash_that_is_not_offered_is_not_asked_for(start: Start) -> None:
    server = start({b"feed.csv": FEED}, features=("HASH SHA-1;MD5",), hash_answer="213 SHA-256 0-1000000 " + "ab" * 32)
    with reading(server) as session:
        assert session.sha256("/inbox", "feed.csv") is None
    assert server.said("HASH") == 0


# Writing


def test_a_226_after_a_short_write_is_left_for_the_proof_to_find(start: Start) -> None:
    """Nobody can see that from the protocol: the size and the hash of the temporary name show it."""
    server = start(stor_keeps=1000)
    with writing(server) as session:
        assert session.write("/inbox", "feed.csv", blocks()) == len(FEED)
        seen = session.stat("/inbox", "feed.csv")
    assert seen is not None
    assert seen.size_bytes == 1000


@pytest.mark.parametrize("at", [1, 300_000])
def test_an_upload_cut_in_the_middle_is_unknown_and_not_repeated(start: Start, at: int) -> None:
    server = start(stor_cut_at=at)
    with writing(server) as session, pytest.raises(OutcomeUnknown, match="partner"):
        session.write("/inbox", "feed.csv", blocks(FEED * 5))
    assert server.said("STOR") == 1


def test_a_disk_that_fills_up_is_told_in_the_servers_words(start: Start) -> None:
    server = start(stor_full_at=200_000)
    with writing(server) as session:
        with pytest.raises(OutcomeUnknown, match="552 No space left"):
            session.write("/inbox", "feed.csv", blocks(FEED * 20))
        session.remove("/inbox", "feed.csv")
    assert server.files == {}


@pytest.mark.parametrize("end", ["451 Error on close", "552 Quota exceeded", "550 Could not rename"])
def test_an_error_that_only_close_tells_is_raised(start: Start, end: str) -> None:
    server = start(stor_end=end)
    with writing(server) as session, pytest.raises(OutcomeUnknown, match=end):
        session.write("/inbox", "feed.csv", blocks())


def test_a_reply_lost_after_the_last_byte_is_unknown(start: Start) -> None:
    """The feed is whole at the partner. Sending it again would deliver it twice."""
    server = start(after_reply_lost="STOR")
    with writing(server) as session:
        with pytest.raises(OutcomeUnknown, match="all 1000000 bytes were sent"):
            session.write("/inbox", "feed.csv", blocks())
        seen = session.stat("/inbox", "feed.csv")
    assert seen is not None, "the same session observes on a fresh connection"
    assert seen.size_bytes == len(FEED)
    assert server.said("STOR") == 1


def test_an_upload_that_stalls_is_given_up_as_unknown(start: Start) -> None:
    server = start(stor_stalls_at=1000)
    with writing(server, patience=IMPATIENT) as session, pytest.raises(OutcomeUnknown, match="no answer"):
        session.write("/inbox", "feed.csv", blocks(FEED * 40))


@pytest.mark.parametrize(
    ("begin", "error"), [("553 Name not allowed", Rejected), ("550 Permission denied", Rejected), ("450 Busy", Transient)]
)
def test_a_refusal_before_the_first_byte_is_no_unknown(start: Start, begin: str, error: type[Exception]) -> None:
    server = start(stor_begin=begin)
    with writing(server) as session, pytest.raises(error, match="nothing was written"):
        session.write("/inbox", "feed.csv", blocks())
    assert (server.files, server.said("STOR")) == ({}, 1)


def test_our_hidden_name_can_be_written_where_its_absence_cannot_be_proven(start: Start) -> None:
    server = start({b"feed.csv": b"1"})
    with writing(server) as session:
        session.write("/inbox", ".feed.csv.12345678.part", blocks())
    assert server.files[b".feed.csv.12345678.part"] == FEED


def test_a_name_whose_absence_cannot_be_proven_is_not_written(start: Start) -> None:
    server = start({b"feed.csv": b"1"}, size_refused="550 Permission denied")
    with writing(server) as session, pytest.raises(NotObserved):
        session.write("/inbox", "feed.csv", blocks())
    assert server.said("STOR") == 0


@pytest.mark.parametrize("reply", ["550 Rename denied", "553 File exists"])
def test_a_refused_rename_changed_nothing(start: Start, reply: str) -> None:
    server = start({b"a.csv": b"1"}, rename_refused=reply)
    with writing(server) as session, pytest.raises(Rejected, match=reply):
        session.rename("/inbox", "a.csv", "/inbox", "b.csv")
    assert server.files == {b"a.csv": b"1"}


def test_a_rename_that_would_overwrite_is_not_asked_for(start: Start) -> None:
    """This server replaces without a word."""
    server = start({b"a.csv": b"1", b"b.csv": b"2"})
    with writing(server) as session:
        with pytest.raises(Rejected, match="exists already"):
            session.rename("/inbox", "a.csv", "/inbox", "b.csv")
        assert server.said("RNFR") == 0
        session.rename("/inbox", "a.csv", "/inbox", "b.csv", replace=True)
    assert server.files == {b"b.csv": b"1"}


def test_a_server_that_never_replaces_says_so(start: Start) -> None:
    server = start({b"a.csv": b"1", b"b.csv": b"2"}, rename_never_replaces=True)
    with writing(server) as session, pytest.raises(Rejected):
        session.rename("/inbox", "a.csv", "/inbox", "b.csv", replace=True)
    assert server.files == {b"a.csv": b"1", b"b.csv": b"2"}


def test_a_rename_whose_reply_is_lost_is_unknown_and_not_repeated(start: Start) -> None:
    server = start({b"a.csv": b"1"}, after_reply_lost="RNTO")
    with writing(server) as session, pytest.raises(OutcomeUnknown, match="RNTO was sent"):
        session.rename("/inbox", "a.csv", "/inbox", "b.csv")
    assert (server.files, server.said("RNTO")) == ({b"b.csv": b"1"}, 1)


@pytest.mark.parametrize("reply", ["451 Local error", "421 Going down"])
def test_a_rename_answered_with_4xx_is_unknown(start: Start, reply: str) -> None:
    server = start({b"a.csv": b"1"}, rename_refused=reply)
    with writing(server) as session, pytest.raises(OutcomeUnknown, match=reply):
        session.rename("/inbox", "a.csv", "/inbox", "b.csv")
    assert server.said("RNTO") == 1


def test_a_rename_cut_before_it_was_asked_for_is_tried_again(start: Start) -> None:
    server = start({b"a.csv": b"1"}, storms={"RNFR": 2})
    with writing(server) as session:
        session.rename("/inbox", "a.csv", "/inbox", "b.csv")
    assert server.files == {b"b.csv": b"1"}


def test_a_removal_whose_reply_is_lost_is_unknown(start: Start) -> None:
    server = start({b"a.csv": b"1"}, after_reply_lost="DELE")
    with writing(server) as session, pytest.raises(OutcomeUnknown, match="DELE was sent"):
        session.remove("/inbox", "a.csv")
    assert server.said("DELE") == 1


def test_a_name_with_a_line_end_never_reaches_the_server(start: Start) -> None:
    server = start({b"a.csv": b"1"})
    with writing(server) as session:
        for name in ("x\r\nDELE a.csv", "x\nDELE a.csv", "x\rDELE a.csv"):
            with pytest.raises(Rejected):
                session.write("/inbox", name, [b"x"])
            with pytest.raises(Rejected):
                session.remove("/inbox", name)
            with pytest.raises(Rejected):
                session.rename("/inbox", "a.csv", "/inbox", name)
    assert server.files == {b"a.csv": b"1"}
    assert server.said("DELE") == 0


def _look_around(server: FaultyFtp) -> None:
    with reading(server) as session:
        session.stat("/inbox", "feed.csv")
        session.list("/inbox", limit=100)
