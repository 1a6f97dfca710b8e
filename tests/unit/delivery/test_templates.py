"""Approved templates: what was changed or never listed is not sent, and rendering evaluates nothing."""

import hashlib

import pytest

from guards.delivery.bodies import MOST_BODY_BYTES, Body, NoBody, NoTemplate
from guards.delivery.marked_yaml import MOST_PROBLEMS
from guards.delivery.templates import VARIABLES, ApprovedTemplate, Templates, is_template_id, parse_approved, render

pytestmark = pytest.mark.fast

ID = "missing-checkin-v1"
TEXT = b"Dear {{display_name}} ({{ customer_key }}), no check-in on {{local_date}}, period {{period}}.\n"
SHA256 = hashlib.sha256(TEXT).hexdigest()
FILLED = {"customer_key": "acme-1", "display_name": "Acme", "period": "2026-11-30", "local_date": "2026-11-30"}
FILE = f"version: 1\ntemplates:\n  {ID}:\n    sha256: {SHA256}\n    approved_by: jane@example.com\n"


def templates(text: bytes | str = TEXT, *, sha256: str = SHA256, problem: str = "") -> Templates:
    return Templates({ID: ApprovedTemplate(ID, sha256, "jane@example.com")}, {ID: text}, problem)


def refused(found: Body | NoBody | NoTemplate) -> str:
    assert isinstance(found, NoTemplate)
    return found.why


def test_an_approved_template_is_filled_in_and_its_digest_is_the_texts_not_the_bodys() -> None:
    body = templates().body(ID, FILLED)

    assert isinstance(body, Body)
    assert body.text == "Dear Acme (acme-1), no check-in on 2026-11-30, period 2026-11-30.\n"
    assert (body.template, body.template_sha256) == (ID, SHA256)
    assert body.sha256 != SHA256


def test_what_is_filled_in_is_not_read_again() -> None:
    """A customer named `{{customer_key}}` must not be able to write in somebody else's words."""
    body = templates().body(ID, {**FILLED, "display_name": "{{period}} \\1 %s {0}"})

    assert isinstance(body, Body)
    assert body.text.startswith("Dear {{period}} \\1 %s {0} (acme-1)")


def test_a_template_changed_after_its_approval_is_not_sent() -> None:
    """Somebody corrected a comma in v1, and nobody had seen what went out."""
    why = refused(templates(TEXT + b" ").body(ID, FILLED))

    assert "was changed since jane@example.com approved it" in why
    assert "new version" in why


def test_a_template_that_nobody_listed_is_not_sent() -> None:
    assert "not listed in approved.yaml" in refused(templates().body("missing-checkin-v2", FILLED))


def test_a_template_whose_file_cannot_be_read_is_not_sent() -> None:
    assert "permission denied" in refused(templates("permission denied").body(ID, FILLED))
    assert "was not looked for" in refused(Templates({ID: ApprovedTemplate(ID, SHA256, "x")}).body(ID, FILLED))


def test_no_template_counts_while_the_list_cannot_be_used() -> None:
    assert "line 3" in refused(templates(problem="approved.yaml, line 3, column 1: x").body(ID, FILLED))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"\xff", "not UTF-8"),
        (b"a\x00", "NUL"),
        (b"Hello {{password}}", "asks for 'password'"),
        (b"Hello {{display_name.__class__}}", "asks for"),
        (b"Hello {{", "without its partner"),
        (b"Hello }} {{period}}", "without its partner"),
    ],
)
def test_an_approved_text_that_cannot_be_filled_in_is_not_sent(text: bytes, why: str) -> None:
    found = templates(text, sha256=hashlib.sha256(text).hexdigest()).body(ID, FILLED)

    assert why in refused(found)


def test_a_body_that_grows_over_its_limit_when_filled_in_is_a_missing_body() -> None:
    text = b"{{display_name}}" * 2_000
    found = templates(text, sha256=hashlib.sha256(text).hexdigest()).body(ID, {**FILLED, "display_name": "x" * 100})

    assert isinstance(found, NoBody)
    assert str(f"{MOST_BODY_BYTES:,}") in found.why


def test_every_variable_of_the_closed_set_is_filled_in() -> None:
    assert render("|".join(f"{{{{{name}}}}}" for name in VARIABLES), FILLED) == "acme-1|Acme|2026-11-30|2026-11-30"


@pytest.mark.parametrize("name", ["", "a", "a-v0", "A-v1", "../x-v1", "a.b-v1", "a-v1\n", "a/b-v1", "-v1"])
def test_an_id_is_words_and_a_version_and_never_a_path(name: str) -> None:
    assert not is_template_id(name)


def test_the_list_is_read_with_who_approved_what() -> None:
    found = parse_approved(f"{FILE}    comment: wording of 2026-11\n".encode())

    assert found == {ID: ApprovedTemplate(ID, SHA256, "jane@example.com", "wording of 2026-11")}


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "empty"),
        ("version: [1\nbad: :", 2, "not YAML"),
        ("- 1\n", 1, "the file must be a mapping"),
        ("version: 2\ntemplates: {}\n", 1, "version must be 1"),
        ("templates: {}\n", 1, "version must be 1"),
        ("version: 1\n", 1, "templates must be a mapping"),
        ("version: 1\ntemplates: [a]\n", 2, "templates must be a mapping"),
        ("version: 1\ntemplates: {}\nextra: 1\n", 3, "knows no key extra"),
        ("version: 1\ntemplates:\n  ../../etc-v1: {}\n", 3, "is not a template id"),
        (f"version: 1\ntemplates:\n  {ID}: yes\n", 3, f"{ID} must be a mapping"),
        (FILE.replace(SHA256, SHA256[:-1]), 4, "64 lower-case hex digits"),
        (FILE.replace(SHA256, SHA256.upper()), 4, "64 lower-case hex digits"),
        (FILE.replace("jane@example.com", '" "'), 5, "approved_by must say who"),
        (FILE.replace("jane@example.com", "x" * 121), 5, "approved_by must say who"),
        (FILE + "    comment: [a]\n", 6, "comment must be text"),
        (FILE + f"    comment: {'x' * 501}\n", 6, "comment must be text"),
        (FILE + f"  {ID}: {{}}\n", 6, "second time"),
    ],
)
def test_everything_wrong_with_the_list_is_said_with_its_line(text: str, line: int, why: str) -> None:
    found = parse_approved(text.encode())

    assert isinstance(found, tuple)
    assert any(problem.line == line and why in problem.sentence for problem in found), found


def test_a_list_with_too_many_problems_says_the_first_and_ends() -> None:
    found = parse_approved(b"version: 1\ntemplates:\n" + b"".join(b"  BAD%d: {}\n" % number for number in range(1_000)))

    assert isinstance(found, tuple)
    assert len(found) == MOST_PROBLEMS
