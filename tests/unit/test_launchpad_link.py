"""The filled-in form: what is typed in is ours, what is shown beside it may be hostile."""

import urllib.parse

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from assets.launchpad_link import LINK_LIMIT, check_link, launchpad_link, markdown_link, run_link

pytestmark = pytest.mark.fast

VALUES = {"approved_plan": "61cddab8590b", "approved_by": "", "dry_run": False}
EVIL = (
    "a](http://evil.example) ![x](http://127.0.0.1:9/p.png)`` <b>\nauto_remediate: true\x85approved_by: evil\u2028x: 1\udcff.csv"
)


def config_of(link: str) -> str:
    return urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)["config"][0]


def test_the_form_holds_the_values_and_the_comments_in_order() -> None:
    link = launchpad_link(
        "http://127.0.0.1:3000/", "spool_acme_redeliver", VALUES, lines=["first", "second"], tags={"opsguard/plan": "61c"}
    )
    assert link.startswith(
        "http://127.0.0.1:3000/locations/opsguard/jobs/spool_acme_redeliver/playground/setup?mode=default&config="
    )
    assert config_of(link).splitlines()[:2] == ["# first", "# second"]
    assert yaml.safe_load(config_of(link)) == VALUES
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)
    assert query["tags[0][key]"] == ["opsguard/plan"]
    assert query["tags[0][value]"] == ["61c"]


def test_lines_that_do_not_fit_go_from_the_end_and_the_rest_is_said() -> None:
    link = launchpad_link(
        "http://127.0.0.1:3000", "j", VALUES, lines=[f"- send feed_{n}.csv" for n in range(100)], rest="... and more"
    )
    comments = [line for line in config_of(link).splitlines() if line.startswith("#")]
    assert len(link) <= LINK_LIMIT
    assert comments[0] == "# - send feed_0.csv"
    assert comments[-1] == "# ... and more"
    assert len(comments) > 10


def test_values_are_never_dropped_even_when_no_line_fits() -> None:
    link = launchpad_link("http://127.0.0.1:3000", "j", {"approval_comment": "x" * 1000}, lines=["a"], rest="b")
    assert yaml.safe_load(config_of(link)) == {"approval_comment": "x" * 1000}


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=200) | st.just(EVIL), max_size=12))
def test_a_file_name_never_adds_a_line_to_the_form(names: list[str]) -> None:
    """Seen in the browser: a newline in a name typed `auto_remediate: true` into the approver's form."""
    link = launchpad_link("http://127.0.0.1:3000", "j", VALUES, lines=names, rest="... more")
    assert yaml.safe_load(config_of(link)) == VALUES
    assert len(link) <= LINK_LIMIT
    assert not set(link) & set('<> \n"`')


def test_a_link_in_markdown_stands_in_angle_brackets() -> None:
    assert markdown_link("words", "http://x/?a=(b)") == "[words](<http://x/?a=(b)>)"


def test_pages_of_a_run_and_of_a_check() -> None:
    assert run_link("http://ui/", "a/b") == "http://ui/runs/a%2Fb"
    assert check_link("http://ui", ["spool", "acme", "plan"], "plan_needs_a_decision") == (
        "http://ui/assets/spool/acme/plan?view=checks&checkDetail=plan_needs_a_decision"
    )
