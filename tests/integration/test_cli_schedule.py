"""`opsguard schedule preview`: what would be sent, seen before anything is configured to send."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.command import Command, Ended
from tests.unit.delivery import icalendar

ESCAPE = "\x1b"
REGISTRY = """\
version: 1
defaults: {zone: Asia/Seoul}
customers:
  - key: acme-1
    display_name: "Acme, [bold]GmbH[/bold]"
    route: {provider: slack, channel: C0123456}
    daily:    {at: "09:00"}
    weekly:   {weekday: mon, at: "10:00", catch_up: until_week_end}
    reminder: {not_before: "11:00", not_after: "12:00", template: missing-checkin-v1}
  - key: zenith
    zone: Europe/Berlin
    route: {provider: smtp, to: ops@example.com}
    daily: {at: "00:30"}
  - key: dormant
    enabled: false
    route: {provider: file, directory: dormant}
    daily: {at: "09:00"}
"""
DAY = ("--from", "2026-11-30", "--to", "2026-11-30")


@pytest.fixture
def opsguard(tmp_path: Path) -> Command:
    (tmp_path / "customers.yaml").write_text(REGISTRY)
    return Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home"), "COLUMNS": "250"})


def preview(opsguard: Command, *arguments: str, registry: str = "customers.yaml") -> Ended:
    return opsguard("schedule", "preview", "--registry", registry, *arguments)


def test_the_table_shows_each_slot_in_its_customers_time(opsguard: Command, tmp_path: Path) -> None:
    done = preview(opsguard, *DAY)

    assert done.code == 0
    assert "acme-1:2026-W49:weekly" in done.out
    assert "2026-11-30 00:30" in done.out
    assert "Acme, [bold]GmbH[/bold]" in done.out
    assert "template missing-checkin-v1" in done.out
    assert "4 slots from 2026-11-30 to 2026-11-30: 2 daily, 1 weekly, 1 reminder" in done.out
    assert "left out, since not enabled: 1 customer" in done.err
    assert not (tmp_path / "home").exists()


def test_a_table_that_nobody_would_read_is_cut_and_says_so(opsguard: Command) -> None:
    done = preview(opsguard, "--from", "2026-01-01", "--to", "2026-12-31", "--limit", "3")

    assert done.out.count("acme-1:2026-01-01") == 2
    assert "1,147 slots from 2026-01-01 to 2026-12-31" in done.out
    assert "shown are the first 3" in done.out


def test_lines_of_json_hold_everything_by_date_and_time(opsguard: Command) -> None:
    done = preview(opsguard, *DAY, "--json")

    assert [one["slot"] for one in done.objects] == [
        "zenith:2026-11-30:daily",
        "acme-1:2026-11-30:daily",
        "acme-1:2026-W49:weekly",
        "acme-1:2026-11-30:reminder",
    ]
    weekly = next(one for one in done.objects if one["kind"] == "weekly")
    assert weekly == {
        "slot": "acme-1:2026-W49:weekly",
        "customer": "acme-1",
        "display_name": "Acme, [bold]GmbH[/bold]",
        "enabled": True,
        "zone": "Asia/Seoul",
        "kind": "weekly",
        "route": {"provider": "slack", "address": "C0123456"},
        "period": "2026-W49",
        "local_date": "2026-11-30",
        "due_at": "2026-11-30T10:00:00+09:00",
        "closes_at": "2026-12-07T00:00:00+09:00",
        "body": "outbox/acme-1/2026-W49/weekly.md",
    }
    assert next(one for one in done.objects if one["kind"] == "reminder")["body"] == "templates/missing-checkin-v1.md"


def test_one_customer_can_be_asked_for_even_when_not_enabled(opsguard: Command) -> None:
    done = preview(opsguard, *DAY, "--customer", "dormant", "--json")

    assert [one["slot"] for one in done.objects] == ["dormant:2026-11-30:daily"]
    assert "dormant is not enabled: nothing of this would be sent" in done.err


def test_a_calendar_is_written_whole_and_never_over_another_file(opsguard: Command, tmp_path: Path) -> None:
    """The incident: `--ics notes.txt` for `--ics notes.ics`."""
    made = preview(opsguard, *DAY, "--ics", "december.ics")
    first = (tmp_path / "december.ics").read_bytes()
    again = preview(opsguard, *DAY, "--ics", "december.ics")
    forced = preview(opsguard, *DAY, "--customer", "zenith", "--ics", "december.ics", "--force", "--json")

    assert (made.code, again.code, forced.code) == (0, 2, 0)
    assert len(icalendar.read(first)) == 4
    assert "december.ics exists: name a new file, or say --force to replace it" in again.err
    assert forced.objects == [{"file": "december.ics", "events": 1}]
    assert len(icalendar.read((tmp_path / "december.ics").read_bytes())) == 1
    assert stat.S_IMODE((tmp_path / "december.ics").stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["customers.yaml", "december.ics"]


def test_a_calendar_can_go_down_a_pipe(opsguard: Command) -> None:
    done = preview(opsguard, *DAY, "--ics", "-")

    assert done.code == 0
    assert "stdout: 4 events" in done.err
    assert done.out.startswith("BEGIN:VCALENDAR")


@pytest.mark.parametrize("target", ["-", "empty.ics"])
def test_no_slot_makes_no_calendar(opsguard: Command, tmp_path: Path, target: str) -> None:
    (tmp_path / "few.yaml").write_text(REGISTRY.partition("  - key: acme-1")[0].replace("customers:", "customers: []"))
    done = preview(opsguard, *DAY, "--ics", target, registry="few.yaml")

    assert (done.code, done.out) == (0, "")
    assert "no slot in this range: no calendar was written" in done.err
    assert not (tmp_path / "empty.ics").exists()


def test_a_registry_with_mistakes_is_exit_2_with_every_place(opsguard: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(REGISTRY.replace('"00:30"', '"24:30"').replace("weekday: mon", "weekday: mon\x1b"))
    unreadable = preview(opsguard, registry="bad.yaml")
    (tmp_path / "bad.yaml").write_text(REGISTRY.replace('"00:30"', '"24:30"').replace("channel: C", "chanel: C"))
    wrong = preview(opsguard, "--json", registry="bad.yaml")

    assert (unreadable.code, wrong.code) == (2, 2)
    assert "bad.yaml: line 8, column 28: the character U+001B cannot stand in this file" in unreadable.err
    assert "bad.yaml: line 6, column 12: customer acme-1: route: the key channel is missing" in wrong.err
    assert "bad.yaml: line 13, column 17: customer zenith: daily: at must be a time" in wrong.err
    assert wrong.objects[0]["error"]["code"] == "configuration"
    assert ESCAPE not in unreadable.err + wrong.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--registry", "nowhere.yaml"], "nowhere.yaml: there is no such file, and it is not the name of a watch"),
        (["--registry", "."], "cannot be read"),
        (["--registry", "delivery/nope"], "no watch 'delivery/nope'"),
        ([], "the settings have no delivery watch: say --registry customers.yaml"),
        (["--registry", "customers.yaml", "--from", "2026-02-31"], "--from 2026-02-31: must be a date from 2000-01-01"),
        (["--registry", "customers.yaml", "--from", "20261130"], "--from 20261130: must be a date"),
        (["--registry", "customers.yaml", "--to", "9999-12-31"], "--to 9999-12-31: must be a date from 2000-01-01 to 2199-12-31"),
        (
            ["--registry", "customers.yaml", "--from", "2026-12-01", "--to", "2026-11-30"],
            "--to 2026-11-30 is before --from 2026-12-01",
        ),
        (["--registry", "customers.yaml", "--from", "2001-01-01", "--to", "2026-11-30"], "is longer than 3,660 days"),
        (["--registry", "customers.yaml", "--customer", "acme"], "the registry has no such key; did you mean acme-1?"),
        (
            ["--registry", "customers.yaml", "--customer", "a\x1b[31m"],
            "the registry has no such key; known are acme-1, zenith, dormant",
        ),
        (["--registry", "customers.yaml", "--ics", "no/such/x.ics"], "there is no directory no/such"),
        (
            ["--registry", "customers.yaml", "--ics", "customers.yaml/x.ics"],
            "cannot be written (Not a directory); nothing was changed",
        ),
        (["--registry", "customers.yaml", "--ics", "..", "--force"], "cannot be written"),
        (["--registry", "customers.yaml", "--ics", "-", "--json"], "both want stdout"),
    ],
)
def test_what_cannot_be_previewed_is_exit_2_and_one_sentence(
    opsguard: Command, tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = opsguard("schedule", "preview", *arguments)

    assert done.code == 2
    assert said in done.err
    assert ESCAPE not in done.err
    assert "Traceback" not in done.err
    assert os.listdir(tmp_path) == ["customers.yaml"]


def test_the_registry_of_a_watch_is_found_in_the_settings(opsguard: Command, tmp_path: Path) -> None:
    (tmp_path / "opsguard.toml").write_text(
        '[[watch]]\nguard = "delivery"\nname = "customers"\nregistry = "customers.yaml"\ntemplates = "templates"\noutbox = "outbox"\n'
    )

    for named in ((), ("--registry", "customers"), ("--registry", "delivery/customers")):
        done = opsguard("schedule", "preview", *named, *DAY, "--json")
        assert (done.code, len(done.objects)) == (0, 4), done.err


def test_a_preview_reads_the_registry_and_starts_nothing(opsguard: Command) -> None:
    """No settings, no database, no Dagster: whoever has the file can look."""
    probe = (
        "import sys; from opsguard_defs.cli.run import run; run(sys.argv[1:]); "
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'dagster', 'sqlalchemy', 'paramiko', 'psycopg'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, "schedule", "preview", "--registry", "customers.yaml", *DAY, "--json"],
        cwd=opsguard.directory,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "[]"
    assert json.loads(done.stdout.splitlines()[0])["slot"]
