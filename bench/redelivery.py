"""The whole redelivery against two tools that together do the half of it: `lftp mirror -R` sends, `rclone check --download` proves."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from assets.spool_checks import audit
from assets.spool_report import make_report
from bench.harness import NotHere, Pair, Paired, timed
from bench.places import MEGABYTE, bench_directory, ftp_server, make_feed
from guards.decision import DecisionKind
from guards.gate import Flags
from guards.refusal import Refused
from guards.spool.policy import SpoolPolicy
from resources.spool.apply import SpoolApply
from resources.spool.prove_delivered import prove_delivered
from resources.spool.route import SpoolRoute
from resources.spool.sent import Outcome
from resources.state import StateStore
from resources.state.embedded import leave, open_embedded
from resources.state.plans import StoredPlan
from tests.servers.peer import Folder, Peer

FEEDS: Final = 20
FEED_BYTES: Final = 10 * MEGABYTE
TWO_HOURS_SECONDS: Final = 7200


@contextmanager
def redelivery() -> Iterator[Pair]:
    for tool in ("lftp", "rclone"):
        if shutil.which(tool) is None:
            raise NotHere(f"{tool} is missing: apt-get install {tool}")
    with (
        bench_directory() as base,
        ftp_server(base / "source", side="source") as source,
        ftp_server(base / "partner", side="partner") as partner,
    ):
        home = base / "postgres"
        try:
            with StateStore.open(open_embedded(home)) as state:
                round_of = _Rounds(source, partner, state)
                yield Pair(ours=round_of.ours, peer=lambda: _by_tools(round_of.feeds.disk, partner, base))
        finally:
            leave(home)


class _Rounds:
    """Each round sends new bytes: the ledger would (rightly) refuse the same ones a second time."""

    def __init__(self, source: Peer, partner: Peer, state: StateStore) -> None:
        self.feeds = source.folder("outbound")
        self._archive = source.folder("archive")
        self._partner = partner
        self._state = state
        self._number = 0
        self._route = SpoolRoute(
            name="bench",
            source=source.at(directory=self.feeds.path),
            archive=self._archive.path,
            partner=partner.endpoint,
            policy=SpoolPolicy(max_files_per_run=FEEDS),
            owners=(),
            nightly_cron="30 5 * * *",
        )

    def ours(self) -> float:
        """Report and decision are before the clock starts: the tools have neither."""
        _empty(self._archive)
        make_feeds(self.feeds)
        self._number += 1
        run = f"bench-{self._number}"
        stored = make_report(self._route, self._state, policy=self._route.policy, run_id=f"{run}-report").stored
        decided = self._state.decide(
            stored.digest, kind=DecisionKind.APPROVED, by="bench", comment="", valid_for=timedelta(hours=1), channel="cli"
        )
        assert not isinstance(decided, Refused), decided
        seconds = timed(lambda: self._apply(stored, run))
        for name in self._archived():
            (self._archive.disk / name).replace(self.feeds.disk / name)  # for the tools, which are to send the same bytes
            (self._partner.inbox / name).unlink()
        return seconds

    def _archived(self) -> list[str]:
        names = self._archive.names()
        assert len(names) == FEEDS
        return names

    def _apply(self, stored: StoredPlan, run: str) -> None:
        """As the job's graph does it: send, prove on fresh connections, archive, audit."""
        apply = SpoolApply(
            self._route, self._state, stored, flags=Flags(dry_run=False, auto_remediate=True), run_id=run, lease_seconds=60
        )
        sent = apply.send()
        assert not isinstance(sent, Refused), sent
        assert all(one.outcome is Outcome.DELIVERED for one in sent), sent
        names = [one.name for one in sent]
        assert prove_delivered(self._route, self._state, plan=stored.digest, names=names).passed
        archived = apply.archive()
        assert not isinstance(archived, Refused), archived
        outcomes = audit(self._route, self._state, run_id=run)
        assert all(outcome.passed for outcome in outcomes), outcomes


def make_feeds(folder: Folder) -> None:
    _empty(folder)
    due = time.time() - TWO_HOURS_SECONDS
    for number in range(FEEDS):
        feed = make_feed(folder.disk / f"feed{number:02}.csv", FEED_BYTES)
        os.utime(feed, (due, due))


def _by_tools(feeds: Path, partner: Peer, base: Path) -> float:
    where, password = partner.endpoint, partner.endpoint.password.get_secret_value()
    commands = (
        f"set ftp:ssl-allow no; open -u {where.user},{password} ftp://127.0.0.1:{where.port}; mirror -R {feeds} {where.directory}"
    )
    send = ["lftp", "--norc", "-c", commands]
    check = ["rclone", "check", "--download", "--config", "/dev/null", str(feeds), f":ftp:{where.directory}"]
    check += [
        "--ftp-host",
        "127.0.0.1",
        "--ftp-port",
        str(where.port),
        "--ftp-user",
        where.user,
        "--ftp-pass",
        _obscured(password),
    ]

    def work() -> None:
        for command in (send, check):
            done = subprocess.run(command, env=_quiet(base), check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

    seconds = timed(work)
    for feed in feeds.iterdir():
        (partner.inbox / feed.name).unlink()
    return seconds


def _obscured(password: str) -> str:
    """rclone takes passwords only in its own reversible form."""
    return subprocess.run(["rclone", "obscure", password], check=True, capture_output=True, text=True).stdout.strip()


def _quiet(base: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(base), "LFTP_HOME": str(base)}


def _empty(folder: Folder) -> None:
    for name in folder.names():
        folder.on_disk(name).unlink()


ROWS: Final = (
    Paired(
        "redelivery",
        "whole redelivery (send, prove, archive, audit) of 20 x 10 MB",
        "lftp mirror -R + rclone check --download",
        1.0,
        redelivery,
    ),
)
