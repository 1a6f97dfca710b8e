"""Plans, decisions and receipts on the command line, over a real state database."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from guards.decision import DecisionKind
from guards.finding import Finding
from guards.plan import Plan
from guards.spool.planning import SpoolTarget
from guards.spool.policy import SpoolPolicy
from guards.spool.ruling import SpoolAction
from guards.spool.verdict import SpoolVerdict
from guards.spool.world import SpoolWorld
from resources.state import StateStore
from tests.integration.command import Command

HOSTILE = [
    "line\nbreak.csv",
    "\x1b]0;owned\x07\x1b[2J.csv",
    "-rf.csv",
    "gnp.\u202evsc.exe",
    "raw\udcff\udcfe.csv",
    "[bold red]markup[/].csv",
    "<!channel> *slack*.csv",
    "\x9b31mcsi.csv",
    "a" * 255,
]


def target(name: str = "stock.csv") -> SpoolTarget:
    return SpoolTarget(name=name, action=SpoolAction.SEND, size_bytes=1234, modified_at=None, sha256="ab" * 32, partner=None)


def plan(
    *targets: SpoolTarget, findings: tuple[Finding, ...] = (), watch: str = "acme", observation: str = ""
) -> Plan[SpoolWorld]:
    return Plan(
        guard="spool",
        watch=watch,
        scope={"source": {"host": "handoff.example"}},
        policy=SpoolPolicy(approval_timeout_minutes=30).as_json(),
        targets=targets,
        findings=findings or tuple(Finding(one.name, SpoolVerdict.MISSING, "the partner has no copy") for one in targets),
        observation=observation,
    )


@pytest.fixture
def opsguard(tmp_path: Path, database_url: str) -> Command:
    return Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home"), "OPSGUARD_STATE_URL": database_url})


def test_a_plan_is_listed_shown_approved_and_its_decision_seen(opsguard: Command, state_store: StateStore) -> None:
    stored = state_store.record_report(plan(target()), run_id="run-1", overrides={})

    assert opsguard("plans", "list").out.count(stored.digest[:12]) == 1
    listed = opsguard("plans", "--json").objects
    assert [(p["digest"], p["state"], p["gaps"]) for p in listed] == [(stored.digest, "waiting", 1)]

    approved = opsguard("approve", stored.digest[:8], "--by", "Ada L.", "--comment", "checked", "--json")
    assert approved.code == 0
    decision = approved.objects[0]["decision"]
    assert (decision["plan_digest"], decision["kind"], decision["by"], decision["comment"]) == (
        stored.digest,
        "approved",
        "Ada L.",
        "checked",
    )

    shown = opsguard("plans", "show", stored.digest, "--json").objects[0]
    assert (shown["state"], shown["findings"][0]["verdict"], shown["decisions"][0]["channel"]) == ("approved", "missing", "cli")


def test_an_approval_holds_as_long_as_the_plan_says_unless_told_otherwise(opsguard: Command, state_store: StateStore) -> None:
    usual = state_store.record_report(plan(target()), run_id="run-1", overrides={})
    longer = state_store.record_report(plan(target("other.csv")), run_id="run-2", overrides={})
    opsguard("approve", usual.digest, "--by", "Ada")
    opsguard("approve", longer.digest, "--by", "Ada", "--valid-for", "2d")

    held = [state_store.decision(one.digest) for one in (usual, longer)]
    assert [one.valid_until - one.decided_at for one in held if one] == [timedelta(minutes=30), timedelta(days=2)]


@pytest.mark.parametrize(
    ("digest", "said"),
    [("0123456", "too few"), ("0" * 64, "no recorded plan begins"), ("xyz", "not a plan digest")],
)
def test_a_digest_that_names_no_plan_is_refused(opsguard: Command, digest: str, said: str) -> None:
    for command in (["approve", digest, "--by", "Ada"], ["apply", digest], ["plans", "show", digest]):
        done = opsguard(*command)

        assert done.code == 3, done.err
        assert said in done.err


def test_an_ambiguous_prefix_is_refused(opsguard: Command, state_store: StateStore) -> None:
    """Two plans with the same first 8 digits are too rare to find; the shortest prefix that is refused for itself is 7 digits."""
    stored = state_store.record_report(plan(target()), run_id="run-1", overrides={})

    assert opsguard("approve", stored.digest[:7], "--by", "Ada").code == 3
    assert opsguard("approve", stored.digest[:8].upper(), "--by", "Ada").code == 0


def test_a_standing_decline_refuses_an_approval(opsguard: Command, state_store: StateStore) -> None:
    stored = state_store.record_report(plan(target()), run_id="run-1", overrides={})
    assert opsguard("decline", stored.digest, "--by", "Bea").code == 0
    done = opsguard("approve", stored.digest, "--by", "Ada", "--json")

    assert done.code == 3
    assert done.objects[0]["refusal"]["code"] == "declined"
    assert done.objects[0]["decision"] is None
    governing = state_store.decision(stored.digest)
    assert governing is not None
    assert governing.kind is DecisionKind.DECLINED


def test_a_declined_plan_says_until_when_and_a_superseded_one_that_there_is_a_newer(
    opsguard: Command, state_store: StateStore
) -> None:
    """ "Report again" made the same declined plan for ever."""
    old, new = plan(target("old.csv"), watch="later"), plan(target("new.csv"), watch="later")
    for one in (old, new):
        state_store.record_report(one, run_id="r", overrides={})
    approved = opsguard("approve", old.digest, "--by", "Ada")
    declined = opsguard("decline", new.digest, "--by", "Grace")

    assert approved.code == 0
    assert f"a newer report made plan {new.short}" in approved.err
    assert declined.err == ""
    until = declined.out.strip().partition(" until ")[2]
    assert f"declined by Grace until {until}: it cannot be approved before then" in opsguard("plans", "show", new.digest).out


def test_a_plan_without_targets_is_nothing_to_do(opsguard: Command, state_store: StateStore) -> None:
    stored = state_store.record_report(plan(), run_id="run-1", overrides={})
    done = opsguard("approve", stored.digest, "--by", "Ada")

    assert done.code == 0
    assert "nothing_to_do" in done.err


def test_a_plan_of_a_watch_that_is_gone_is_exit_2(opsguard: Command, state_store: StateStore) -> None:
    stored = state_store.record_report(plan(target(), watch="gone"), run_id="run-1", overrides={})
    done = opsguard("apply", stored.digest)

    assert done.code == 2
    assert "no watch 'spool/gone'" in done.err


@pytest.mark.parametrize("command", [["plans", "show"], ["plans", "list"]])
def test_hostile_names_act_on_no_terminal(opsguard: Command, state_store: StateStore, command: list[str]) -> None:
    """The incident: a partner's file name cleared the operator's screen and drew "0 gaps" on it."""
    findings = tuple(Finding(name, SpoolVerdict.NAME_UNSAFE, f"the name {name} is unsafe") for name in HOSTILE)
    stored = state_store.record_report(plan(target(), findings=findings), run_id="run-1", overrides={})
    arguments = [*command, *([stored.digest] if command[-1] == "show" else [])]

    code, seen = opsguard.on_a_terminal(*arguments)
    piped = opsguard(*arguments)

    assert code == piped.code == 0
    without_colour = re.sub(rb"\x1b\[[0-9;]*m", b"", seen)
    for dangerous in (b"\x1b", b"\x07", "\u202e".encode(), b"\xc2\x9b", b"\xff"):
        assert dangerous not in without_colour
        assert dangerous.decode("latin-1") not in piped.out
    if command[-1] == "show":
        assert "line\\nbreak.csv" in piped.out
        assert "[bold red]markup[/].csv" in piped.out


def test_json_gives_hostile_names_back_exactly(opsguard: Command, state_store: StateStore) -> None:
    findings = tuple(Finding(name, SpoolVerdict.NAME_UNSAFE, "unsafe") for name in HOSTILE)
    stored = state_store.record_report(plan(findings=findings), run_id="run-1", overrides={})
    done = opsguard("plans", "show", stored.digest, "--json")

    assert done.out.isascii()
    assert [finding["subject"] for finding in done.objects[0]["findings"]] == HOSTILE


def test_output_for_an_ascii_terminal_stays_ascii(opsguard: Command, state_store: StateStore) -> None:
    findings = (Finding("b\u00fccher.csv", SpoolVerdict.NOT_DELIVERABLE, "no full match"),)
    stored = state_store.record_report(plan(target(), findings=findings), run_id="run-1", overrides={})
    done = opsguard("plans", "show", stored.digest, PYTHONUTF8="0", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONCOERCECLOCALE="0")

    assert done.code == 0, done.err
    assert "b\\u00fccher.csv" in done.out
    assert done.out.isascii()


def test_nothing_recorded_is_said(opsguard: Command) -> None:
    assert "no plans yet" in opsguard("plans").out
    assert "nothing has been written yet" in opsguard("receipts").out
    assert opsguard("receipts", "--json").objects == []
    assert opsguard("alerts", "--json").objects == [{"counts": {}, "waiting": [], "in_doubt": []}]


def test_a_state_database_that_is_away_is_exit_5(opsguard: Command) -> None:
    url = "postgresql://nobody:canary@127.0.0.1:9/none"
    done = opsguard("plans", OPSGUARD_STATE_URL=url)

    assert done.code == 5
    assert "canary" not in done.err
    assert "Traceback" not in done.err


def test_a_report_without_a_state_database_is_exit_5_and_one_sentence(opsguard: Command, tmp_path: Path) -> None:
    """It was exit 1 and a page of Dagster's retries."""
    url = "postgresql://nobody:canary@127.0.0.1:9/none"
    cleartext = "{allow_cleartext = true}"
    (tmp_path / "opsguard.toml").write_text(
        '[[watch]]\nguard = "spool"\nname = "acme"\nsource = "ftp://a@127.0.0.1:9/out"\narchive = "/done"\n'
        f'partner = "ftp://b@127.0.0.1:9/in"\nsource_profile = {cleartext}\npartner_profile = {cleartext}\n'
    )
    secrets = {f"OPSGUARD_SPOOL_ACME_{side}_PASSWORD": "x" for side in ("SOURCE", "PARTNER")}
    done = opsguard("report", "spool", "--json", OPSGUARD_STATE_URL=url, **secrets)

    assert done.code == 5, done.err
    (found,) = done.objects
    assert (found["watch"], found["plan"], found["error"]["code"]) == ("acme", None, "unreachable")
    assert len(done.err.strip().splitlines()) == 1, done.err
    assert "canary" not in done.err


def test_waiting_alerts_are_listed_and_sent_to_the_log_without_slack(opsguard: Command, state_store: StateStore) -> None:
    state_store.outbox.enqueue("plan:1", {"key": "plan:1", "event_type": "opsguard_plan", "text": "3 gaps\x1b[2J", "blocks": []})

    assert [row["status"] for row in opsguard("alerts", "--json").objects[0]["waiting"]] == ["queued"]
    sent = opsguard("alerts", "--send")
    assert sent.code == 0
    assert "\x1b" not in sent.out + sent.err
    assert opsguard("alerts", "--json").objects[0] == {"counts": {"sent": 1}, "waiting": [], "in_doubt": []}


def test_a_backup_goes_into_an_empty_state_and_nowhere_else(opsguard: Command, state_store: StateStore, tmp_path: Path) -> None:
    """Into the embedded database of another home, without any other program."""
    stored = state_store.record_report(plan(target()), run_id="run-1", overrides={})
    opsguard("approve", stored.digest, "--by", "Ada")
    made = opsguard("state", "backup", "all.jsonl", "--json")

    assert made.code == 0, made.err
    assert (tmp_path / "all.jsonl").stat().st_mode & 0o077 == 0
    assert opsguard("state", "backup", "all.jsonl").code == 2, "a file that exists is not replaced"
    assert opsguard("state", "restore", "all.jsonl").code == 2, "the store is not empty"
    elsewhere = {"OPSGUARD_HOME": str(tmp_path / "elsewhere"), "OPSGUARD_STATE_URL": ""}
    restored = opsguard("state", "restore", "all.jsonl", "--json", **elsewhere)
    assert restored.code == 0, restored.err
    assert restored.objects[0]["sha256"] == made.objects[0]["sha256"]
    assert [p["state"] for p in opsguard("plans", "--json", **elsewhere).objects] == ["approved"]
    assert opsguard("ledger", "verify", **elsewhere).code == 0


def test_the_ledger_is_shown_and_bad_slots_are_refused(opsguard: Command) -> None:
    assert opsguard("ledger", "status", "--json").objects[0]["counts"] == {}
    assert opsguard("ledger", "show", "partner-0123456789abcdef", "--json").objects == []
    refused = opsguard("ledger", "show", "a:b:c:d")
    assert refused.code == 2
    assert "customer:period:kind" in refused.err


def test_pruning_keeps_what_is_young(opsguard: Command, state_store: StateStore) -> None:
    stored = state_store.record_report(plan(target()), run_id="run-1", overrides={})

    assert opsguard("state", "prune", "--json").objects == [{"days": 90, "reports": 0, "plans": 0, "alerts": 0}]
    assert opsguard("state", "prune", "--days", "0").code == 2
    assert opsguard("plans", "show", stored.digest).code == 0
