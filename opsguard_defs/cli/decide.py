"""`opsguard approve` and `opsguard decline`: a person's answer to exactly one plan digest, recorded once."""

from datetime import timedelta
from typing import Annotated

import typer

from guards.decision import DecisionKind
from guards.refusal import Refused
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit, exit_of
from opsguard_defs.cli.options import AsJson, Digest, comment, duration, person
from opsguard_defs.cli.output import emit, line, say
from opsguard_defs.cli.state_store import open_state

By = Annotated[str, typer.Option("--by", metavar="WHO", help="Who decides. A claim that is recorded, not an identity.")]
Comment = Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why.")]
ValidFor = Annotated[
    str, typer.Option("--valid-for", metavar="12h", help="How long it holds: 90m, 12h, 2d. Unset: as the plan's policy says.")
]

_UNLESS_SAID = timedelta(hours=12)


def approve(digest: Digest, by: By, text: Comment = "", valid_for: ValidFor = "", as_json: AsJson = False) -> int:
    """Approve one plan: exactly its targets may be written once, by one apply run, until the approval ends."""
    return _decide(DecisionKind.APPROVED, digest, by=by, text=text, valid_for=valid_for, as_json=as_json)


def decline(digest: Digest, by: By, text: Comment = "", valid_for: ValidFor = "", as_json: AsJson = False) -> int:
    """Decline one plan: nothing of it is written. A decline beats an approval."""
    return _decide(DecisionKind.DECLINED, digest, by=by, text=text, valid_for=valid_for, as_json=as_json)


def _decide(kind: DecisionKind, digest: str, *, by: str, text: str, valid_for: str, as_json: bool) -> int:
    from opsguard_defs.settings import load_settings

    who, why = person(by), comment(text)
    asked = duration(valid_for) if valid_for else None
    with open_state(load_settings()) as store:
        plan = store.find_plan(digest)
        if isinstance(plan, Refused):
            answer: object = plan
        else:
            minutes = plan.policy.get("approval_timeout_minutes")
            usual = timedelta(minutes=minutes) if isinstance(minutes, int) else _UNLESS_SAID
            newer = store.plans(guard=plan.guard, watch=plan.watch, limit=1) if str(plan.state) == "superseded" else []
            if newer and kind is DecisionKind.APPROVED:
                say(f"a newer report made plan {newer[0].short}; {plan.short} may be stale")
            answer = store.decide(plan.digest, kind=kind, by=who, comment=why, valid_for=asked or usual, channel="cli")
    if isinstance(answer, Refused):
        if as_json:
            emit({"decision": None, "refusal": words.refusal_json(answer)})
        say(f"{answer.code}: {answer.message}")
        return exit_of(answer)
    if as_json:
        emit({"decision": words.decision_json(answer), "refusal": None})
        return Exit.DONE
    line(f"{answer.plan_digest[:12]} {answer.kind} by {answer.decided_by} until {words.utc(answer.valid_until)}")
    if answer.kind is DecisionKind.APPROVED:
        line(f"next: opsguard apply {words.short(answer.plan_digest)}")
    return Exit.DONE
