"""The documentation names what the code has, and nothing that it has not.

A runbook without the refusal that somebody just got, or with a command that was renamed since, costs the most when it is needed most.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.main import get_command

from assets.plan_page import DECISION_CHECK
from assets.spool_checks import CHECKS
from guards.refusal import RefusalCode
from guards.spool.policy import SpoolPolicy
from guards.spool.verdict import SpoolVerdict
from opsguard_defs.cli.app import app
from opsguard_defs.cli.exits import Exit
from opsguard_defs.settings.model import Settings, SlackSettings
from opsguard_defs.settings.secrets import secret_variable
from opsguard_defs.settings.spool_watch import SpoolWatch
from resources.file_servers.endpoint import Profile
from resources.spool.prove_delivered import NAME as READ_BACK
from resources.spool.sent import Outcome
from resources.spool.steps import Step

pytestmark = pytest.mark.fast

TOP: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [
    TOP / "README.md",
    TOP / "CHANGELOG.md",
    *sorted((TOP / "docs").rglob("*.md")),
    *sorted((TOP / "deploy").glob("*.md")),
]
WRITTEN: Final = [*PAGES, *(path for path in sorted((TOP / "deploy").iterdir()) if path.suffix != ".md")]
PICTURES: Final = {f"docs/pictures/{name}.png" for name in ("1-lineage-and-plan", "2-check", "3-launchpad-filled-in", "4-after")}
"""Taken by the browser test; a checkout may be older than they are."""


def page(name: str) -> str:
    return (TOP / name).read_text(encoding="utf-8")


def rows(text: str) -> dict[str, str]:
    """First cell of each table row, without its code quotes, to the whole row."""
    found = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            for name in re.findall(r"`([^`]+)`", line.split("|")[1]):
                found[name] = line
    return found


# ---- what the code has


@pytest.mark.parametrize("verdict", list(SpoolVerdict))
def test_every_verdict_has_a_row_that_says_whether_it_is_a_gap_and_who_repairs_it(verdict: SpoolVerdict) -> None:
    *_, gap, repair, to_do, _ = (cell.strip() for cell in rows(page("docs/spool.md"))[verdict.value].split("|"))
    assert (gap == "yes") is verdict.is_gap
    assert (repair in {"send", "resolve", "archive"}) is verdict.is_repairable
    assert (repair == "person") is verdict.needs_person
    assert to_do


@pytest.mark.parametrize("field", list(SpoolPolicy.model_fields))
def test_every_policy_field_has_a_row_with_its_default(field: str) -> None:
    row = rows(page("docs/spool.md"))[field]
    default = SpoolPolicy.model_fields[field].default
    match default:
        case bool():
            shown = f"`{str(default).lower()}`"
        case int():
            shown = f"| {default:,} |"
        case tuple():
            shown = f"`{' '.join(default)}`"
        case _:
            shown = default
    assert shown in row.replace("\\|", "|")


@pytest.mark.parametrize("field", list(Profile.model_fields))
def test_every_profile_field_has_a_row_with_its_default(field: str) -> None:
    default = Profile.model_fields[field].default
    shown = str(default).lower() if isinstance(default, bool) else f'"{default}"'
    assert f"`{shown}`" in rows(page("docs/spool.md"))[field]


@pytest.mark.parametrize("key", [key for key in SpoolWatch.model_fields if key not in SpoolWatch.SECRETS])
def test_every_key_of_a_watch_is_on_the_operators_page(key: str) -> None:
    text = page("docs/spool.md")
    assert re.search(rf"`{key}\b|^{key} +=", text, re.MULTILINE) or f"`{key.replace('partner_', 'source_')}`" in text


@pytest.mark.parametrize("field", SpoolWatch.SECRETS)
def test_every_secret_has_its_variable_on_the_operators_page(field: str) -> None:
    assert f"`{secret_variable('spool', 'acme', field)}`" in page("docs/spool.md")


@pytest.mark.parametrize("key", [key for key in Settings.model_fields if key not in {"watches", "config_file", "slack"}])
def test_every_setting_has_a_row(key: str) -> None:
    assert key in rows(page("docs/spool.md"))


def test_the_slack_settings_are_in_their_row() -> None:
    row = rows(page("docs/spool.md"))["[slack]"]
    assert [key for key in SlackSettings.model_fields if key not in {"token", "webhook"} and f"`{key}`" not in row] == []


@pytest.mark.parametrize("check", ["complete", DECISION_CHECK, READ_BACK, *CHECKS])
def test_every_check_has_a_row(check: str) -> None:
    assert check in rows(page("docs/spool.md"))


@pytest.mark.parametrize("step", list(Step))
def test_every_write_step_says_what_happens_when_it_is_cut(step: Step) -> None:
    assert re.search(rf"^\| \d `{step}` \|[^|]+\|[^|]+\|$", page("docs/spool.md"), re.MULTILINE)


@pytest.mark.parametrize("code", list(RefusalCode))
def test_every_refusal_has_a_row_in_the_runbook(code: RefusalCode) -> None:
    assert code.value in rows(page("docs/runbook.md"))


@pytest.mark.parametrize("code", list(Exit))
def test_every_exit_code_is_in_the_runbook(code: Exit) -> None:
    assert re.search(rf"^\| {int(code)} \|", page("docs/runbook.md"), re.MULTILINE)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_of_a_feed_is_in_the_runbook(outcome: Outcome) -> None:
    assert f"`{outcome}`" in page("docs/runbook.md")


# ---- nothing that the code has not


def commands(command: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Every command's words with its options; a group counts as one too, since some run without a further word."""
    command = command or get_command(app)
    yield words, {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*words, name))


KNOWN: Final = dict(commands())


def quoted(text: str) -> Iterator[str]:
    """What a reader would type: `opsguard ...` in code spans, and lines of blocks that begin with it."""
    for line in text.splitlines():
        block = re.match(r"(?: {4,}|[|] *)(?:\$ )?(opsguard .*)", line)
        yield from [block[1]] if block else re.findall(r"`(opsguard [^`]+)`", line)


def typed(text: str) -> list[str]:
    command = re.sub(r"\s#.*", "", text).partition(">>")[0]
    return shlex.split(command.replace("…", "X"))[1:]


QUOTED: Final = sorted({command for path in PAGES for command in quoted(path.read_text(encoding="utf-8"))})


def test_there_are_commands_in_the_documentation() -> None:
    assert len(QUOTED) > 20


@pytest.mark.parametrize("text", QUOTED)
def test_every_quoted_command_exists_with_its_options(text: str) -> None:
    words = typed(text)
    command = max((known for known in KNOWN if known == tuple(words[: len(known)])), key=len)
    assert command or words[0].startswith("-"), f"there is no command `opsguard {words[0]}`"
    inner = [known[-1] for known in KNOWN if known[:-1] == command and known]
    unknown_word = inner and len(words) > len(command) and not words[len(command)].startswith("-")
    assert not unknown_word, f"`opsguard {' '.join(command)}` has no {words[len(command)]}"
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= KNOWN[command]


@pytest.mark.parametrize("command", [" ".join(words) for words in KNOWN if words])
def test_every_command_is_quoted_somewhere(command: str) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    alone = {"plans list": "opsguard plans"}.get(command, f"opsguard {command}")
    assert alone in text


def anchors(text: str) -> set[str]:
    """As code hosts make them of headings."""
    return {
        re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(TOP)))
def test_every_relative_link_and_picture_leads_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, anchor = target.partition("#")
        leads_to = (path.parent / file).resolve() if file else path
        if re.match(r"https?://", target) or (leads_to.is_relative_to(TOP) and str(leads_to.relative_to(TOP)) in PICTURES):
            continue
        if not leads_to.exists() or (anchor and anchor not in anchors(leads_to.read_text(encoding="utf-8"))):
            dead.append(target)
    assert dead == []


def test_the_readme_shows_the_four_pictures() -> None:
    assert set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page("README.md"))) == PICTURES


def test_every_make_target_in_the_documentation_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", page("Makefile"), re.MULTILINE))
    text = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    named = set(re.findall(r"(?:`|^ {4}(?:\$ )?)make ([a-z]+)\b", text, re.MULTILINE))
    assert {"demo", "test"} <= named
    assert named <= targets


def test_the_examples_for_production_are_whole() -> None:
    for name in ("dagster.yaml", "helm-values.yaml"):
        assert isinstance(yaml.safe_load(page(f"deploy/{name}")), dict)
    deployment = yaml.safe_load(page("deploy/helm-values.yaml"))["dagster-user-deployments"]["deployments"][0]
    location = yaml.safe_load(page("workspace.yaml"))["load_from"][0]["python_module"]
    assert deployment["name"] == location["location_name"]
    assert location["module_name"] in deployment["dagsterApiGrpcArgs"]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(TOP)))
def test_no_page_names_the_writers_machine_or_a_package_index(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"/(?:work|root|tmp)/\S*|pypi\S*|index.url|files\.pythonhosted\S*", text) == []
    assert not re.search(r"\b(?:TODO|TBD|FIXME)\b", text)
