"""Rows about moving bytes: spool to partner, hashed on the way, as `resources.spool` does it."""

import ftplib
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.harness import Limited, Pair, Paired, timed
from bench.places import MEGABYTE, bench_directory, ftp_server, make_feed, sftp_server
from opsguard_defs.processes import module_command, module_environment
from resources.file_servers import open_server
from resources.file_servers.connect import PATIENCE
from resources.file_servers.endpoint import Endpoint
from resources.file_servers.interface import BLOCK_BYTES
from resources.file_servers.names import encoded, joined
from resources.file_servers.sftp_protocol import SAFE_BYTES, Reply, Request
from resources.file_servers.sftp_session import SftpSession
from resources.file_servers.sftp_transfer import create
from resources.spool.relay import HashingRelay
from tests.servers.authorization import authorized
from tests.servers.peer import Peer
from tests.servers.sftp import await_port, running

RELAY_BYTES: Final = 200 * MEGABYTE
LARGE_BYTES: Final = 1000 * MEGABYTE
FAR_BYTES: Final = 8 * 1024 * 1024
DELAY_MILLISECONDS: Final = 20.0
CEILING: Final = 1 << 40


def relay(source: Endpoint, partner: Endpoint, name: str) -> HashingRelay:
    """Connect, stream, hash, disconnect: what one feed costs on the wire."""
    with (
        open_server(source).reader() as reader,
        open_server(partner).writer(authorized(), scope="spool/acme", directories=(partner.directory,)) as writer,
    ):
        passing = HashingRelay(
            reader.read(source.directory, name, ceiling_bytes=CEILING), moved=lambda _: None, heartbeat=lambda: None
        )
        writer.write(partner.directory, name, passing)
    return passing


@contextmanager
def ftp_to_ftp() -> Iterator[Pair]:
    with bench_directory() as base, _peers(base, "ftp") as (source, partner):
        feed = make_feed(source.inbox / "feed.csv", RELAY_BYTES)

        def upload() -> None:
            with ftplib.FTP() as session, feed.open("rb") as file:  # the peer that the row names
                session.connect("127.0.0.1", partner.endpoint.port)
                session.login(partner.endpoint.user, _password(partner.endpoint))
                session.storbinary("STOR /inbox/feed.csv", file, blocksize=BLOCK_BYTES)

        yield Pair(
            ours=lambda: _once(partner, lambda: relay(source.endpoint, partner.endpoint, "feed.csv")),
            peer=lambda: _once(partner, upload),
        )


@contextmanager
def ftp_to_sftp() -> Iterator[Pair]:
    with bench_directory() as base, _peers(base, "sftp") as (source, partner):
        feed = make_feed(source.inbox / "feed.csv", RELAY_BYTES)
        where = partner.endpoint
        batch = base / "batch"
        batch.write_text(f"put {feed} {where.directory}/feed.csv\n")
        options = ["-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={base}/known_hosts", "-o", "LogLevel=ERROR"]
        command = ["sftp", "-q", "-b", str(batch), "-c", "aes128-gcm@openssh.com", "-i", str(where.key_file), *options]
        command += ["-P", str(where.port), f"{where.user}@127.0.0.1"]

        def put() -> None:
            subprocess.run(command, check=True, capture_output=True)

        yield Pair(
            ours=lambda: _once(partner, lambda: relay(source.endpoint, where, "feed.csv")),
            peer=lambda: _once(partner, put),
        )


@contextmanager
def memory_of_one_gigabyte() -> Iterator[Callable[[], float]]:
    """MB by which relaying one 1 GB file makes the process grow that has relayed one of 1 MB."""
    with bench_directory() as base, _peers(base, "sftp") as (source, partner):
        make_feed(source.inbox / "small.csv", MEGABYTE)
        with (source.inbox / "large.csv").open("wb") as file:
            file.truncate(LARGE_BYTES)
        where = partner.endpoint
        command = module_command(
            "bench.relay_child", source.endpoint.port, where.port, where.key_file, where.directory, where.host_key
        )
        environment = module_environment({"BENCH_SOURCE_LOGIN": f"{source.endpoint.user}:{_password(source.endpoint)}"})

        def growth() -> float:
            said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
            sent, grown = map(int, said.split())
            assert sent == (partner.inbox / "large.csv").stat().st_size == LARGE_BYTES
            for name in ("small.csv", "large.csv"):
                (partner.inbox / name).unlink()
            return grown / MEGABYTE

        yield growth


@contextmanager
def far_sftp() -> Iterator[Pair]:
    """The same bytes to the same server behind the same delay; the peer waits for each answer before the next request."""
    with bench_directory() as base, _peers(base, "sftp") as (_, partner):
        arguments = ["--to", partner.endpoint.port, "--milliseconds", DELAY_MILLISECONDS, "--ready", base / "proxy"]
        with running(module_command("bench.delay", *arguments), base / "proxy.out") as process:
            far = replace(partner.endpoint, port=await_port(process, base / "proxy", base / "proxy.out"))
            blocks = [os.urandom(BLOCK_BYTES)] * (FAR_BYTES // BLOCK_BYTES)
            with open_server(far).writer(authorized(), scope="spool/acme", directories=(far.directory,)) as writer:
                yield Pair(
                    ours=lambda: _once(partner, lambda: writer.write(far.directory, "feed.csv", blocks)),
                    peer=lambda: _unpipelined(far, blocks, partner),
                )


def _unpipelined(endpoint: Endpoint, blocks: list[bytes], partner: Peer) -> float:
    session = SftpSession(endpoint, patience=PATIENCE)
    session.open()
    connected = session.connected()

    def write() -> None:
        handle = create(connected, encoded(joined(endpoint.directory, "feed.csv")))
        offset = 0
        for block in blocks:
            for at in range(0, len(block), SAFE_BYTES):
                part = block[at : at + SAFE_BYTES]
                place = offset.to_bytes(8, "big") + len(part).to_bytes(4, "big")
                connected.request(Reply.STATUS, Request.WRITE, handle, place, part)
                offset += len(part)
        connected.request(Reply.STATUS, Request.CLOSE, handle)

    try:
        return _once(partner, write)
    finally:
        session.drop()


def _password(endpoint: Endpoint) -> str:
    return endpoint.password.get_secret_value()


def _once(partner: Peer, work: Callable[[], object]) -> float:
    """Seconds; the copy is removed afterwards, untimed."""
    seconds = timed(work)
    (partner.inbox / "feed.csv").unlink()
    return seconds


@contextmanager
def _peers(base: Path, partner: str) -> Iterator[tuple[Peer, Peer]]:
    """An FTP spool, and a partner on FTP or SFTP."""
    start = ftp_server if partner == "ftp" else sftp_server
    with ftp_server(base / "source", side="source") as source, start(base / "partner", side="partner") as inbox:
        yield source, inbox


ROWS: Final = (
    Paired("ftp", "relay 200 MB FTP->FTP with SHA-256", "bare ftplib upload, 256 KiB blocks", 0.6, ftp_to_ftp),
    Paired("sftp", "relay 200 MB FTP->SFTP with SHA-256", "sftp CLI put, aes128-gcm", 0.7, ftp_to_sftp),
    Limited("memory", "RSS growth for one 1 GB file FTP->SFTP", "MB", 32, memory_of_one_gigabyte, rounds=3),
    Paired("far", "SFTP write of 8 MiB at 20 ms added delay", "our own unpipelined writer", 5, far_sftp),
)
