"""The whole flow as a person types it: report, approve, apply, verify, against the sandbox's real servers.

What was written is judged by the disk behind the servers.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsguard_defs.sandbox import Incident, Sandbox, clean_night, incident
from resources.state import StateStore
from tests.contract.state.worlds import by_hand, plan
from tests.contract.state.worlds import report as record
from tests.integration.command import Command

REPORT_KEYS = ["guard", "watch", "plan", "findings", "counts", "gaps", "run_id"]
APPLY_KEYS = ["guard", "watch", "plan_digest", "outcome", "refusal", "receipts", "checks", "not_sent", "run_id"]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    box = Sandbox(tmp_path_factory.mktemp("cli") / "home")
    with box.running():
        yield box


@pytest.fixture
def opsguard(sandbox: Sandbox, tmp_path: Path) -> Command:
    return Command(tmp_path, sandbox.env())


def changed(sandbox: Sandbox, directory: Path, *replacements: tuple[str, str]) -> dict[str, str]:
    """The sandbox's settings with texts replaced, as the variable that names them."""
    text = (
        sandbox.config.read_text()
        .replace('home = "."', f'home = "{sandbox.home}"')
        .replace('"sandbox/', f'"{sandbox.home}/sandbox/')
    )
    for before, after in replacements:
        assert before in text
        text = text.replace(before, after)
    path = directory / "changed.toml"
    path.write_text(text)
    return {"OPSGUARD_CONFIG": str(path)}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def listing(sandbox: Sandbox, watch: str) -> dict[str, str]:
    return {str(path): sha256(path) for place in sandbox.places(watch).all() for path in place.iterdir()}


def test_the_whole_flow_by_hand(opsguard: Command, sandbox: Sandbox) -> None:
    watch = "ftps_demo"
    night = incident(sandbox, watch)
    before = listing(sandbox, watch)

    report = opsguard("report", f"spool/{watch}", "--json")
    assert report.code == 0, report.err
    (said,) = report.objects
    assert list(said) == REPORT_KEYS
    assert list(said["plan"]) == ["digest", "state", "targets"]
    assert {f["subject"]: f["verdict"] for f in said["findings"]} == {name: v.value for name, v in night.expected.items()}
    assert all(list(finding) == ["subject", "verdict", "note", "facts"] and finding["note"] for finding in said["findings"])
    assert said["gaps"] == sum(verdict.is_gap for verdict in night.expected.values())
    assert sum(said["counts"].values()) == len(night.expected)
    digest = said["plan"]["digest"]

    refused = opsguard("apply", digest[:8], "--json")
    assert refused.code == 3, refused.err
    (answer,) = refused.objects
    assert list(answer) == APPLY_KEYS
    assert (answer["plan_digest"], answer["outcome"], answer["refusal"]["code"]) == (digest, "refused", "not_approved")
    assert "not_approved: " in refused.err
    assert listing(sandbox, watch) == before

    assert opsguard("approve", digest[:12], "--by", "Ada L.").code == 0
    applied = opsguard("apply", digest[:12], "--json")
    assert applied.code == 0, applied.err
    (done,) = applied.objects
    assert (done["outcome"], done["refusal"]) == ("applied", None)
    assert {receipt["subject"] for receipt in done["receipts"]} == set(night.to_send)
    assert {(receipt["approved_by"], receipt["plan_digest"]) for receipt in done["receipts"]} == {("Ada L.", digest)}
    assert all(list(check) == ["name", "passed", "severity", "message"] and check["passed"] for check in done["checks"])
    was_repaired(sandbox, night)

    verified = opsguard("verify", f"spool/{watch}", "--json")
    assert verified.code == 0, verified.err
    assert list(verified.objects[0]) == ["guard", "watch", "checks", "run_id"]
    assert {receipt["subject"] for receipt in opsguard("receipts", "--watch", watch, "--json").objects} >= set(night.to_send)

    copy = sandbox.places(watch).inbox / night.to_send[0]
    copy.write_bytes(copy.read_bytes()[:-1])
    broken = opsguard("verify", f"spool/{watch}", "--json")
    assert broken.code == 4, broken.err
    assert [check["name"] for check in broken.objects[0]["checks"] if not check["passed"]]


def was_repaired(sandbox: Sandbox, night: Incident) -> None:
    places = sandbox.places(night.watch)
    for name in night.to_send:
        assert sha256(places.inbox / name) == night.sha256[name]
        assert sha256(places.archive / name) == night.sha256[name]
        assert not (places.outbound / name).exists()


def test_a_plan_of_its_own_policy_is_stopped_whole_by_a_feed_that_changed_after_the_approval(
    opsguard: Command, sandbox: Sandbox
) -> None:
    night = incident(sandbox, "sftp_demo")
    (said,) = opsguard("report", "spool/sftp_demo", "--set", "max_files_per_run=2", "--json").objects
    digest = said["plan"]["digest"]
    assert len(said["plan"]["targets"]) == 2
    assert said["counts"]["over_ceiling"] == len(night.to_send) - 2
    shown = opsguard("plans", "show", digest, "--json").objects[0]
    assert (shown["overrides"], shown["policy"]["max_files_per_run"]) == ({"max_files_per_run": 2}, 2)

    opsguard("approve", digest, "--by", "Ada")
    late = sandbox.places("sftp_demo").outbound / night.to_send[1]
    late.write_bytes(late.read_bytes() + b"one more row\n")
    before = listing(sandbox, "sftp_demo")
    done = opsguard("apply", digest, "--json")
    assert (done.code, done.objects[0]["refusal"]["code"]) == (3, "stale"), done.err
    assert night.to_send[1] in done.err
    assert listing(sandbox, "sftp_demo") == before


def test_the_first_report_of_a_day_forgets_what_is_older_than_retention_days(
    opsguard: Command, sandbox: Sandbox, state_store: StateStore, database_url: str
) -> None:
    for name in ("old-1", "old-2"):
        record(state_store, plan(name), run_id=name)
    by_hand(
        database_url,
        "UPDATE opsguard.reports SET reported_at = reported_at - interval '8 days'",
        "UPDATE opsguard.plans SET recorded_at = recorded_at - interval '8 days'",
    )
    clean_night(sandbox, "ftp_demo")
    asked = {"OPSGUARD_STATE_URL": database_url, "OPSGUARD_RETENTION_DAYS": "7"}

    assert opsguard("report", "spool/ftp_demo", **asked).code == 0

    assert {one.watch for one in state_store.plans()} == {"ftp_demo", plan("old-2").watch}, "the newest of a watch stays"
    assert len(state_store.plans()) == 2


Trouble = tuple[list[tuple[str, str]], dict[str, str], dict[str, str]]


def trouble(sandbox: Sandbox, kind: str) -> Trouble:
    """(replaced settings, environment, what the sentence of each watch in trouble must hold)."""
    running = sandbox.status()
    assert running is not None
    ftp = running.server("partner_ftp")
    match kind:
        case "nobody listens, unknown host key":
            replaced = [
                (f":{ftp.port}/ftp_demo/inbox", ":1/ftp_demo/inbox"),
                (f"{sandbox.home}/sandbox/known_hosts", __file__),
            ]
            return replaced, {}, {"ftp_demo": "partner", "sftp_demo": "SHA256:", "mixed_demo": "SHA256:"}
        case "password, another host key, certificate":
            key = f'partner_host_key = "SHA256:{"A" * 43}"\npartner_known_hosts = '
            authority = f'partner_ca_file = "{sandbox.home}/sandbox/identity/ca.crt"'
            canary = {"OPSGUARD_SPOOL_FTP_DEMO_PARTNER_PASSWORD": "canary"}
            said = {"ftp_demo": "password", "sftp_demo": "SHA256:", "mixed_demo": "SHA256:", "ftps_demo": "certificate"}
            return [("partner_known_hosts = ", key), (authority, "")], canary, said
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["nobody listens, unknown host key", "password, another host key, certificate"])
def test_a_side_that_cannot_be_observed_is_exit_5_and_no_verdict_and_hides_no_other_watch(
    opsguard: Command, sandbox: Sandbox, tmp_path: Path, kind: str
) -> None:
    """The incident: the partner's server was down, its inbox "empty", and 400 feeds were sent again."""
    replaced, environ, said = trouble(sandbox, kind)
    for watch in sandbox.watches:
        incident(sandbox, watch)
    settings = changed(sandbox, tmp_path, *replaced)

    done = opsguard("report", "spool", "--json", **settings, **environ)

    assert done.code == 5, done.err
    sentences = dict(re.findall(r"^spool/(\w+): (.*(?:\n(?!spool/).*)*)", done.err, re.MULTILINE))
    assert set(sentences) == set(said), done.err
    assert [watch for watch, words in said.items() if words.lower() not in sentences[watch].lower()] == []
    failed = {one["watch"]: one for one in done.objects if "error" in one}
    assert [one["watch"] for one in done.objects] == list(sandbox.watches), "one object per watch, failed or not"
    assert set(failed) == set(said)
    for watch, one in failed.items():
        assert sentences[watch].startswith("observation_incomplete: ")
        assert one["error"]["code"] == "observation_incomplete"
        assert (one["plan"], one["findings"], one["counts"], one["gaps"]) == (None, [], {}, 0), watch
    assert "Traceback" not in done.err
    assert "canary" not in done.out + done.err

    doctor = opsguard("doctor", "--json", **settings, **environ)
    assert doctor.code == 5
    broken = {one["where"] for one in doctor.objects if one["health"] == "unreachable"}
    assert broken == {f"spool/{watch}" for watch in said}, "nobody else may be blamed"


def test_doctor_finds_nothing_wrong_with_the_sandbox_and_warns_of_partners_that_take_files_away(
    opsguard: Command, sandbox: Sandbox, tmp_path: Path
) -> None:
    profile = "partner_profile = {allow_cleartext = true"
    settings = changed(sandbox, tmp_path, (profile, f"{profile}, consumes_on_arrival = true"))
    done = opsguard("doctor", "--json", **settings)

    assert done.code == 0, done.out
    assert {one["health"] for one in done.objects} <= {"ok", "note"}
    assert any(one["check"] == "partner connection" and "SHA256:" in one["message"] for one in done.objects)
    assert [one["where"] for one in done.objects if one["check"] == "partner consumes"] == ["spool/ftp_demo"]
    assert opsguard("doctor", "--guard", "lake").code == 2


def test_doctor_in_an_empty_directory_only_looks(tmp_path: Path) -> None:
    """It made a home and started a database there."""
    done = Command(tmp_path, {})("doctor", "--json")

    assert done.code == 2
    said = {one["check"]: (one["health"], one["message"]) for one in done.objects}
    assert said["state store"][0] == said["Dagster instance"][0] == "note"
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_what_is_not_set_up(tmp_path: Path, database_url: str) -> None:
    opsguard = Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home"), "OPSGUARD_STATE_URL": database_url})
    nothing = opsguard("doctor", "--json")
    (tmp_path / "opsguard.toml").write_text(opsguard("init", "spool", "acme").out)
    unfinished = opsguard("doctor", "--json")

    assert nothing.code == unfinished.code == 2
    assert "opsguard init spool NAME" in next(one["message"] for one in nothing.objects if one["check"] == "settings")
    assert "opsguard.toml: 1 watch; " in next(one["message"] for one in unfinished.objects if one["check"] == "settings")
    wrong = [one["message"] for one in unfinished.objects if one["health"] == "misconfigured"]
    assert "source_password: set OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD in the environment" in wrong


def test_the_sandbox_is_told_to_other_clients(opsguard: Command, sandbox: Sandbox) -> None:
    status = opsguard("sandbox", "status", "--json")
    variables = opsguard("sandbox", "env", "--json")

    assert status.code == variables.code == 0
    assert all(server["running"] for server in status.objects[0]["servers"])
    assert variables.objects[0]["OPSGUARD_CONFIG"] == str(sandbox.config)
    repairable = opsguard("sandbox", "incident", "ftp_demo", "--repairable", "--json").objects[0]
    assert sorted(repairable["expected"].values()) == ["delivered_size_only", "missing", "missing", "short_delivery"]
    played = opsguard("sandbox", "incident", "ftp_demo", "--clean", "--json").objects[0]
    assert set(played["expected"].values()) == {"delivered_size_only"}


def test_without_a_sandbox_its_commands_say_so(tmp_path: Path) -> None:
    opsguard = Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home")})

    assert opsguard("sandbox", "status").code == 5
    assert opsguard("sandbox", "env").code == 5
    assert opsguard("sandbox", "incident", "ftp_demo").code == 5
    assert opsguard("sandbox", "down", "--json").objects == [{"stopped": False}]


def test_the_demo_plays_both_routes_and_ends_with_equal_digests(tmp_path: Path) -> None:
    opsguard = Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home")})
    dropped = Sandbox(tmp_path / "home").places("ftp_demo").outbound / "by_hand.csv"
    dropped.parent.mkdir(parents=True)
    dropped.write_text("dropped by hand last week")
    os.utime(dropped, (0, 0))
    done = opsguard("demo", "--guard", "spool", "--json")

    assert done.code == 0, done.err
    assert [one["watch"] for one in done.objects] == ["ftp_demo", "sftp_demo"]
    for one in done.objects:
        assert [step["step"] for step in one["steps"]] == list("abcdefgh")
        assert len(one["feeds"]) == 3
        assert all(feed["archive_sha256"] == feed["partner_sha256"] for feed in one["feeds"])
    (aside,) = (tmp_path / "home" / "sandbox" / "set_aside").glob("ftp_demo-*/outbound/by_hand.csv")
    assert aside.read_text() == "dropped by hand last week"
    assert opsguard("sandbox", "status").code == 5, "the demo leaves no server behind"
