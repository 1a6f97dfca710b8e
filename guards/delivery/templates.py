"""Approved templates. `approved.yaml` lists each with its digest and who approved it; a template that was changed since is not approved.

    version: 1
    templates:
      missing-checkin-v1:
        sha256: 4f0c…                  # of missing-checkin-v1.md: `sha256sum`
        approved_by: jane@example.com
        comment: wording of 2026-11    # may be left out

A template holds text and `{{customer_key}}`, `{{display_name}}`, `{{period}}`, `{{local_date}}`. Nothing else in it is looked at and
nothing is evaluated; what is filled in is not read again.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from guards.delivery.bodies import Body, NoBody, NoTemplate, body_of
from guards.delivery.marked_yaml import Meant, Node, Problem, Problems, Scalar, Table, TooManyProblems, read_yaml
from guards.delivery.registry import TEMPLATE_ID
from guards.stored import is_sha256
from guards.text import one_line

VARIABLES: Final = ("customer_key", "display_name", "period", "local_date")
_MARK: Final = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_LONGEST_NAME: Final = 120
_LONGEST_COMMENT: Final = 500
_NOTHING: Final = Scalar(0, 0, "", Meant.TEXT)


def is_template_id(text: str) -> bool:
    """`<name>-v<number>`: the version is part of the id, so that changing a text makes another template."""
    return TEMPLATE_ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class ApprovedTemplate:
    """`approved_by` is a claim, not an identity."""

    id: str
    sha256: str
    approved_by: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Templates:
    """What was seen of a templates directory. `files`: template id to its bytes, or (text) why they could not be read; only those
    that a rule names. `problem` is "" or one sentence: then nothing is approved."""

    approved: Mapping[str, ApprovedTemplate] = field(default_factory=dict)
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    problem: str = ""

    def body(self, template: str, variables: Mapping[str, str]) -> Body | NoBody | NoTemplate:
        """Rendered, when the template is approved as it is. `variables`: all of `VARIABLES`."""
        if self.problem:
            return NoTemplate(f"no template counts as approved: {self.problem}")
        approved = self.approved.get(template)
        if approved is None:
            return NoTemplate(f"template {template} is not listed in approved.yaml: have somebody approve it")
        data = self.files.get(template, "it was not looked for")
        if isinstance(data, str):
            return NoTemplate(f"template {template} cannot be read: {data}")
        found = hashlib.sha256(data).hexdigest()
        if found != approved.sha256:
            return NoTemplate(
                f"template {template} was changed since {one_line(approved.approved_by)} approved it (SHA-256 {found[:12]}, approved "
                f"{approved.sha256[:12]}): give the new text a new version and have it approved"
            )
        text = body_of(data)
        if isinstance(text, NoBody):
            return NoTemplate(f"template {template} is no text that could be sent: {text.why}")
        rendered = render(text.text, variables)
        if isinstance(rendered, NoTemplate):
            return NoTemplate(f"template {template} {rendered.why}")
        body = body_of(rendered.encode())
        return body if isinstance(body, NoBody) else Body(body.text, template=template, template_sha256=found)


def render(text: str, variables: Mapping[str, str]) -> str | NoTemplate:
    """Each `{{name}}` of the closed set filled in once."""
    for mark in _MARK.finditer(text):
        if mark[1] not in VARIABLES:
            return NoTemplate(f"asks for {one_line(mark[1], limit=40)!r}: there are only {', '.join(VARIABLES)}")
    rest = _MARK.sub("", text)
    if "{{" in rest or "}}" in rest:
        return NoTemplate("has a {{ or }} without its partner")
    return _MARK.sub(lambda mark: variables[mark[1]], text)


def parse_approved(data: bytes) -> Mapping[str, ApprovedTemplate] | tuple[Problem, ...]:
    """By id, in the file's order; or everything that is wrong with it, by position."""
    problems = Problems()
    found: dict[str, ApprovedTemplate] = {}
    try:
        root = read_yaml(data, problems)
        if root is not None:
            found = _listed(root, problems)
    except TooManyProblems:
        pass
    return problems.in_order() or found


def _listed(root: Node, problems: Problems) -> dict[str, ApprovedTemplate]:
    top = _table(root, ("version", "templates"), "the file", problems)
    version, listed = top.get("version"), top.get("templates")
    if not isinstance(version, Scalar) or version.text != "1":
        problems.at(version or root, "version must be 1")
    if not isinstance(listed, Table):
        problems.at(listed or root, "templates must be a mapping: id to sha256 and approved_by")
        return {}
    found = {}
    for name, (key, node) in listed.pairs.items():
        if is_template_id(name):
            found[name] = _template(name, node, problems)
        else:
            problems.at(
                key, f"{one_line(name)} is not a template id: lower-case words and a version, for example missing-checkin-v1"
            )
    return found


def _template(name: str, node: Node, problems: Problems) -> ApprovedTemplate:
    fields = _table(node, ("sha256", "approved_by", "comment"), name, problems)
    sha256, by, comment = (_text(fields.get(key)) for key in ("sha256", "approved_by", "comment"))
    if not is_sha256(sha256):
        problems.at(fields.get("sha256", node), f"{name}: sha256 must be the 64 lower-case hex digits of {name}.md")
    if not (by.strip() and len(by) <= _LONGEST_NAME and by.isprintable()):
        problems.at(
            fields.get("approved_by", node), f"{name}: approved_by must say who, in 1 to {_LONGEST_NAME} printable characters"
        )
    if len(comment) > _LONGEST_COMMENT or not isinstance(fields.get("comment", _NOTHING), Scalar):
        problems.at(fields["comment"], f"{name}: comment must be text of {_LONGEST_COMMENT} characters at most")
    return ApprovedTemplate(name, sha256, by, comment)


def _table(node: Node, known: tuple[str, ...], what: str, problems: Problems) -> dict[str, Node]:
    if not isinstance(node, Table):
        problems.at(node, f"{what} must be a mapping with {', '.join(known)}")
        return {}
    for name, (key, _) in node.pairs.items():
        if name not in known:
            problems.at(key, f"{what} knows no key {one_line(name)}: only {', '.join(known)}")
    return {name: value for name, (_, value) in node.pairs.items() if name in known}


def _text(node: Node | None) -> str:
    """As it is written, whatever YAML would make of it."""
    return node.text if isinstance(node, Scalar) else ""
