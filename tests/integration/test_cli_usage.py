"""The command line before it contacts anything: help, usage, settings, and what a pipe or a terminal gets."""

import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from opsguard_defs.cli.app import app
from opsguard_defs.settings import load_settings
from tests.integration.command import PROJECT, Command

ESCAPE = "\x1b"


def leaves(command: object, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    """Every command that does something, with the words that call it."""
    children = getattr(command, "commands", None)
    if not children:
        return [(path, command)]
    return [leaf for name, child in sorted(children.items()) for leaf in leaves(child, (*path, name))]


LEAVES = leaves(get_command(app))


@pytest.fixture
def opsguard(tmp_path: Path) -> Command:
    return Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home")})


@pytest.mark.fast
@pytest.mark.parametrize("group", ["sandbox", "state", "ledger", "spool", "plans"])
def test_every_group_has_an_example(group: str) -> None:
    epilog = get_command(app).commands[group].epilog  # type: ignore[attr-defined]

    assert epilog.startswith(f"Example: opsguard {group} ")


def test_a_script_that_asks_for_json_gets_an_object_for_bad_usage_too(opsguard: Command) -> None:
    for arguments, code in ((["report", "--json"], "usage"), (["report", "lake", "--json"], "configuration")):
        done = opsguard(*arguments)
        (said,) = done.objects
        assert done.code == 2
        assert said["error"]["code"] == code
        assert said["error"]["message"] in done.err


@pytest.mark.fast
@pytest.mark.parametrize(("words", "command"), LEAVES, ids=[" ".join(words) for words, _ in LEAVES])
def test_every_command_has_json_help_and_an_example(words: tuple[str, ...], command: object) -> None:
    options = [option for parameter in command.params for option in parameter.opts]  # type: ignore[attr-defined]

    assert "--json" in options
    assert command.help  # type: ignore[attr-defined]
    assert command.epilog.startswith("Example: ")  # type: ignore[attr-defined]
    assert f"opsguard {' '.join(words)}" in command.epilog  # type: ignore[attr-defined]


def test_help_imports_neither_dagster_nor_a_database(opsguard: Command) -> None:
    """The incident: tab completion took four seconds, and everybody typed digests by hand."""
    probe = (
        "import sys; from opsguard_defs.cli.run import run; run(['--help']); "
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'dagster', 'sqlalchemy', 'paramiko', 'pydantic'}))"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=PROJECT, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


def test_help_is_the_same_on_a_pipe_and_has_no_escapes(opsguard: Command) -> None:
    done = opsguard("--help")

    assert done.code == 0
    assert ESCAPE not in done.out
    assert "Exit codes: 0 done or nothing to do" in done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reprot"], "No such command"),
        (["report"], "Missing argument"),
        (["report", "spool", "--jsn"], "No such option"),
        (["approve", "0123456789ab"], "Missing option"),
        (["approve", "0123456789ab", "--by", "x" * 121], "--by must be 1 to 120 printable characters"),
        (["approve", "0123456789ab", "--by", "a\x1b[31mb"], "--by must be 1 to 120 printable characters"),
        (["approve", "0123456789ab", "--by", "Ada", "--valid-for", "0h"], "--valid-for must be"),
        (["approve", "0123456789ab", "--by", "Ada", "--valid-for", "91d"], "from 1m to 90d"),
        (["approve", "0123456789ab", "--by", "Ada", "--comment", "x" * 2001], "--comment may have 2000"),
        (["report", "lake"], "unknown guard 'lake': known are spool"),
        (["report", "spool"], "no watch 'spool'"),
        (["init", "lake", "x"], "no block for guard 'lake'"),
        (["init", "spool", "Acme"], "NAME must be lower-case letters"),
        (["init", "spool", "../x"], "NAME must be lower-case letters"),
        (["sandbox", "incident", "nope"], "the sandbox has no watch 'nope'"),
        (["plans", "list", "--limit", "0"], "greater than or equal to 1"),
    ],
)
def test_bad_usage_is_exit_2_and_one_sentence(opsguard: Command, tmp_path: Path, arguments: list[str], said: str) -> None:
    done = opsguard(*arguments)

    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert ESCAPE not in done.err
    assert done.out == ""
    assert not (tmp_path / "home" / "postgres").exists()


def test_bad_settings_are_exit_2_and_contact_nobody(opsguard: Command, tmp_path: Path) -> None:
    """The incident: the run with the misspelt key had already logged in when it noticed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        (tmp_path / "opsguard.toml").write_text(
            f"""
            [[watch]]
            guard = "spool"
            name = "acme"
            source = "ftp://feeds@127.0.0.1:{port}/outbound"
            archive = "/archive"
            partner = "ftp://acme:canary@127.0.0.1:{port}/inbox"
            source_profile = {{allow_cleartext = true}}
            policy = {{sla_minuts = 60}}
            """
        )
        for command in (["report", "spool/acme"], ["verify", "spool"], ["doctor"], ["apply", "0123456789ab"]):
            done = opsguard(*command, OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD="canary")

            assert done.code == 2, done.err
            assert "watch acme: policy.sla_minuts: unknown key; did you mean sla_minutes?" in done.err
            assert "watch acme: partner: a password in a URL is refused" in done.err
            assert str(tmp_path / "opsguard.toml") in done.err
            assert "canary" not in done.out + done.err
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_bad_override_is_exit_2_before_anything_is_contacted(opsguard: Command, tmp_path: Path) -> None:
    (tmp_path / "opsguard.toml").write_text(opsguard("init", "spool", "acme").out)
    done = opsguard("report", "spool/acme", "--set", "sla_minutes=-1", "--set", "max_file_megabyte=3")

    assert done.code == 2
    assert "--set sla_minutes: must be a whole number from 0 to 525600" in done.err
    assert "--set max_file_megabyte: unknown field; did you mean max_file_megabytes?" in done.err


def test_missing_secrets_and_files_are_exit_2_and_named(opsguard: Command, tmp_path: Path) -> None:
    (tmp_path / "opsguard.toml").write_text(opsguard("init", "spool", "acme").out)
    done = opsguard("report", "spool/acme")

    assert done.code == 2
    assert "set OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD in the environment" in done.err
    assert f"there is no file {tmp_path / 'known_hosts'}" in done.err


def test_init_prints_a_block_that_the_settings_accept(opsguard: Command, tmp_path: Path) -> None:
    done = opsguard("init", "spool", "acme")
    (tmp_path / "opsguard.toml").write_text(done.out + opsguard("init", "spool", "zenith").out)

    assert [block["name"] for block in tomllib.loads((tmp_path / "opsguard.toml").read_text())["watch"]] == ["acme", "zenith"]
    settings = load_settings(tmp_path / "opsguard.toml", {})
    assert [watch.name for watch in settings.watches] == ["acme", "zenith"]
    assert opsguard("init", "spool", "acme", "--json").objects[0]["toml"].strip() == done.out.strip()


def test_commented_lines_of_the_block_are_keys_that_exist(tmp_path: Path, opsguard: Command) -> None:
    """The incident: the example showed a key that had been renamed, and everybody copied it."""
    text = opsguard("init", "spool", "acme").out
    opened = re.sub(
        r"(?m)^# (?=(?:\w+_env|source_key|partner_key|source_host_key|partner_known_hosts|partner_ca_file|"
        r"source_profile|partner_profile|owners|nightly_cron)\s*=)",
        "",
        text,
    )
    opened = opened.replace('"SHA256:..."', f'"SHA256:{"A" * 43}"')
    (tmp_path / "opsguard.toml").write_text(opened)

    assert opened != text
    assert load_settings(tmp_path / "opsguard.toml", {}).watches[0].name == "acme"


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """`opsguard init spool x | true` must not end in a traceback."""
    program = subprocess.run(
        ["bash", "-c", f'{sys.executable} -m opsguard_defs init spool acme | true; echo "${{PIPESTATUS[0]}}"'],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert program.stderr == ""
    assert program.stdout.strip() in {"0", "141"}


def test_completion_can_be_printed(opsguard: Command) -> None:
    """For a shell by name: which one is around us depends on who runs the tests (below `sh` there is none that completes)."""
    done = opsguard("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")

    assert done.code == 0, done.err
    assert "complete -o default -F" in done.out
    assert "_OPSGUARD_COMPLETE=complete_bash" in done.out


def test_a_shell_that_cannot_complete_is_said_without_a_traceback(opsguard: Command) -> None:
    done = opsguard("--show-completion")

    assert done.code in {0, 1}
    assert "Traceback" not in done.err
    assert done.code == 0 or done.err


def test_completion_knows_the_commands(opsguard: Command) -> None:
    done = opsguard(_OPSGUARD_COMPLETE="complete_bash", COMP_WORDS="opsguard app", COMP_CWORD="1")

    assert done.out.split() == ["approve", "apply"] or set(done.out.split()) == {"approve", "apply"}


def test_no_color_is_respected_on_a_terminal(opsguard: Command) -> None:
    _, plain = opsguard.on_a_terminal("report", "--help", NO_COLOR="1")
    _, coloured = opsguard.on_a_terminal("report", "--help")
    colour = re.compile(rb"\x1b\[[0-9;]*3[0-9][0-9;]*m")

    assert colour.search(coloured)
    assert not colour.search(plain)


def test_a_home_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "file" / "home")})("plans")

    assert done.code in {2, 5}
    assert "Traceback" not in done.err
    assert "file/home" in done.err or "OPSGUARD_HOME" in done.err
