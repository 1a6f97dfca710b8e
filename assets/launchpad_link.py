"""A link that opens a job's Launchpad with run config, tags and comments already typed in. Nothing starts: a person presses Launch Run.

The page `/playground/setup` of dagster-webserver (1.13.27, undocumented, guarded by a browser test) shows exactly `config`, comment
lines included, so the comments are where the approver reads once more what will happen. A newline in a file name would add config
lines to the form: every line goes through `one_line` first. The same decision can always be given by the command beside the link.
"""

import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from guards.text import one_line

LINK_LIMIT: Final = 900
"""Characters. The UI shows Markdown metadata under 1,000 in place; this leaves room for the words around it. Slack takes 3,000."""


def launchpad_link(
    base_url: str,
    job: str,
    values: Mapping[str, object],
    *,
    location: str = "opsguard",
    lines: Sequence[str] = (),
    rest: str = "",
    tags: Mapping[str, str] | None = None,
) -> str:
    """`lines` become comments above the config, most important first; those that do not fit go, last ones first, and `rest` says so.

    `values` and `tags` are ours and short (digests, flags): they are never dropped. For a partitioned job put `dagster/partition`
    into `tags`.
    """
    path = f"/locations/{_quoted(location)}/jobs/{_quoted(job)}/playground/setup"
    config = yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True, width=10_000)
    tag_query = [
        pair
        for number, (key, value) in enumerate((tags or {}).items())
        for pair in ((f"tags[{number}][key]", key), (f"tags[{number}][value]", value))
    ]
    for kept in range(len(lines), -1, -1):
        shown = [*lines[:kept], *([rest] if rest and kept < len(lines) else [])]
        comments = "".join(f"# {one_line(line)}\n" for line in shown)
        query = urllib.parse.urlencode([("mode", "default"), ("config", comments + config), *tag_query], safe=":/,@")
        link = f"{base_url.rstrip('/')}{path}?{query}"
        if len(link) <= LINK_LIMIT:
            break
    return link


def run_link(base_url: str, run_id: str) -> str:
    """The run's own page."""
    return f"{base_url.rstrip('/')}/runs/{_quoted(run_id)}"


def check_link(base_url: str, asset_key: Sequence[str], check: str) -> str:
    """The page of one check on an asset: where people read a plan and decide."""
    path = "/".join(_quoted(part) for part in asset_key)
    return f"{base_url.rstrip('/')}/assets/{path}?view=checks&checkDetail={_quoted(check)}"


def markdown_link(words: str, url: str) -> str:
    """In angle brackets, because the query may hold round ones."""
    return f"[{words}](<{url}>)"


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")
