"""The whole flow as a person types it: report, approve, apply, verify, against the sandbox's real servers.

What was written is judged by the disk behind the servers.
"""

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsguard_defs.sandbox import Incident, Sandbox, incident
from tests.integration.command import Command

REPORT_KEYS = ["guard", "watch", "plan", "findings", "counts", "gaps", "run_id"]
APPLY_KEYS = ["guard", "watch", "plan_digest", "outcome", "refusal", "receipts", "checks", "run_id"]


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


@pytest.mark.parametrize("watch", ["ftp_demo", "sftp_demo"])
def test_the_whole_flow_by_hand(opsguard: Command, sandbox: Sandbox, watch: str) -> None:
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

    again = opsguard("apply", digest, "--json")
    assert (again.code, again.objects[0]["refusal"]["code"]) == (3, "already_used")

    verified = opsguard("verify", f"spool/{watch}", "--json")
    assert verified.code == 0, verified.err
    assert list(verified.objects[0]) == ["guard", "watch", "checks", "run_id"]
    assert {receipt["subject"] for receipt in opsguard("receipts", "--watch", watch, "--json").objects} >= set(night.to_send)


def was_repaired(sandbox: Sandbox, night: Incident) -> None:
    places = sandbox.places(night.watch)
    for name in night.to_send:
        assert sha256(places.inbox / name) == night.sha256[name]
        assert sha256(places.archive / name) == night.sha256[name]
        assert not (places.outbound / name).exists()


def test_a_feed_that_changed_after_the_approval_stops_the_whole_plan(opsguard: Command, sandbox: Sandbox) -> None:
    night = incident(sandbox, "mixed_demo")
    (said,) = opsguard("report", "spool/mixed_demo", "--json").objects
    opsguard("approve", said["plan"]["digest"], "--by", "Ada")
    late = sandbox.places("mixed_demo").outbound / night.to_send[-1]
    late.write_bytes(late.read_bytes() + b"one more row\n")
    before = listing(sandbox, "mixed_demo")

    done = opsguard("apply", said["plan"]["digest"], "--json")

    assert (done.code, done.objects[0]["refusal"]["code"]) == (3, "stale"), done.err
    assert night.to_send[-1] in done.err
    assert listing(sandbox, "mixed_demo") == before


def test_a_partner_copy_that_changed_after_the_repair_fails_the_verification(opsguard: Command, sandbox: Sandbox) -> None:
    night = incident(sandbox, "ftps_demo")
    (said,) = opsguard("report", "spool/ftps_demo", "--json").objects
    opsguard("approve", said["plan"]["digest"], "--by", "Ada")
    assert opsguard("apply", said["plan"]["digest"]).code == 0
    was_repaired(sandbox, night)
    copy = sandbox.places("ftps_demo").inbox / night.to_send[0]
    copy.write_bytes(copy.read_bytes()[:-1])

    done = opsguard("verify", "spool/ftps_demo", "--json")

    assert done.code == 4, done.err
    assert [check["name"] for check in done.objects[0]["checks"] if not check["passed"]]


def test_a_policy_field_set_for_one_run_stays_with_its_plan(opsguard: Command, sandbox: Sandbox) -> None:
    night = incident(sandbox, "ftp_demo")
    (said,) = opsguard("report", "spool/ftp_demo", "--set", "max_files_per_run=1", "--json").objects

    assert len(said["plan"]["targets"]) == 1
    assert said["counts"]["over_ceiling"] == len(night.to_send) - 1
    shown = opsguard("plans", "show", said["plan"]["digest"], "--json").objects[0]
    assert (shown["overrides"], shown["policy"]["max_files_per_run"]) == ({"max_files_per_run": 1}, 1)


def trouble(sandbox: Sandbox, kind: str) -> tuple[str, list[tuple[str, str]], dict[str, str], str]:
    """(watch, replaced settings, environment, what the sentence must hold)."""
    running = sandbox.status()
    assert running is not None
    ftp = running.server("partner_ftp")
    with socket.create_server(("127.0.0.1", 0)) as closing:
        nobody = closing.getsockname()[1]
    key = f'partner_host_key = "SHA256:{"A" * 43}"\npartner_known_hosts = '
    match kind:
        case "password":
            return "ftp_demo", [], {"OPSGUARD_SPOOL_FTP_DEMO_PARTNER_PASSWORD": "canary"}, "partner"
        case "nobody listens":
            return "ftp_demo", [(f":{ftp.port}/ftp_demo/inbox", f":{nobody}/ftp_demo/inbox")], {}, "partner"
        case "no such directory":
            return "sftp_demo", [("/sftp_demo/outbound-archive", "/sftp_demo/nowhere")], {}, "/sftp_demo/nowhere"
        case "another host key":
            return "sftp_demo", [("partner_known_hosts = ", key)], {}, "SHA256:"
        case "unknown host key":
            return "sftp_demo", [(f"{sandbox.home}/sandbox/known_hosts", __file__)], {}, "SHA256:"
        case "certificate":
            return "ftps_demo", [(f'partner_ca_file = "{sandbox.home}/sandbox/identity/ca.crt"', "")], {}, "certificate"
    raise AssertionError(kind)


@pytest.mark.parametrize(
    "kind", ["password", "nobody listens", "no such directory", "another host key", "unknown host key", "certificate"]
)
def test_a_side_that_cannot_be_observed_is_exit_5_and_no_verdict(
    opsguard: Command, sandbox: Sandbox, tmp_path: Path, kind: str
) -> None:
    """The incident: the partner's server was down, its inbox "empty", and 400 feeds were sent again."""
    watch, replacements, environ, said = trouble(sandbox, kind)
    incident(sandbox, watch)
    settings = changed(sandbox, tmp_path, *replacements)

    done = opsguard("report", f"spool/{watch}", "--json", **settings, **environ)

    assert done.code == 5, done.err
    assert said.lower() in done.err.lower()
    assert '"missing"' not in done.out
    assert "Traceback" not in done.err
    assert "canary" not in done.out + done.err

    doctor = opsguard("doctor", "--json", **settings, **environ)
    assert doctor.code == 5
    broken = {one["where"] for one in doctor.objects if one["health"] == "unreachable"}
    assert f"spool/{watch}" in broken
    assert broken <= {f"spool/{watch}", "spool/mixed_demo"}, "mixed_demo shares the SFTP partner; nobody else may be blamed"


def test_one_watch_out_of_reach_does_not_hide_the_others(opsguard: Command, sandbox: Sandbox, tmp_path: Path) -> None:
    incident(sandbox, "ftp_demo")
    settings = changed(sandbox, tmp_path, ("/sftp_demo/outbound-archive", "/sftp_demo/nowhere"))

    done = opsguard("report", "spool", "--json", **settings)

    assert done.code == 5
    assert [said["watch"] for said in done.objects] == ["ftp_demo", "mixed_demo", "ftps_demo"]
    assert "spool/sftp_demo: " in done.err


def test_doctor_finds_nothing_wrong_with_the_sandbox(opsguard: Command) -> None:
    done = opsguard("doctor", "--json")

    assert done.code == 0, done.out
    assert {one["health"] for one in done.objects} <= {"ok", "note"}
    assert any(one["check"] == "partner connection" and "SHA256:" in one["message"] for one in done.objects)
    assert opsguard("doctor", "--guard", "lake").code == 2


def test_doctor_says_what_is_not_set_up(tmp_path: Path, database_url: str) -> None:
    opsguard = Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home"), "OPSGUARD_STATE_URL": database_url})
    nothing = opsguard("doctor", "--json")
    (tmp_path / "opsguard.toml").write_text(opsguard("init", "spool", "acme").out)
    unfinished = opsguard("doctor", "--json")

    assert nothing.code == unfinished.code == 2
    assert "opsguard init spool NAME" in next(one["message"] for one in nothing.objects if one["check"] == "settings")
    wrong = [one["message"] for one in unfinished.objects if one["health"] == "misconfigured"]
    assert "source_password: set OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD in the environment" in wrong


def test_the_sandbox_is_told_to_other_clients(opsguard: Command, sandbox: Sandbox) -> None:
    status = opsguard("sandbox", "status", "--json")
    variables = opsguard("sandbox", "env", "--json")

    assert status.code == variables.code == 0
    assert all(server["running"] for server in status.objects[0]["servers"])
    assert variables.objects[0]["OPSGUARD_CONFIG"] == str(sandbox.config)
    played = opsguard("sandbox", "incident", "ftp_demo", "--clean", "--json").objects[0]
    assert set(played["expected"].values()) == {"delivered_size_only"}


def test_without_a_sandbox_its_commands_say_so(tmp_path: Path) -> None:
    opsguard = Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home")})

    assert opsguard("sandbox", "status").code == 5
    assert opsguard("sandbox", "env").code == 5
    assert opsguard("sandbox", "incident", "ftp_demo").code == 5
    assert opsguard("sandbox", "down", "--json").objects == [{"stopped": False}]


def test_the_demo_plays_every_route_and_ends_with_equal_digests(tmp_path: Path) -> None:
    opsguard = Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home")})
    done = opsguard("demo", "--all-routes", "--json")

    assert done.code == 0, done.err
    assert [one["watch"] for one in done.objects] == ["ftp_demo", "sftp_demo", "mixed_demo", "ftps_demo"]
    for one in done.objects:
        assert [step["step"] for step in one["steps"]] == list("abcdefgh")
        assert len(one["feeds"]) == 3
        assert all(feed["archive_sha256"] == feed["partner_sha256"] for feed in one["feeds"])
    assert opsguard("sandbox", "status").code == 5, "the demo leaves no server behind"
