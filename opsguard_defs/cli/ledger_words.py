"""How the ledger's values are printed: attempts, heads, faults, refusals."""

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from guards.delivery.refusal import LedgerCode, LedgerRefused
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.output import emit, line, say, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from guards.delivery.entry import Reservation
    from guards.delivery.replay import Fault
    from guards.delivery.row import Head

_BODIES = ("body", "body_base64")


def show_attempts(attempts: "Iterable[Reservation]") -> None:
    """The slot on a line of its own, so that it can be copied whatever the width, and its attempts below it."""
    for key, of_slot in groupby(attempts, key=lambda attempt: attempt.slot.key):
        line(key)
        rows = [(words.utc(a.changed_at), a.state, a.attempt, name_of(a), a.holder, a.note or a.reason or "") for a in of_slot]
        table(("when", "state", "attempt", "name", "holder", "why"), rows, right=("attempt",))


def name_of(attempt: "Reservation") -> str:
    """What an operator knows it by: a feed's name, a message's destination."""
    facts = attempt.pins.facts
    match facts.get("name") or facts.get("destination"):
        case {"provider": str(provider), "address": str(address)}:
            return f"{provider} {address}"
        case None:
            return ""
        case said:
            return _text(said)


def show_pins(attempt: "Reservation", *, with_body: bool) -> None:
    rows = [(name, _text(value)) for name, value in sorted(attempt.pins.facts.items()) if name not in _BODIES]
    if key := key_of(attempt):
        rows.append(("provider key", key))
    rows += [(f"authority {name}", value) for name, value in sorted(attempt.pins.authority.items())]
    rows.append(("pins_digest", attempt.pins.digest))
    line(f"attempt {attempt.attempt} is pinned to")
    width = max(len(name) for name, _ in rows)
    for name, value in rows:  # lines and no table, which breaks a digest where the terminal is narrow
        line(f"  {name:{width}}  {value}")
    # A plan's approval is kept without its comment.
    opened_under = {name: value for name, value in attempt.opened_under.items() if value != ""}
    for title, said in (("receipt", attempt.receipt), ("evidence", attempt.evidence), ("opened under", opened_under)):
        if said:
            line(f"{title}: {_text(said)}")
    for said in attempt.late:
        line(f"said too late to count, and kept: {_text(said)}")
    body = body_of(attempt)
    if body is None:
        return
    if not with_body:
        line(f"body: {len(body.encode('utf-8', 'surrogatepass')):,} bytes; --body prints it")
        return
    line("body:")
    for text in body.split("\n"):
        line(f"  {text}")


def key_of(attempt: "Reservation") -> str:
    """What the provider knows it by; "" for what is no message."""
    from guards.delivery.message import message_of, provider_key

    return provider_key(attempt) if message_of(attempt.pins) is not None else ""


def body_of(attempt: "Reservation") -> str | None:
    """None for what is no message."""
    from guards.delivery.message import message_of

    pinned = message_of(attempt.pins)
    return None if pinned is None else pinned.body


def attempt_json(attempt: "Reservation", *, with_body: bool = False) -> dict[str, Any]:
    return {
        "slot": attempt.slot.key,
        "attempt": attempt.attempt,
        "reservation_id": attempt.reservation_id,
        "provider_key": key_of(attempt),
        "state": str(attempt.state),
        "name": name_of(attempt),
        "holder": attempt.holder,
        "fence": attempt.fence,
        "is_live": attempt.is_live,
        "opened_at": attempt.opened_at,
        "changed_at": attempt.changed_at,
        "reason": str(attempt.reason or ""),
        "note": attempt.note,
        "receipt": attempt.receipt,
        "evidence": attempt.evidence,
        "approval": attempt.approval,
        "opened_under": attempt.opened_under,
        "late": list(attempt.late),
        "pins_digest": attempt.pins.digest,
        "pins": {name: value for name, value in attempt.pins.facts.items() if name not in _BODIES},
        **({"body": body_of(attempt)} if with_body else {}),
    }


def head_json(head: "Head") -> dict[str, Any]:
    return {"sequence": head.sequence, "digest": head.digest}


def fault_json(fault: "Fault") -> dict[str, Any]:
    return {
        "kind": str(fault.kind),
        "sequence": fault.sequence,
        "slot": fault.slot.key if fault.slot else "",
        "why": fault.why,
    }


def say_fault(fault: "Fault") -> None:
    where = f"row {fault.sequence}" if fault.sequence else "the store"
    say(f"{where}: {fault.kind}: {fault.why}{f' ({fault.slot.key})' if fault.slot else ''}")


def refusal_json(refused: LedgerRefused) -> dict[str, str]:
    return {"code": str(refused.code), "message": refused.message}


def refused_exit(refused: LedgerRefused, *, as_json: bool, also: "Mapping[str, Any] | None" = None) -> Exit:
    """Says it on stderr, and with --json as an object on stdout. Nothing was written."""
    if as_json:
        emit({**(also or {}), "refusal": refusal_json(refused)})
    say(f"{refused.code}: {refused.message}")
    return Exit.UNPROVEN if refused.code is LedgerCode.RECOVERY_REQUIRED else Exit.REFUSED


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=True, sort_keys=True, default=dict)
