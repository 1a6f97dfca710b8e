"""`opsguard standing`: named kinds to named customers, allowed until a date. Both the word and its revocation are recorded, and stay."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guards.delivery.slot import Kind, NotASlot, Slot
from guards.refusal import Refused
from guards.text import count_words
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.options import AsJson, comment, person
from opsguard_defs.cli.output import emit, line, say, table
from opsguard_defs.cli.state_store import open_state
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from guards.delivery.standing import StandingApproval
    from opsguard_defs.settings import Settings

standing = typer.Typer(
    help="Standing approvals: what may be sent without asking again, by whom, until when.",
    no_args_is_help=True,
    epilog='Example: opsguard standing allow --watch customers --customer acme-1 --kind daily --until 2027-01-31 --by "Ada L."',
)

_KINDS = tuple(kind.value for kind in Kind if kind is not Kind.FEED)
_LONGEST = timedelta(days=366)
_MOST_CUSTOMERS = 1000
_MOST_LISTED = 20


@standing.command(
    epilog='Example: opsguard standing allow --watch customers --customer acme-1 --kind daily --until 2027-01-31 --by "Ada L." --yes'
)
def allow(
    watch: Annotated[str, typer.Option("--watch", metavar="NAME", help="The delivery watch that it is for.")],
    customer: Annotated[list[str], typer.Option("--customer", metavar="KEY", help="A customer's key; may be given again.")],
    kind: Annotated[list[str], typer.Option("--kind", metavar="KIND", help=f"{', '.join(_KINDS)}; may be given again.")],
    until: Annotated[str, typer.Option("--until", metavar="DATE", help="2027-01-31 (its end, UTC), or a time with its zone.")],
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Who allows it. A claim that is recorded, not an identity.")],
    text: Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Record it; without it what would be allowed is only shown.")] = False,
    as_json: AsJson = False,
) -> int:
    """Allow these kinds to these customers until a date. It takes effect only where the watch's settings say auto_send = true."""
    from opsguard_defs.settings import load_settings

    settings = load_settings()
    auto_send = _auto_send(settings, watch)
    who, why, ends_at = person(by), comment(text), _until(until)
    customers, kinds = _customers(customer), _kinds(kind)
    _require_known(settings, watch, customers)
    what = f"{', '.join(kinds)} to {', '.join(customers)} of delivery/{watch} until {words.utc(ends_at)}"
    if not yes:
        if as_json:
            emit({"allowed": None, "would_allow": {"watch": watch, "customers": customers, "kinds": kinds, "until": ends_at}})
        else:
            line(f"--yes allows {what}, by {who}: messages go out without anybody being asked again")
        return Exit.DONE
    with open_state(settings) as store:
        made = store.standing.allow(watch, customers=customers, kinds=kinds, by=who, comment=why, until=ends_at)
    if as_json:
        emit({"allowed": standing_json(made)})
    else:
        line(f"standing approval {made.id}: {what}, by {made.approved_by}")
        line(f"ends it earlier: opsguard standing revoke {made.id} --by WHO")
    if not auto_send:
        say(f"it has no effect yet: delivery/{watch} does not say auto_send = true in its settings")
    return Exit.DONE


@standing.command("list", epilog="Example: opsguard standing list --all")
def list_all(
    watch: Annotated[str, typer.Option("--watch", metavar="NAME", help="Only of this watch.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Also those that have ended or were revoked.")] = False,
    as_json: AsJson = False,
) -> int:
    """What is allowed now, by whom and until when."""
    from opsguard_defs.settings import load_settings

    with open_state(load_settings()) as store:
        now = store.now()
        found = [one for one in store.standing.all() if (every or one.is_live(now)) and watch in ("", one.watch)]
    if as_json:
        for one in found:
            emit(standing_json(one))
    elif not found:
        line("nothing is allowed in advance: a person approves each plan")
    else:
        rows = [
            (
                one.id,
                f"delivery/{one.watch}",
                ", ".join(one.kinds),
                ", ".join(one.customers),
                words.utc(one.until),
                one.approved_by,
                f"revoked by {one.revoked_by}" if one.revoked_at else "live" if one.is_live(now) else "ended",
                one.comment,
            )
            for one in found
        ]
        table(("id", "watch", "kinds", "customers", "until", "by", "state", "comment"), rows, right=("id",))
    return Exit.DONE


@standing.command(epilog='Example: opsguard standing revoke 3 --by "Ada L."')
def revoke(
    number: Annotated[int, typer.Argument(metavar="ID", help="Its number: `opsguard standing list`.")],
    by: Annotated[str, typer.Option("--by", metavar="WHO", help="Who revokes it.")],
    text: Annotated[str, typer.Option("--comment", metavar="TEXT", help="Why.")] = "",
    as_json: AsJson = False,
) -> int:
    """End a standing approval now. A message whose call has begun is not called back; the next one is not begun."""
    from opsguard_defs.settings import load_settings

    who, why = person(by), comment(text)
    with open_state(load_settings()) as store:
        ended = store.standing.revoke(number, by=who, comment=why)
    if isinstance(ended, Refused):
        if as_json:
            emit({"revoked": None, "refusal": words.refusal_json(ended)})
        say(f"{ended.code}: {ended.message}")
        return Exit.REFUSED
    if as_json:
        emit({"revoked": standing_json(ended), "refusal": None})
    else:
        line(f"standing approval {ended.id} is revoked, by {ended.revoked_by}: a person approves each plan again")
    return Exit.DONE


def standing_json(one: "StandingApproval") -> dict[str, Any]:
    return {
        "id": one.id,
        "watch": one.watch,
        "customers": list(one.customers),
        "kinds": list(one.kinds),
        "approved_by": one.approved_by,
        "comment": one.comment,
        "until": one.until,
        "recorded_at": one.recorded_at,
        "revoked_at": one.revoked_at,
        "revoked_by": one.revoked_by,
    }


def _auto_send(settings: "Settings", name: str) -> bool:
    """Raises `ConfigurationError` for a watch that there is not."""
    from opsguard_defs.settings import DeliveryWatch

    watch = settings.watch("delivery", name)
    return isinstance(watch, DeliveryWatch) and watch.auto_send


def _require_known(settings: "Settings", name: str, customers: Sequence[str]) -> None:
    """A misspelt key would allow nothing, and seem to. Where the registry cannot be read that is only said."""
    from guards.delivery.registry_fields import nearest
    from opsguard_defs.settings import DeliveryWatch
    from resources.delivery.registry import RegistryFile

    watch = settings.watch("delivery", name)
    assert isinstance(watch, DeliveryWatch)
    try:
        known = list(RegistryFile(watch.registry).read().customers)
    except ConfigurationError as error:
        say(f"the registry cannot be read, so nobody checked that it has these customers: {error}")
        return
    if unknown := [key for key in customers if key not in known]:
        hint = nearest(unknown[0], known)
        listed = hint if len(known) <= _MOST_LISTED or not hint.startswith("known are") else f"it has {len(known)} others"
        raise ConfigurationError(f"--customer: {watch.registry} has no {unknown[0]}: {listed}")


def _customers(given: Sequence[str]) -> tuple[str, ...]:
    """Spelled out: never a pattern."""
    keys = tuple(dict.fromkeys(given))
    try:
        for key in keys:
            Slot(key, "2026-11-30", Kind.DAILY.value)
    except NotASlot as problem:
        raise ConfigurationError(f"--customer: {problem}") from None
    if len(keys) > _MOST_CUSTOMERS:
        raise ConfigurationError(f"--customer: {count_words(len(keys), 'customer')} at once; at most {_MOST_CUSTOMERS}")
    return keys


def _kinds(given: Sequence[str]) -> tuple[str, ...]:
    kinds = tuple(dict.fromkeys(given))
    if unknown := [kind for kind in kinds if kind not in _KINDS]:
        raise ConfigurationError(f"--kind: {unknown[0][:40]!a} is not one of {', '.join(_KINDS)}")
    return kinds


def _until(text: str) -> datetime:
    """A date means its end in UTC. Within a year: what is allowed for ever is forgotten."""
    try:
        found = datetime.fromisoformat(text)
        if len(text) == len("2027-01-31"):
            found = datetime.combine(found.date(), time(), UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise ConfigurationError(f"--until is a date such as 2027-01-31, not {text[:40]!a}") from None
    if found.tzinfo is None:
        raise ConfigurationError("--until needs a zone where it says a time: 2027-01-31T18:00+09:00")
    now = datetime.now(UTC)
    if not now < found <= now + _LONGEST:
        raise ConfigurationError(f"--until must be in the future, and within {_LONGEST.days} days")
    return found
