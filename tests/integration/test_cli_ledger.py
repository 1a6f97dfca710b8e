"""`opsguard ledger` on the file store, from outside: no database runs, and none is looked for."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from guards.delivery.outcome import Approval, Outcome, Reason, delivered, known_failure, unknown
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerRefused
from guards.delivery.slot import Grant, Slot
from resources.ledger.file.store import FileLedger
from tests.integration.command import PROJECT, Command
from tests.integration.ledger_transfer.old_tree import every_state

NOBODY = "postgresql://nobody@127.0.0.1:1/none"
BODY = "Grüße,\n\x1b[31mred\x1b[0m"
SETTINGS = """\
[[watch]]
guard = "delivery"
name = "customers"
registry = "customers.yaml"
templates = "templates"
outbox = "outbox"
"""
SPOOL = """\
[[watch]]
guard = "spool"
name = "acme"
source = "ftp://u@127.0.0.1:1/out"
archive = "/archive"
partner = "ftp://u@127.0.0.1:1/in"
source_profile = {allow_cleartext = true}
partner_profile = {allow_cleartext = true}
"""


@pytest.fixture
def opsguard(tmp_path: Path) -> Command:
    (tmp_path / "opsguard.toml").write_text(SETTINGS)
    return Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home"), "OPSGUARD_STATE_URL": NOBODY})


@pytest.fixture
def ledger_dir(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home" / "ledger"


def pins(slot: Slot) -> Pins:
    return Pins(
        {
            "kind": slot.kind,
            "customer": slot.customer,
            "destination": {"provider": "webhook", "address": "acme"},
            "body": BODY,
            "body_sha256": "ab" * 32,
            "closes_at": "2026-12-01T00:00:00+00:00",
        }
    )


def keep(directory: Path, slot: Slot, outcome: Outcome | None = None, *, granted: bool = True) -> None:
    """One attempt, as a run leaves it; without an outcome it died in the middle of its call."""
    with FileLedger.open(directory) as ledger:
        held = ledger.reserve(slot, pins(slot), key="run-1")
        assert not isinstance(held, LedgerRefused), held
        grant = ledger.grant(held.reservation_id, holder="run-1") if granted else None
        if outcome is not None:
            assert isinstance(grant, Grant), grant
            assert not isinstance(ledger.settle(grant, outcome), LedgerRefused)


DAILY, REMINDER, WEEKLY = (
    Slot("acme-1", "2026-11-30", "daily"),
    Slot("acme-1", "2026-11-30", "reminder"),
    Slot("acme-1", "2026-W49", "weekly"),
)


def test_status_before_anything_was_sent_says_so_and_makes_nothing(opsguard: Command, tmp_path: Path) -> None:
    said = opsguard("ledger", "status", "--json")
    assert said.code == 0, said.err
    (found,) = said.objects
    assert (found["counts"], found["head"]["sequence"]) == ({}, 0)
    assert not (tmp_path / "home" / "ledger").exists()


def test_where_no_ledger_is_the_directory_is_named(opsguard: Command, ledger_dir: Path) -> None:
    """A disk that was not mounted read like a ledger in order."""
    assert f"(nothing in {ledger_dir} yet)" in opsguard("ledger", "verify").out
    assert f"(nothing in {ledger_dir} yet)" in opsguard("ledger", "status").out


def test_an_anchor_that_cannot_be_read_is_refused_in_words(opsguard: Command, tmp_path: Path) -> None:
    for name, why in ((tmp_path / "gone.jsonl", "No such file or directory"), (tmp_path, "Is a directory")):
        ended = opsguard("ledger", "verify", "--against", str(name))
        assert ended.code == 2
        assert f"cannot be read ({why})" in ended.err


def test_status_counts_slots_and_names_the_one_whose_holder_is_gone(opsguard: Command, ledger_dir: Path) -> None:
    keep(ledger_dir, WEEKLY, delivered({"id": "1"}))
    keep(ledger_dir, DAILY)
    said = opsguard("ledger", "status", "--json")
    assert said.code == 0, said.err
    (found,) = said.objects
    assert found["counts"] == {"delivered": 1, "sending": 1}
    assert found["stale_sending"] == [DAILY.key]
    assert found["store"].startswith("file ")
    assert DAILY.key in opsguard("ledger", "status").out


def test_no_command_on_the_file_store_imports_the_state_store(opsguard: Command, ledger_dir: Path, tmp_path: Path) -> None:
    """The ledger has to answer on the day on which the database does not."""
    keep(ledger_dir, DAILY, unknown(Reason.NO_ANSWER))
    commands = [
        ["ledger", "status"],
        ["ledger", "show", DAILY.key],
        ["ledger", "verify"],
        ["ledger", "anchor"],
        ["ledger", "repair"],
        ["ledger", "export", str(tmp_path / "out.jsonl")],
        ["ledger", "resolve", DAILY.key, "--sent", "--by", "Ada", "--comment", "asked them", "--yes"],
    ]
    script = (
        "import json, sys\n"
        "from opsguard_defs.cli.run import run\n"
        "codes = [run(arguments) for arguments in json.loads(sys.argv[1])]\n"
        "heavy = [name for name in sys.modules if name.split('.')[0] in ('sqlalchemy', 'psycopg', 'psycopg2', 'dagster')]\n"
        "print(json.dumps([codes, heavy]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(commands)],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PROJECT), **opsguard.environ},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == [[0] * len(commands), []], done.stderr


def test_show_prints_what_was_pinned_and_the_body_escaped_only_when_asked(opsguard: Command, ledger_dir: Path) -> None:
    keep(ledger_dir, DAILY, delivered({"id": "m-1"}))
    without, with_body = opsguard("ledger", "show", DAILY.key), opsguard("ledger", "show", DAILY.key, "--body")
    assert without.code == with_body.code == 0, without.err
    assert "webhook acme" in without.out
    assert "ab" * 32 in without.out
    assert "Grüße" not in without.out
    assert "Grüße" in with_body.out
    assert "\\x1b[31mred" in with_body.out
    assert "\x1b" not in with_body.out
    (said,) = opsguard("ledger", "show", DAILY.key, "--body", "--json").objects
    assert (said["body"], said["receipt"], said["state"]) == (BODY, {"id": "m-1"}, "delivered")
    assert said["provider_key"] in without.out, "what to search the provider's records for"


def test_show_says_nothing_of_a_comment_that_is_not_kept(opsguard: Command, ledger_dir: Path) -> None:
    """The approval of a plan had a comment, and this said that it was empty."""
    with FileLedger.open(ledger_dir) as ledger:
        ledger.reserve(DAILY, pins(DAILY), key="run-1", approval=Approval(3, "Kim", "ab" * 32))
    said = opsguard("ledger", "show", DAILY.key).out
    assert '"approved_by": "Kim"' in said
    assert "comment" not in said


def test_show_of_a_customer_lists_all_their_slots(opsguard: Command, ledger_dir: Path) -> None:
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    keep(ledger_dir, WEEKLY, delivered({"id": "2"}))
    assert {one["slot"] for one in opsguard("ledger", "show", "acme-1", "--json").objects} == {DAILY.key, WEEKLY.key}
    assert "holds no attempt" in opsguard("ledger", "show", "acme-2").out


def test_resolve_ends_doubt_only_with_yes_and_ends_a_dead_attempt_first(opsguard: Command, ledger_dir: Path) -> None:
    keep(ledger_dir, DAILY)
    asked = ["ledger", "resolve", DAILY.key, "--sent", "--by", "Ada L.", "--comment", "they have it, ticket 4711", "--json"]
    (shown,) = opsguard(*asked).objects
    (said,) = opsguard(*asked, "--yes").objects
    assert (shown["held"]["state"], shown["resolved"]) == ("sending", None)
    assert said["resolved"]["state"] == "resolved_sent"
    assert said["resolved"]["evidence"]["comment"] == "they have it, ticket 4711"
    again = opsguard(*asked[:3], "--not-sent", *asked[4:], "--yes")
    assert (again.code, again.objects[0]["refusal"]["code"]) == (3, "illegal_edge")


@pytest.mark.parametrize("said", [("--sent", "--not-sent"), ("--not-sent", "--sent"), ()])
def test_resolve_is_told_one_answer(opsguard: Command, ledger_dir: Path, said: tuple[str, ...]) -> None:
    """Nothing takes it back: of two answers that contradict each other the last one used to win."""
    keep(ledger_dir, DAILY, unknown(Reason.NO_ANSWER))
    refused = opsguard("ledger", "resolve", DAILY.key, *said, "--by", "Ada", "--comment", "asked", "--yes")
    assert refused.code == 2
    assert "say either --sent or --not-sent" in refused.err
    assert opsguard("ledger", "show", DAILY.key, "--json").objects[0]["state"] == "unknown"


def test_what_accepting_a_whole_store_as_a_copy_would_do_is_said_first(opsguard: Command, ledger_dir: Path) -> None:
    keep(ledger_dir, DAILY)
    said = opsguard("ledger", "repair", "--accept-copy")
    assert said.code == 0
    assert "--yes takes this store for a copy all the same" in said.out
    assert "nothing to repair" in opsguard("ledger", "repair").out


def test_a_slot_that_failed_for_certain_gets_another_attempt_from_a_person(opsguard: Command, ledger_dir: Path) -> None:
    keep(ledger_dir, REMINDER, known_failure(Reason.REJECTED))
    asked = ["ledger", "replace", REMINDER.key, "--by", "Ada L.", "--comment", "address corrected", "--json"]
    (shown,) = opsguard(*asked).objects
    done = opsguard(*asked, "--yes")
    assert done.code == 0, done.err
    assert shown["opened"] is None
    assert (done.objects[0]["opened"]["attempt"], done.objects[0]["opened"]["state"]) == (2, "prepared")
    again = opsguard(*asked, "--yes")
    assert (again.code, again.objects[0]["refusal"]["code"]) == (3, "illegal_edge")


def test_what_nobody_was_granted_can_be_given_up_and_what_was_sent_cannot(opsguard: Command, ledger_dir: Path) -> None:
    keep(ledger_dir, DAILY, granted=False)
    keep(ledger_dir, WEEKLY, delivered({"id": "1"}))
    words = ["--by", "Ada", "--comment", "customer left", "--yes", "--json"]
    assert opsguard("ledger", "abandon", DAILY.key, *words).objects[0]["abandoned"]["state"] == "abandoned"
    refused = opsguard("ledger", "abandon", WEEKLY.key, *words)
    assert (refused.code, refused.objects[0]["refusal"]["code"]) == (3, "illegal_edge")


def test_an_attempt_that_the_ledger_does_not_hold_is_refused(opsguard: Command, ledger_dir: Path) -> None:
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    done = opsguard("ledger", "resolve", WEEKLY.key, "--sent", "--by", "Ada", "--comment", "asked", "--yes", "--json")
    assert (done.code, done.objects[0]["refusal"]["code"]) == (3, "not_found")


def test_an_older_copy_verifies_by_itself_and_is_found_out_by_an_anchor_kept_elsewhere(
    opsguard: Command, ledger_dir: Path, tmp_path: Path
) -> None:
    """A restored backup is whole: only a head kept outside shows what it lost. That it is a copy a person has to accept first."""
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    shutil.copytree(ledger_dir, tmp_path / "copy")
    keep(ledger_dir, WEEKLY, delivered({"id": "2"}))
    anchor = opsguard("ledger", "anchor")
    (tmp_path / "anchor.json").write_text(anchor.out)
    assert set(anchor.objects[0]) == {"store", "sequence", "digest", "at"}
    assert opsguard("ledger", "verify", "--against", "anchor.json").code == 0
    assert opsguard("ledger", "anchor", "--check", anchor.out).code == 0
    shutil.rmtree(ledger_dir)
    shutil.copytree(tmp_path / "copy", ledger_dir)
    assert "accept-copy" in opsguard("ledger", "status", "--json").objects[0]["recovery"]
    assert opsguard("ledger", "repair").code == 5
    assert opsguard("ledger", "repair", "--accept-copy", "--yes").code == 0
    assert opsguard("ledger", "verify", "--json").objects[0]["faults"] == []
    behind = opsguard("ledger", "verify", "--against", "anchor.json", "--json")
    assert (behind.code, behind.objects[0]["extends_anchor"]) == (4, False)
    assert opsguard("ledger", "anchor", "--check", "anchor.json").code == 4


def test_of_many_anchors_in_a_file_all_of_each_ledger_count(opsguard: Command, ledger_dir: Path, tmp_path: Path) -> None:
    """By cron it grows for years; and where several ledgers are in use each look adds a line of each."""
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    ours = opsguard("ledger", "anchor").objects[0]
    other = json.dumps({"store": "postgres 6f68bb56", "sequence": 0, "digest": 64 * "0"})
    forged = json.dumps({**ours, "digest": 64 * "a"})
    kept = tmp_path / "anchors.jsonl"
    kept.write_text("".join(f"{line}\n" for line in [*[json.dumps(ours)] * 10_000, other]))
    whole = opsguard("ledger", "anchor", "--check", "anchors.jsonl", "--store", "file", "--json")
    assert (whole.code, whole.objects[0]["extends_anchor"]) == (0, True), whole.err
    for lines in ([json.dumps(ours), forged, other], [forged, *[json.dumps(ours)] * 10_000, other]):
        kept.write_text("".join(f"{line}\n" for line in lines))
        for command in (("anchor", "--check"), ("verify", "--against")):
            assert opsguard("ledger", *command, "anchors.jsonl", "--store", "file").code == 4, command


def test_an_anchor_printed_after_rows_were_lost_does_not_hide_it(opsguard: Command, ledger_dir: Path, tmp_path: Path) -> None:
    """Disk and database went back together by a snapshot, and cron appended the next head before anybody looked."""
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    lost = {**opsguard("ledger", "anchor").objects[0], "sequence": 9, "digest": 64 * "b"}
    kept = tmp_path / "anchors.jsonl"
    kept.write_text(json.dumps(lost) + "\n" + opsguard("ledger", "anchor").out)
    said = opsguard("ledger", "anchor", "--check", "anchors.jsonl")
    assert said.code == 4
    assert "does not hold row 9" in said.err
    assert "ends with row 3" in said.err
    assert "begin a new file of anchors" in said.err


@pytest.mark.parametrize("text", ["nothing.json", "{}", '{"store":"file","sequence":1,"digest":"x"}', "[" * 5000])
def test_what_is_no_anchor_is_refused_before_anything_is_looked_at(opsguard: Command, text: str) -> None:
    assert opsguard("ledger", "verify", "--against", text).code == 2


def test_export_and_import_keep_the_head_and_take_only_an_empty_store(
    opsguard: Command, ledger_dir: Path, tmp_path: Path
) -> None:
    keep(ledger_dir, DAILY, unknown(Reason.NO_ANSWER))
    made = opsguard("ledger", "export", "out.jsonl", "--retire", "--json")
    assert made.code == 0, made.err
    taken = opsguard("ledger", "import", "out.jsonl", "--store", "./other", "--json")
    assert taken.code == 0, taken.err
    assert (
        taken.objects[0]["head"]
        == made.objects[0]["head"]
        == opsguard("ledger", "verify", "--store", "./other", "--json").objects[0]["head"]
    )
    assert opsguard("ledger", "import", "out.jsonl", "--store", "./other").code == 0
    keep(tmp_path / "other", WEEKLY, delivered({"id": "1"}))
    assert opsguard("ledger", "import", "out.jsonl", "--store", "./other").code == 3
    assert opsguard("ledger", "export", "out.jsonl").code == 2, "a file is not replaced unasked"
    assert opsguard("ledger", "export", "out.jsonl", "--force").code == 0


def test_a_cut_export_is_refused_and_the_store_stays_empty(opsguard: Command, ledger_dir: Path, tmp_path: Path) -> None:
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    opsguard("ledger", "export", "out.jsonl")
    whole = (tmp_path / "out.jsonl").read_bytes()
    (tmp_path / "out.jsonl").write_bytes(whole[:-1])
    refused = opsguard("ledger", "import", "out.jsonl", "--store", "./other", "--json")
    assert (refused.code, refused.objects[0]["refusal"]["code"]) == (3, "invalid")
    assert not (tmp_path / "other").exists(), "a refused import leaves nothing behind"


def test_an_export_of_a_store_that_goes_on_is_a_copy_that_a_person_accepts(
    opsguard: Command, ledger_dir: Path, tmp_path: Path
) -> None:
    """An export of a copy, imported into a new store, was a ledger like any other: what had gone out since was sent again."""
    keep(ledger_dir, DAILY, granted=False)
    assert opsguard("ledger", "export", "out.jsonl", "--json").objects[0]["retired"] is False
    refused = opsguard("ledger", "import", "out.jsonl", "--store", "./other")
    assert refused.code == 3
    assert "--accept-copy" in refused.err
    assert not (tmp_path / "other").exists()

    taken = opsguard("ledger", "import", "out.jsonl", "--store", "./other", "--accept-copy", "--json")

    assert taken.code == 0, taken.err
    assert taken.objects[0]["counts"] == {"unknown": 1}


def test_an_export_of_a_copy_says_what_kept_it_from_sending_and_is_never_retired(
    opsguard: Command, ledger_dir: Path, tmp_path: Path
) -> None:
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    assert opsguard("ledger", "backup", "copy").code == 0
    assert opsguard("ledger", "export", "out.jsonl", "--store", "./copy").code == 0
    said = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])
    assert said["retired"] is False
    assert said["recovery"]
    refused = opsguard("ledger", "import", "out.jsonl", "--store", "./other")
    assert refused.code == 3
    assert "could not send" in refused.err


def test_a_store_is_not_given_up_for_an_export_that_cannot_be_written(
    opsguard: Command, ledger_dir: Path, tmp_path: Path
) -> None:
    """`--retire` with the name of a file that was there ended with 2, and had ended the store for good."""
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    (tmp_path / "there").write_text("")
    for target in ("there", "nowhere/out.jsonl", "home/ledger/out.jsonl", "home/ledger/segments/000009.jsonl"):
        assert opsguard("ledger", "export", target, "--retire").code == 2, target
    assert opsguard("ledger", "status").code == 0, "it still sends"
    for target in ("home/ledger/temp/copy", "home/ledger/copy"):
        assert opsguard("ledger", "backup", target).code == 2, target
    assert opsguard("ledger", "verify").code == 0
    assert opsguard("ledger", "export", "out.jsonl", "--retire").code == 0
    assert opsguard("ledger", "export", "two.jsonl", "--retire").code == 3


def test_commands_that_look_make_no_store(opsguard: Command, ledger_dir: Path, tmp_path: Path) -> None:
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    (tmp_path / "empty").mkdir(mode=0o700)
    segments = sorted((ledger_dir / "segments").iterdir())
    for command in ("status", "verify", "anchor", "repair"):
        assert opsguard("ledger", command, "--store", "./empty").code == 2, command
        assert opsguard("ledger", command, "--store", str(ledger_dir / "segments")).code == 2, command
    assert list((tmp_path / "empty").iterdir()) == []
    assert opsguard("ledger", "export", "out.jsonl", "--retire").code == 0
    assert opsguard("ledger", "import", "out.jsonl", "--store", str(ledger_dir / "segments")).code == 2
    assert sorted((ledger_dir / "segments").iterdir()) == segments


def test_a_ledger_that_is_not_there_has_no_anchor(opsguard: Command, ledger_dir: Path) -> None:
    """Row 0, appended by cron behind row 500 while a disk was not mounted, would have been what every later chain extends."""
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    published = opsguard("ledger", "anchor")
    assert (published.code, len(published.objects)) == (0, 1)
    ledger_dir.rename(ledger_dir.with_name("away"))
    said = opsguard("ledger", "anchor", "--store", "file")
    assert (said.code, said.out) == (5, "")
    assert "not mounted" in said.err
    assert opsguard("ledger", "anchor", "--check", published.out, "--store", "file").code == 4


def test_a_fifo_is_no_export(opsguard: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "out.jsonl")
    assert opsguard("ledger", "import", "out.jsonl", "--store", "./other").code == 2


@pytest.mark.parametrize("name", ["", "a", "Acme 1", "acme-1:2026"])
def test_a_name_that_nothing_can_have_is_bad_usage(opsguard: Command, name: str) -> None:
    assert opsguard("ledger", "show", name).code == 2


def test_a_retired_store_sends_nothing_any_more(opsguard: Command, ledger_dir: Path) -> None:
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    done = opsguard("ledger", "export", "out.jsonl", "--retire")
    assert done.code == 0, done.err
    with FileLedger.open(ledger_dir) as ledger:
        assert isinstance(ledger.reserve(WEEKLY, pins(WEEKLY), key="run-2"), LedgerRefused)


def test_a_backup_is_taken_while_the_store_is_used_and_sends_nothing_before_a_person_accepts_it(
    opsguard: Command, ledger_dir: Path
) -> None:
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    with FileLedger.open(ledger_dir) as busy:
        held = busy.reserve(WEEKLY, pins(WEEKLY), key="run-2")
        done = opsguard("ledger", "backup", "copy", "--json")
        assert not isinstance(held, LedgerRefused)
    assert done.code == 0, done.err
    status = opsguard("ledger", "status", "--store", "./copy", "--json")
    assert (status.code, status.objects[0]["head"]) == (4, done.objects[0]["head"])
    assert opsguard("ledger", "backup", "copy").code == 2, "a directory with something in it is not taken"
    assert opsguard("ledger", "repair", "--store", "./copy", "--accept-copy", "--yes").code == 0
    assert opsguard("ledger", "status", "--store", "./copy", "--json").objects[0]["counts"] == {"delivered": 1, "unknown": 1}


def test_the_older_layout_is_imported_and_says_what_became_doubtful(opsguard: Command, tmp_path: Path) -> None:
    every_state(tmp_path / "old").write()
    done = opsguard("ledger", "import", "old", "--json")
    assert done.code == 0, done.err
    (said,) = done.objects
    assert said["counts"]["delivered"] == 2
    assert len(said["became_doubtful"]) == 6
    assert "slot_identity" in done.err
    assert opsguard("ledger", "verify", "--json").objects[0]["head"] == said["head"]
    assert opsguard("ledger", "import", "old", "--json").objects == done.objects
    (tmp_path / "old" / "scheduled-deliveries-fence.json").unlink()
    assert opsguard("ledger", "import", "old").code == 3


def test_an_import_of_what_is_not_there_makes_no_store(opsguard: Command, tmp_path: Path) -> None:
    assert opsguard("ledger", "import", "nothing").code == 2
    assert not (tmp_path / "home" / "ledger").exists()


def test_an_import_of_a_file_store_itself_says_how_that_is_done(opsguard: Command, tmp_path: Path) -> None:
    keep(tmp_path / "other", DAILY, delivered({"id": "1"}))
    done = opsguard("ledger", "import", "./other")
    assert done.code == 2
    assert "opsguard ledger export" in done.err


def test_where_two_ledgers_are_in_use_looking_shows_the_file_store_first_and_moving_asks_which(
    opsguard: Command, ledger_dir: Path, tmp_path: Path
) -> None:
    """The database is away: what the files say is said all the same."""
    (tmp_path / "opsguard.toml").write_text(SETTINGS + SPOOL)
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    looked = opsguard("ledger", "status", "--json")
    assert looked.code == 5
    assert looked.objects[0]["counts"] == {"delivered": 1}
    asked = opsguard("ledger", "export", "out.jsonl")
    assert asked.code == 2
    assert "--store postgres" in asked.err
    assert opsguard("ledger", "show", DAILY.key, "--json").objects[0]["state"] == "delivered"
    assert opsguard("ledger", "show", "partner-0123456789abcdef:0123456789abcdef-ab12:feed").code == 5
    assert opsguard("ledger", "status", "--store", "file").code == 0


def test_a_store_that_was_named_and_is_not_there_is_bad_usage(opsguard: Command) -> None:
    assert opsguard("ledger", "status", "--store", "./nowhere").code == 2
    assert opsguard("ledger", "status", "--store", "sqlite").code == 2


def altered_row(directory: Path) -> None:
    (segment,) = (directory / "segments").iterdir()
    segment.write_bytes(segment.read_bytes().replace(b'"acme-1"', b'"acme-2"', 1))


def torn_row(directory: Path) -> None:
    (segment,) = (directory / "segments").iterdir()
    with segment.open("ab") as file:
        file.write(b'{"digest":"')


def test_a_torn_row_is_repaired_only_with_yes(opsguard: Command, ledger_dir: Path) -> None:
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    torn_row(ledger_dir)
    assert opsguard("ledger", "repair", "--yes").code == 0
    assert opsguard("ledger", "verify").code == 0


@pytest.mark.parametrize("damage", [altered_row])
def test_what_cannot_be_repaired_is_named_and_left(opsguard: Command, ledger_dir: Path, damage: Callable[[Path], None]) -> None:
    keep(ledger_dir, DAILY, delivered({"id": "1"}))
    damage(ledger_dir)
    assert opsguard("ledger", "verify").code == 5
    done = opsguard("ledger", "repair", "--yes", "--json")
    assert done.code == 4
    assert done.objects[0]["left"]
