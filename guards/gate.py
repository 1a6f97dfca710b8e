"""The gate: the only place where an `Authorization` is made, and so the only way to a writer.

Pure: flags, plan, decision, fresh facts, lease and a clock value in; `Authorized` or `Refused` out. It is asked again inside every
op that writes, because re-executing a failed run skips the ops before it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, NoReturn, TypeVar, final
from weakref import WeakKeyDictionary

from guards.decision import Decision, DecisionKind
from guards.plan import Plan, plan_scope_key
from guards.refusal import RefusalCode, Refused
from guards.requirement import Target, mismatches

Facts = TypeVar("Facts")


@dataclass(frozen=True, slots=True)
class Flags:
    """The two keys of an apply run. Both defaults cannot write."""

    dry_run: bool = True
    auto_remediate: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """Proof, from the state store, that one run is the only writer of a scope. `fence` grows with every new holder."""

    scope: str
    holder: str
    fence: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Fresh(Generic[Facts]):
    """The world as the apply run itself just saw it. `incomplete` is "" or one sentence that says what could not be observed."""

    seen: Facts
    incomplete: str = ""


@final
class Authorization:
    """A write may happen: exactly this plan, under this approval, while this fence is the newest.

    Only `gate` makes one that `is_authentic`. It cannot be copied, pickled or subclassed, so it never outlives its process and
    never travels between ops.
    """

    __slots__ = ("__weakref__", "approval_id", "approved_by", "fence", "holder", "plan_digest", "scope")

    scope: str
    plan_digest: str
    approval_id: int
    approved_by: str
    holder: str
    fence: int

    def __new__(cls, *_: object, **__: object) -> "Authorization":
        raise TypeError("only guards.gate.gate makes an Authorization")

    def __init_subclass__(cls, **_: object) -> NoReturn:
        raise TypeError("an Authorization has no subclasses")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an Authorization is immutable: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an Authorization is immutable: {name}")

    def __copy__(self) -> NoReturn:
        raise TypeError("an Authorization is not copied")

    def __deepcopy__(self, _: object) -> NoReturn:
        raise TypeError("an Authorization is not copied")

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("an Authorization does not leave its process")

    def __repr__(self) -> str:
        return f"Authorization({self.scope}, plan {self.plan_digest[:12]}, approval {self.approval_id}, fence {self.fence})"


_issued: Final[WeakKeyDictionary[Authorization, tuple[object, ...]]] = WeakKeyDictionary()
"""Every living one with what it was issued for."""


class NotAuthorized(RuntimeError):
    """A writer was asked for without an authorization of the gate's: a programming error, never an operator's."""


def require_authentic(authorization: object, *, scope: str) -> Authorization:
    """What every writer does first. Identity counts, not equality: a forged look-alike was never issued.

    The exact type, since an object may lie about its `__class__` and, with its own `__eq__`, about who it is.
    """
    if type(authorization) is not Authorization or authorization not in _issued:
        raise NotAuthorized("no writer without an authorization from guards.gate.gate")
    if _values(authorization) != _issued[authorization]:
        raise NotAuthorized("this authorization was changed after guards.gate.gate made it")
    if authorization.scope != scope:
        raise NotAuthorized(f"this authorization is for {authorization.scope}, not for {scope}")
    return authorization


@dataclass(frozen=True, slots=True)
class Authorized:
    authorization: Authorization


def precheck(*, flags: Flags, plan: Plan[Facts], decision: Decision | None, now: datetime, holder: str = "") -> Refused | None:
    """All that can be refused before the world is looked at again. `now` is the database clock.

    An approval already used by `holder` itself is not refused: the later ops of one run ask again.
    """
    if flags.dry_run:
        return Refused(RefusalCode.DRY_RUN, f"dry_run is on: nothing of plan {plan.short} was written")
    if not flags.auto_remediate:
        return Refused(RefusalCode.REMEDIATION_DISABLED, f"auto_remediate is off: nothing of plan {plan.short} was written")
    if plan.observation:
        return Refused(
            RefusalCode.OBSERVATION_INCOMPLETE, f"plan {plan.short} rests on an incomplete observation: {plan.observation}"
        )
    if not plan.targets:
        return Refused(RefusalCode.NOTHING_TO_DO, f"plan {plan.short} has no targets: there is nothing to write")
    if decision is None or decision.plan_digest != plan.digest:
        return Refused(
            RefusalCode.NOT_APPROVED,
            f"nobody has approved plan {plan.short}: `opsguard approve {plan.short} --by YOU`",
        )
    if decision.kind is DecisionKind.DECLINED:
        return Refused(
            RefusalCode.DECLINED, f"plan {plan.short} was declined by {decision.decided_by}: report again and ask again"
        )
    if decision.used_by and decision.used_by != holder:
        return Refused(
            RefusalCode.ALREADY_USED,
            f"the approval of plan {plan.short} was used by run {decision.used_by}: report again, and approve what is still open",
        )
    if now >= decision.valid_until and not decision.used_by:
        return Refused(
            RefusalCode.EXPIRED,
            f"the approval of plan {plan.short} ended at {decision.valid_until:%Y-%m-%d %H:%M} UTC: approve again",
        )
    return None


def gate(
    *,
    flags: Flags,
    plan: Plan[Facts],
    decision: Decision | None,
    current: Plan[Facts],
    fresh: Fresh[Facts],
    lease: Lease | None,
    now: datetime,
    remaining: tuple[Target[Facts], ...] | None = None,
) -> Authorized | Refused:
    """May this plan be written now?

    `remaining`: what of it is still to be written, with the requirements that this needs; None for the whole plan. A later op of the
    same run passes what is left, since the facts of what it has just written have changed.

    `current` carries the scope and policy that the settings give today: a plan approved under others is void. `lease` is None
    when somebody else holds the scope.
    """
    refused = precheck(flags=flags, plan=plan, decision=decision, now=now, holder=lease.holder if lease else "")
    if refused is not None:
        return refused
    assert decision is not None  # precheck refuses None
    if changed := _changed(plan, current):
        return Refused(
            RefusalCode.POLICY_CHANGED,
            f"{changed} changed since plan {plan.short} was made: report again and approve the new plan",
        )
    if lease is None or lease.scope != plan_scope_key(plan.guard, plan.watch) or now >= lease.expires_at:
        return Refused(RefusalCode.BUSY, f"another run is writing {plan.guard}/{plan.watch}: wait for it, then report again")
    due = plan.targets if remaining is None else remaining
    if not {target.subject for target in due} <= {target.subject for target in plan.targets}:
        raise NotAuthorized("what remains to be written must be part of the approved plan")
    if fresh.incomplete:
        return Refused(RefusalCode.OBSERVATION_INCOMPLETE, f"could not observe completely: {fresh.incomplete}")
    stale = mismatches(due, fresh.seen)
    if stale:
        more = f" (and {len(stale) - 1} more)" if len(stale) > 1 else ""
        return Refused(
            RefusalCode.STALE, f"plan {plan.short} is stale, nothing was written. {stale[0].sentence()}{more}. Report again"
        )
    return Authorized(_issue(plan=plan, decision=decision, lease=lease))


def _changed(plan: Plan[Facts], current: Plan[Facts]) -> str:
    """Names of the scope and policy entries that differ, "" when none do."""
    if (plan.guard, plan.watch) != (current.guard, current.watch):
        return f"the watch ({plan.guard}/{plan.watch} is not {current.guard}/{current.watch})"
    names = [
        f"{kind} {name}"
        for kind, before, after in (("scope", plan.scope, current.scope), ("policy", plan.policy, current.policy))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name) or (name in before) != (name in after)
    ]
    return ", ".join(names)


def _issue(*, plan: Plan[Facts], decision: Decision, lease: Lease) -> Authorization:
    made = object.__new__(Authorization)
    for name, value in (
        ("scope", lease.scope),
        ("plan_digest", plan.digest),
        ("approval_id", decision.decision_id),
        ("approved_by", decision.decided_by),
        ("holder", lease.holder),
        ("fence", lease.fence),
    ):
        object.__setattr__(made, name, value)
    _issued[made] = _values(made)
    return made


def _values(made: Authorization) -> tuple[object, ...]:
    return (made.scope, made.plan_digest, made.approval_id, made.approved_by, made.holder, made.fence)
