"""Listing and judging 20,000 spool entries against 20,000 of the partner, in a process of its own: CPU seconds and memory.

python -m bench.judging SOURCE PARTNER     (JSON of the two endpoints on stdin: see `_endpoint`)
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from guards.spool.case import Bench
from guards.spool.judge import assess
from guards.spool.listing import Entry
from guards.spool.planning import plan_of
from guards.spool.policy import SpoolPolicy
from guards.spool.questions import questions_of
from guards.spool.world import SpoolWorld
from resources.file_servers import open_server
from resources.file_servers.endpoint import Endpoint, Profile
from resources.file_servers.interface import Reader

ENTRIES: Final = 20_003
"""A listing of exactly 20,000 rows would be doubted: too round."""
MISSING: Final = 10
TWO_HOURS_SECONDS: Final = 7200


def list_and_judge(source: Endpoint, archive: str, partner: Endpoint) -> int:
    """Number of findings. As `resources.spool.observe` does it, without the state store."""
    policy = SpoolPolicy()
    with open_server(source).reader() as spool, open_server(partner).reader() as inbox:
        world = SpoolWorld(
            observed_at=datetime.now(UTC),
            outbound=spool.list(source.directory, limit=policy.listing_limit),
            archive=spool.list(archive, limit=policy.listing_limit),
            partner=inbox.list(partner.directory, limit=policy.listing_limit),
        )
        while True:
            seen = Bench(world=world, policy=policy, consumes_on_arrival=False, case_sensitive=True)
            judged = assess(seen)
            questions = questions_of(judged)
            if not questions:
                break
            world = replace(
                world,
                source_confirmed={**world.source_confirmed, **_asked(spool, source, questions.confirm_source)},
                partner_confirmed={**world.partner_confirmed, **_asked(inbox, partner, questions.confirm_partner)},
                source_sha256={**world.source_sha256, **dict.fromkeys(questions.hash_source, "0" * 64)},
            )
    assert world.incomplete == "", world.incomplete
    plan = plan_of(judged, bench=seen, watch="bench", scope={})
    assert len(plan.gaps) == MISSING
    assert len(plan.digest) == 64
    return len(plan.findings)


def _asked(reader: Reader, where: Endpoint, names: frozenset[str]) -> dict[str, Entry | None]:
    return {name: reader.stat(where.directory, name) for name in names}


def _child() -> None:
    given = json.load(sys.stdin)
    source, partner = _endpoint(given["source"]), _endpoint(given["partner"])
    before = time.process_time()
    findings = list_and_judge(source, given["archive"], partner)
    cpu_seconds = time.process_time() - before
    print(json.dumps([findings, cpu_seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))


def _endpoint(given: dict[str, Any]) -> Endpoint:
    key = given.pop("key_file")
    return Endpoint(
        **{name: value for name, value in given.items() if name != "password"},
        password=SecretStr(given["password"]),
        key_file=Path(key) if key else None,
        profile=Profile(allow_cleartext=True),
    )


def _told(endpoint: Endpoint) -> dict[str, object]:
    names = ("side", "scheme", "host", "port", "user", "directory", "host_key")
    secret = {"password": endpoint.password.get_secret_value(), "key_file": str(endpoint.key_file or "")}
    return {**{name: getattr(endpoint, name) for name in names}, **secret}


@contextmanager
def _measured(pick: Callable[[float, float], float]) -> Iterator[Callable[[], float]]:
    from bench.places import bench_directory, ftp_server, sftp_server
    from opsguard_defs.processes import module_command, module_environment

    with (
        bench_directory() as base,
        ftp_server(base / "source", side="source") as source,
        sftp_server(base / "partner", side="partner") as partner,
    ):
        outbound, archive, inbox = source.folder("outbound"), source.folder("archive"), partner.folder("inbox")
        due = time.time() - TWO_HOURS_SECONDS
        for number in range(ENTRIES):
            for folder in (outbound, inbox):
                if folder is outbound or number >= MISSING:
                    file = folder.disk / f"feed-{number:06}.csv"
                    file.write_bytes(b"0123456789")
                    os.utime(file, (due, due))
        told = json.dumps(
            {
                "source": _told(source.at(directory=outbound.path)),
                "archive": archive.path,
                "partner": _told(partner.at(directory=inbox.path)),
            }
        )

        def measure() -> float:
            command = module_command("bench.judging")
            done = subprocess.run(command, env=module_environment(), input=told, check=True, capture_output=True, text=True)
            findings, cpu_seconds, peak = json.loads(done.stdout)
            assert findings == ENTRIES
            return pick(cpu_seconds, peak / 1_000_000)

        yield measure


def _rows() -> tuple[Any, ...]:
    from bench.harness import Limited

    work = "list and judge 20,000 spool x 20,000 partner entries"
    return (
        Limited("judge", f"{work}: CPU", "s", 2, lambda: _measured(lambda cpu_seconds, _: cpu_seconds)),
        Limited("judge-memory", f"{work}: peak RSS", "MB", 200, lambda: _measured(lambda _, peak: peak)),
    )


if __name__ == "__main__":
    _child()
else:
    ROWS = _rows()
