"""The bodies that slots need now: dropped into the outbox by upstream jobs, or rendered from approved templates."""

from collections.abc import Collection, Mapping
from pathlib import Path

from guards.delivery.bodies import MOST_BODY_BYTES, Body, NoBody, NoTemplate, body_of, outbox_path
from guards.delivery.marked_yaml import MOST_BYTES
from guards.delivery.schedule import Owed
from guards.delivery.slot import Slot
from guards.delivery.templates import Templates, is_template_id, parse_approved
from resources.delivery.reading import read_below, read_file, said


def bodies_of(owed: Collection[Owed], *, templates: Path, outbox: Path) -> Mapping[Slot, Body | NoBody | NoTemplate]:
    """Read now, each file once. What cannot be read is an answer about its own slots and nobody else's."""
    named = {one.rule.template for one in owed if one.rule.template}
    approved = templates_of(named, templates) if named else Templates()
    return {
        one.slot: approved.body(one.rule.template, _variables(one)) if one.rule.template else _dropped(one, outbox)
        for one in owed
    }


def templates_of(names: Collection[str], directory: Path) -> Templates:
    """The list of approved templates, and the bytes of those that are named. Links are followed (a mounted directory may be made of
    them): what a template holds is proven by its digest."""
    try:
        listed = parse_approved(read_file(directory / "approved.yaml", most_bytes=MOST_BYTES))
    except OSError as error:
        return Templates(problem=f"approved.yaml cannot be read: {said(error)}")
    if isinstance(listed, tuple):
        more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
        return Templates(problem=f"approved.yaml, {listed[0]}{more}")
    files: dict[str, bytes | str] = {}
    for name in names:
        if is_template_id(name):
            try:
                files[name] = read_file(directory / f"{name}.md", most_bytes=MOST_BODY_BYTES)
            except OSError as error:
                files[name] = said(error)
    return Templates(approved=listed, files=files)


def _dropped(owed: Owed, outbox: Path) -> Body | NoBody:
    parts = outbox_path(owed.slot)
    try:
        return body_of(read_below(outbox, parts, most_bytes=MOST_BODY_BYTES))
    except OSError as error:
        return NoBody(f"outbox/{'/'.join(parts)} cannot be read: {said(error)}; an upstream job has to drop it there")


def _variables(owed: Owed) -> dict[str, str]:
    """All of `guards.delivery.templates.VARIABLES`."""
    return {
        "customer_key": owed.customer.key,
        "display_name": owed.customer.display_name,
        "period": owed.slot.period,
        "local_date": owed.local_date.isoformat(),
    }
