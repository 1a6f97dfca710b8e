"""What SFTP servers do rarely, and what must then be said: never "missing" for "not seen", never "failed" for "unknown"."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from guards.gate import NotAuthorized
from guards.spool.listing import EntryType
from opsguard_defs.ports import held_port
from resources.errors import NotObserved, OutcomeUnknown, Rejected, Transient, Unreachable, UntrustedServer
from resources.file_servers.connect import Patience
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.interface import Reader, Writer
from resources.file_servers.sftp import SftpServer
from tests.contract.file_servers.quick import QUICK
from tests.servers.authorization import authorized
from tests.servers.sftp import SftpPeer, asyncssh_peer

IMPATIENT = replace(QUICK, stall_seconds=1, settle_seconds=1)
"""Only where the server is meant to say nothing: on a busy machine an honest answer may take longer."""
FEED = b"0123456789" * 60_000
CEILING = 10**9

Start = Callable[[str], SftpPeer]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers with a fault each; all end with the test."""
    with ExitStack() as stack:
        count = iter(range(100))

        def one(fault: str) -> SftpPeer:
            base = tmp_path / f"server{next(count)}"
            base.mkdir()
            return stack.enter_context(asyncssh_peer(base, fault=fault))

        yield one


def reader(endpoint: Endpoint, *, patience: Patience = QUICK) -> AbstractContextManager[Reader]:
    return SftpServer(endpoint, patience=patience).reader()


def writer(endpoint: Endpoint, *, patience: Patience = QUICK) -> AbstractContextManager[Writer]:
    return SftpServer(endpoint, patience=patience).writer(authorized(), scope="spool/acme", directories=("/inbox",))


def blocks(data: bytes = FEED, size: int = 256 * 1024) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


# Writing


def test_an_error_that_only_close_tells_is_raised(start: Start) -> None:
    """A full disk often shows at CLOSE; paramiko's own file object swallows it and the upload looks done."""
    with writer(start("error_on_close").endpoint) as session, pytest.raises(OutcomeUnknown, match="No space left"):
        session.write("/inbox", "feed.csv", blocks())


def test_an_error_of_a_write_in_the_middle_is_raised_and_the_session_goes_on(start: Start) -> None:
    peer = start("full_after:300000")
    with writer(peer.endpoint) as session:
        with pytest.raises(OutcomeUnknown, match="No space left"):
            session.write("/inbox", "feed.csv", blocks())
        session.remove("/inbox", "feed.csv")
        assert session.stat("/inbox", "feed.csv") is None


def test_an_error_of_the_only_write_is_raised(start: Start) -> None:
    with writer(start("full_after:0").endpoint) as session, pytest.raises(OutcomeUnknown):
        session.write("/inbox", "feed.csv", [b"x"])


@pytest.mark.parametrize(
    "fault", ["cut_upload:0", "cut_upload:1", "cut_upload:400000", "cut_upload:599999", "cut_open", "cut_close"]
)
def test_an_upload_that_is_cut_is_unknown(start: Start, fault: str) -> None:
    """`cut_close`: the partner has the whole file although we got no answer. Only observing tells."""
    peer = start(fault)
    with writer(peer.endpoint) as session, pytest.raises(OutcomeUnknown):
        session.write("/inbox", "feed.csv", blocks())
    with reader(peer.endpoint) as session:
        found = session.stat("/inbox", "feed.csv")
        assert found is not None
        assert (found.size_bytes == len(FEED)) == (fault == "cut_close")


def test_an_error_of_the_source_passes_unchanged_and_the_session_goes_on(start: Start) -> None:
    def broken() -> Iterator[bytes]:
        yield FEED[:300_000]
        raise Transient("source: reading feed.csv: cut")

    with writer(start("none").endpoint) as session:
        with pytest.raises(Transient, match="source: reading"):
            session.write("/inbox", "feed.csv", broken())
        session.remove("/inbox", "feed.csv")


def test_a_server_that_stops_taking_bytes_is_given_up(start: Start) -> None:
    """A stopped process still acknowledges TCP; paramiko alone waits for ever."""
    peer = start("none")

    def stopping() -> Iterator[bytes]:
        yield FEED
        os.kill(peer.process.pid, signal.SIGSTOP)
        while True:
            yield FEED

    with writer(peer.endpoint, patience=IMPATIENT) as session, pytest.raises(OutcomeUnknown):
        session.write("/inbox", "feed.csv", stopping())


def test_no_writer_without_an_authorization_and_none_for_another_scope(start: Start) -> None:
    server = SftpServer(start("none").endpoint, patience=QUICK)
    with pytest.raises(NotAuthorized):
        server.writer(object(), scope="spool/acme", directories=()).__enter__()  # type: ignore[arg-type]
    with pytest.raises(NotAuthorized):
        server.writer(authorized("other"), scope="spool/acme", directories=()).__enter__()


# Renaming and removing


@pytest.mark.parametrize("replace_existing", [False, True])
def test_a_lost_reply_to_rename_is_unknown_and_the_rename_has_happened(start: Start, replace_existing: bool) -> None:
    peer = start("rename_reply_lost")
    (peer.inbox / ".feed.part").write_bytes(FEED)
    with writer(peer.endpoint) as session, pytest.raises(OutcomeUnknown, match="fresh connection"):
        session.rename("/inbox", ".feed.part", "/inbox", "feed.csv", replace=replace_existing)
    assert (peer.inbox / "feed.csv").read_bytes() == FEED


@pytest.mark.parametrize("replace_existing", [False, True])
def test_a_refused_rename_changed_nothing(start: Start, replace_existing: bool) -> None:
    peer = start("rename_refused")
    (peer.inbox / ".feed.part").write_bytes(FEED)
    with writer(peer.endpoint) as session, pytest.raises(Rejected, match="nothing was changed"):
        session.rename("/inbox", ".feed.part", "/inbox", "feed.csv", replace=replace_existing)
    assert sorted(path.name for path in peer.inbox.iterdir()) == [".feed.part"]


def test_a_server_whose_plain_rename_overwrites_is_not_asked_to(start: Start) -> None:
    """Managed SFTP in front of an object store replaces on SSH_FXP_RENAME, against the protocol."""
    peer = start("rename_overwrites")
    (peer.inbox / ".feed.part").write_bytes(FEED)
    (peer.inbox / "feed.csv").write_bytes(b"theirs")
    with writer(peer.endpoint) as session, pytest.raises(Rejected, match="exists already"):
        session.rename("/inbox", ".feed.part", "/inbox", "feed.csv")
    assert (peer.inbox / "feed.csv").read_bytes() == b"theirs"


def test_replacing_is_rejected_where_the_server_does_not_offer_it(start: Start) -> None:
    peer = start("no_posix_rename")
    (peer.inbox / ".feed.part").write_bytes(FEED)
    (peer.inbox / "feed.csv").write_bytes(b"short")
    with writer(peer.endpoint) as session, pytest.raises(Rejected, match="cannot replace"):
        session.rename("/inbox", ".feed.part", "/inbox", "feed.csv", replace=True)
    assert (peer.inbox / "feed.csv").read_bytes() == b"short"


def test_a_lost_reply_to_remove_is_unknown(start: Start) -> None:
    peer = start("remove_reply_lost")
    (peer.inbox / "feed.csv").write_bytes(b"x")
    with writer(peer.endpoint) as session, pytest.raises(OutcomeUnknown):
        session.remove("/inbox", "feed.csv")
    assert not (peer.inbox / "feed.csv").exists()


# Reading


def test_a_download_that_is_cut_is_transient(start: Start) -> None:
    peer = start("cut_download:400000")
    (peer.inbox / "feed.csv").write_bytes(FEED)
    with reader(peer.endpoint) as session, pytest.raises(Transient, match=r"read /inbox/feed\.csv"):
        list(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING))


def test_short_answers_to_read_are_asked_for_again(start: Start) -> None:
    peer = start("short_reads")
    (peer.inbox / "feed.csv").write_bytes(FEED)
    with reader(peer.endpoint) as session:
        got = list(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING))
    assert b"".join(got) == FEED
    assert max(map(len, got)) <= 256 * 1024


def test_a_file_that_ends_before_its_size_is_not_taken_for_whole(start: Start) -> None:
    peer = start("ends_early:300000")
    (peer.inbox / "feed.csv").write_bytes(FEED)
    with reader(peer.endpoint) as session, pytest.raises(Transient, match="300000 of 600000"):
        list(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING))


def test_a_file_over_the_ceiling_is_not_read(start: Start) -> None:
    peer = start("none")
    (peer.inbox / "feed.csv").write_bytes(FEED)
    with reader(peer.endpoint) as session:
        with pytest.raises(NotObserved, match="more than the ceiling"):
            list(session.read("/inbox", "feed.csv", ceiling_bytes=len(FEED) - 1))
        assert b"".join(session.read("/inbox", "feed.csv", ceiling_bytes=len(FEED))) == FEED


def test_a_file_of_unknown_size_is_read_to_its_end_and_held_to_the_ceiling(start: Start) -> None:
    peer = start("no_attributes")
    (peer.inbox / "feed.csv").write_bytes(FEED)
    with reader(peer.endpoint) as session:
        assert b"".join(session.read("/inbox", "feed.csv", ceiling_bytes=len(FEED))) == FEED


def test_reading_can_be_left_in_the_middle(start: Start) -> None:
    peer = start("none")
    (peer.inbox / "feed.csv").write_bytes(FEED)
    with reader(peer.endpoint) as session:
        for _ in range(3):
            taken = session.read("/inbox", "feed.csv", ceiling_bytes=CEILING)
            next(taken)
            taken.close()  # type: ignore[attr-defined]
            found = session.stat("/inbox", "feed.csv")
            assert found is not None
            assert found.size_bytes == len(FEED)


def test_a_server_that_hangs_while_reading_is_given_up(start: Start) -> None:
    peer = start("hang_read")
    (peer.inbox / "feed.csv").write_bytes(FEED)
    with reader(peer.endpoint, patience=IMPATIENT) as session, pytest.raises(Transient, match="did not answer for 1 s"):
        list(session.read("/inbox", "feed.csv", ceiling_bytes=CEILING))


# Observing


def test_permission_denied_is_not_absence(start: Start) -> None:
    peer = start("stat_denied")
    with reader(peer.endpoint) as session, pytest.raises(NotObserved, match="permission denied"):
        session.stat("/inbox", "feed.csv")


def test_failure_is_not_absence(start: Start) -> None:
    with reader(start("stat_failure").endpoint) as session, pytest.raises(NotObserved, match="failure"):
        session.stat("/inbox", "feed.csv")


def test_a_directory_that_is_gone_is_not_absence_of_its_files(start: Start) -> None:
    """A mount that is not there would make every feed look missing."""
    peer = start("none")
    peer.inbox.rmdir()
    with reader(peer.endpoint) as session:
        with pytest.raises(NotObserved, match="no such file or directory"):
            session.stat("/inbox", "feed.csv")
        with pytest.raises(NotObserved, match="list /inbox"):
            session.list("/inbox", limit=10)


def test_a_server_that_hangs_at_stat_is_given_up(start: Start) -> None:
    with reader(start("hang_stat").endpoint, patience=IMPATIENT) as session, pytest.raises(Transient, match="did not answer"):
        session.stat("/inbox", "feed.csv")


def test_unknown_size_type_and_time_stay_unknown(start: Start) -> None:
    peer = start("no_attributes")
    (peer.inbox / "feed.csv").write_bytes(FEED)
    with reader(peer.endpoint) as session:
        (row,) = session.list("/inbox", limit=10)
    assert (row.size_bytes, row.type, row.modified_at) == (None, EntryType.OTHER, None)


def test_a_listing_whose_connection_is_cut_is_not_a_listing(start: Start) -> None:
    peer = start("list_cut:150")
    for number in range(300):
        (peer.inbox / f"{number}.csv").touch()
    with reader(peer.endpoint) as session, pytest.raises(Transient, match="list /inbox"):
        session.list("/inbox", limit=1000)


def test_a_listing_that_fails_after_some_rows_is_incomplete(start: Start) -> None:
    peer = start("list_fails:150")
    for number in range(300):
        (peer.inbox / f"{number}.csv").touch()
    with reader(peer.endpoint) as session:
        seen = session.list("/inbox", limit=1000)
        assert "before the end" in seen.incomplete
        assert 0 < len(seen) < 300
        assert session.stat("/inbox", "1.csv") is not None


def test_one_name_with_two_sizes_makes_the_listing_incomplete(start: Start) -> None:
    peer = start("list_twice")
    (peer.inbox / "feed.csv").write_bytes(FEED)
    with reader(peer.endpoint) as session:
        assert "twice" in session.list("/inbox", limit=1000).incomplete


# The server's own hash


@pytest.mark.parametrize("fault", ["sha256", "sha256_unnamed"])
def test_check_file_name_is_found_although_it_is_not_announced(start: Start, fault: str) -> None:
    peer = start(fault)
    (peer.inbox / "feed.csv").write_bytes(b"abc")
    with reader(peer.endpoint) as session:
        assert session.sha256("/inbox", "feed.csv") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        assert session.sha256("/inbox", "missing.csv") is None
        assert session.sha256("/inbox", "feed.csv") is not None


def test_a_hash_of_the_wrong_length_is_no_hash(start: Start) -> None:
    peer = start("sha256_wrong_length")
    (peer.inbox / "feed.csv").write_bytes(b"abc")
    with reader(peer.endpoint) as session:
        assert session.sha256("/inbox", "feed.csv") is None


# Connecting


def test_a_changed_host_key_is_refused_before_anything_is_told(start: Start) -> None:
    """The password must not reach a server that is not the one that was pinned."""
    first, second = start("none"), start("none")
    with pytest.raises(UntrustedServer) as refused:
        reader(replace(second.endpoint, host_key=first.endpoint.host_key)).__enter__()
    sentence = str(refused.value)
    assert "was changed" in sentence
    assert f'partner_host_key = "{" ".join(second.endpoint.host_key.split()[:2])}"' in sentence
    assert f"[127.0.0.1]:{second.endpoint.port} ssh-ed25519 " in sentence
    assert second.log is not None
    assert not second.log.exists()


def test_no_pinned_key_is_refused_with_how_to_pin(start: Start, tmp_path: Path) -> None:
    """Never trust on first use."""
    peer = start("none")
    for endpoint in (replace(peer.endpoint, host_key=""), replace(peer.endpoint, host_key="", known_hosts=tmp_path / "missing")):
        with pytest.raises(UntrustedServer, match=r"SHA256:[A-Za-z0-9+/]{43}, and .*partner_host_key = "):
            reader(endpoint).__enter__()


def test_a_wrong_password_says_so_and_is_not_tried_again(start: Start) -> None:
    peer = start("none")
    with pytest.raises(Unreachable, match="refused the password of user other") as refused:
        reader(replace(peer.endpoint, user="other")).__enter__()
    assert not isinstance(refused.value, Transient)
    assert "canary" not in str(refused.value)


def test_a_login_that_hangs_is_given_up(start: Start) -> None:
    with pytest.raises(Unreachable, match="logging in"):
        reader(start("hang_login").endpoint, patience=IMPATIENT).__enter__()


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[Endpoint]:
    """A port that is no SSH server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                kept.append(client)
                answer(client)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Endpoint(
            "source", "sftp", "127.0.0.1", server.getsockname()[1], "u", "/", host_key="SHA256:" + "A" * 43, key_file=None
        )
        server.shutdown(socket.SHUT_RDWR)
        for client in kept:
            client.close()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda client: None, "source: the SSH key exchange"),
        (lambda client: client.close(), "closed the connection or does not speak SSH"),
        (lambda client: client.sendall(b"220 ftp.example FTP server ready\r\n"), "source: the SSH key exchange"),
        (lambda client: client.sendall(b"SSH-2.0-mute\r\n"), "source: the SSH key exchange"),
    ],
    ids=["silent", "closes", "speaks FTP", "mute after the greeting"],
)
def test_a_port_that_is_no_ssh_server_is_named_with_side_and_step(answer: Callable[[socket.socket], None], expected: str) -> None:
    impatient = replace(QUICK, connect_seconds=0.5)
    with listening(answer) as endpoint, pytest.raises(Unreachable, match=expected):
        SftpServer(replace(endpoint, password=SecretStr("x")), patience=impatient).reader().__enter__()


def test_nobody_listening_is_transient_and_says_what_to_check() -> None:
    with held_port() as port, pytest.raises(Transient, match=r"source: .*is the server up.*tried 2 times"):
        reader(
            Endpoint("source", "sftp", "127.0.0.1", port, "u", "/", password=SecretStr("x"), host_key="SHA256:" + "A" * 43)
        ).__enter__()
