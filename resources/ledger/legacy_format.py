"""The older layout's three kinds of files, as values. Closed: an unknown key, a missing one, or bytes that are not canonical are refused.

Canonical JSON is that of `guards.canonical`: sorted keys, no blanks, ASCII, no floats. Digests are SHA-256, 64 lower-case hex digits.

`scheduled-deliveries.jsonl`: one line per change of a reservation, oldest first, each ending in a line feed. Keys:

    sequence     1, 2, 3 ... without a gap
    previous     digest of the line before; 64 zeros in the first
    digest       over the canonical JSON of this line without `digest`
    customer, day (YYYY-MM-DD), kind (daily weekly monthly cutoff reminder)
    reservation  32 to 64 hex digits; one per slot
    state        one of the states of the ledger; the first is `prepared` or `unknown`, the others follow its edges
    at           aware ISO 8601 time in UTC, with microseconds
    pins         what was to be sent, an object; the same in every line of a reservation
    pins_digest  over the canonical JSON of `pins`
    reason       text, 2000 characters at most
    receipt      object; only `delivered` has one, and `sent_audited` the same
    evidence     object; only `resolved_sent` and `resolved_not_sent` have one
    approved_by  text; only with `evidence`

`scheduled-deliveries-fence.json`: one canonical line {"digest", "sequence", "state", "version"}: version 1, the last line's sequence and
digest, and state `ready`. Any other state: the older program stopped in the middle of a change, and nothing is taken over.

`customer-schedule-claims/<customer>/<day>/<kind>.claim`: two lines. `opsguard-claim-v1 <sha256 of the second line, without its line
feed>`, then canonical JSON {"claimed_at", "customer", "day", "kind", "pins_digest", "reservation"}. An older claim has no such first
line: it is empty or one line, of which nothing is read but that the slot was claimed.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from guards.canonical import Json, NotCanonical, canonical_json, digest
from guards.delivery.reservation import ReservationState
from guards.delivery.row import Head
from guards.delivery.slot import Kind, NotASlot, Slot
from resources.ledger.legacy_tree import FENCE, ROWS, ClaimFile, NotThatLayout

CLAIM_HEADER: Final = "opsguard-claim-v1"
READY: Final = "ready"
LONGEST_REASON: Final = 2000
MOST_PINS_BYTES: Final = 40 * 1024
"""With what is added to them they fit a row of today."""
MOST_EVIDENCE_BYTES: Final = 12 * 1024
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_RESERVATION: Final = re.compile(r"[0-9a-f]{32,64}")
_ROW_KEYS: Final = frozenset(
    {
        "sequence", "previous", "digest", "customer", "day", "kind", "reservation", "state", "at", "pins", "pins_digest", "reason",
        "receipt", "evidence", "approved_by",
    }
)  # fmt: skip
_FENCE_KEYS: Final = frozenset({"version", "state", "sequence", "digest"})
_CLAIM_KEYS: Final = frozenset({"customer", "day", "kind", "reservation", "pins_digest", "claimed_at"})
_RESOLVED: Final = (ReservationState.RESOLVED_SENT, ReservationState.RESOLVED_NOT_SENT)
_WITH_RECEIPT: Final = (ReservationState.DELIVERED, ReservationState.SENT_AUDITED)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRow:
    sequence: int
    slot: Slot
    reservation: str
    state: ReservationState
    at: datetime
    pins: Mapping[str, Json]
    pins_digest: str
    reason: str
    receipt: Mapping[str, Json]
    evidence: Mapping[str, Json]
    approved_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OldClaim:
    """`reservation` "" for an older claim without the header. `digest` is of the claim's bytes."""

    name: str
    slot: Slot
    digest: str
    reservation: str = ""
    pins_digest: str = ""
    claimed_at: datetime | None = None


def parse_rows(content: bytes) -> tuple[tuple[OldRow, ...], Head]:
    """Raises `NotThatLayout` at the first line that is not what the chain says."""
    if content and not content.endswith(b"\n"):
        raise NotThatLayout(f"{ROWS} ends in the middle of a line: its last change was never acknowledged, or the file was cut")
    rows: list[OldRow] = []
    head = Head()
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        where = f"{ROWS}, line {number}"
        fields = _object(line, _ROW_KEYS, where)
        own = fields.pop("digest")
        if own != digest(fields):
            raise NotThatLayout(f"{where}: its content is not what its digest is of")
        if (fields["sequence"], fields["previous"]) != (number, head.digest) or isinstance(fields["sequence"], bool):
            raise NotThatLayout(f"{where}: it does not continue the line before it: lines are missing, doubled or out of order")
        rows.append(_row(fields, where))
        head = Head(number, own)
    return tuple(rows), head


def _row(fields: Mapping[str, Any], where: str) -> OldRow:
    row = OldRow(
        sequence=fields["sequence"],
        slot=_slot(fields, where),
        reservation=_matching(_RESERVATION, fields["reservation"], f"{where}: reservation"),
        state=_state(fields["state"], where),
        at=_time(fields["at"], f"{where}: at"),
        pins=_mapping(fields["pins"], f"{where}: pins", MOST_PINS_BYTES),
        pins_digest=_matching(_DIGEST, fields["pins_digest"], f"{where}: pins_digest"),
        reason=_text(fields["reason"], f"{where}: reason"),
        receipt=_mapping(fields["receipt"], f"{where}: receipt", MOST_EVIDENCE_BYTES),
        evidence=_mapping(fields["evidence"], f"{where}: evidence", MOST_EVIDENCE_BYTES),
        approved_by=_text(fields["approved_by"], f"{where}: approved_by"),
    )
    if not row.pins or row.pins_digest != digest(row.pins):
        raise NotThatLayout(f"{where}: its pins are not what their digest is of")
    if bool(row.receipt) != (row.state in _WITH_RECEIPT):
        raise NotThatLayout(f"{where}: a receipt is there exactly when it is delivered")
    if bool(row.evidence) != (row.state in _RESOLVED) or bool(row.approved_by) != bool(row.evidence):
        raise NotThatLayout(f"{where}: evidence and by whom are there exactly when it was resolved")
    if len(row.approved_by) > 120 or not row.approved_by.isprintable() or row.approved_by != row.approved_by.strip():
        raise NotThatLayout(f"{where}: approved_by is up to 120 printable characters")
    return row


def check_fence(content: bytes, head: Head) -> None:
    """Raises `NotThatLayout` unless it says `ready` and names exactly this last line."""
    if not content.endswith(b"\n") or content.count(b"\n") != 1:
        raise NotThatLayout(f"{FENCE} is not one whole line")
    fields = _object(content[:-1], _FENCE_KEYS, FENCE)
    if fields["version"] != 1 or isinstance(fields["version"], bool):
        raise NotThatLayout(f"{FENCE}: its version is not 1")
    if fields["state"] != READY:
        raise NotThatLayout(
            f"{FENCE} does not say that the ledger is {READY}: the older program stopped in the middle of a change"
        )
    if (fields["sequence"], fields["digest"]) != (head.sequence, head.digest):
        raise NotThatLayout(f"{FENCE} names another last line than {ROWS} has: lines are missing, or one file is an older copy")


def parse_claim(file: ClaimFile) -> OldClaim:
    slot = _slot({"customer": file.customer, "day": file.day, "kind": file.kind}, file.name)
    own = hashlib.sha256(file.content).hexdigest()
    lines = file.content.split(b"\n")
    header = f"{CLAIM_HEADER} ".encode("ascii")
    if not file.content.startswith(header):
        if len(lines) > 2 or (len(lines) == 2 and lines[1]):
            raise NotThatLayout(f"{file.name} has no claim's header, and more than one line")
        return OldClaim(name=file.name, slot=slot, digest=own)
    if len(lines) != 3 or lines[2]:
        raise NotThatLayout(f"{file.name} is not two whole lines")
    if lines[0][len(header) :] != hashlib.sha256(lines[1]).hexdigest().encode("ascii"):
        raise NotThatLayout(f"{file.name}: its content is not what its checksum is of")
    fields = _object(lines[1], _CLAIM_KEYS, file.name)
    if _slot(fields, file.name) != slot:
        raise NotThatLayout(f"{file.name} is the claim of another slot")
    return OldClaim(
        name=file.name,
        slot=slot,
        digest=own,
        reservation=_matching(_RESERVATION, fields["reservation"], f"{file.name}: reservation"),
        pins_digest=_matching(_DIGEST, fields["pins_digest"], f"{file.name}: pins_digest"),
        claimed_at=_time(fields["claimed_at"], f"{file.name}: claimed_at"),
    )


def _object(line: bytes, keys: frozenset[str], where: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
        is_canonical = isinstance(fields, dict) and canonical_json(fields) == line
    except (ValueError, RecursionError, NotCanonical):
        is_canonical = False
    if not is_canonical:
        raise NotThatLayout(f"{where}: not one object of canonical JSON")
    if set(fields) != keys:
        raise NotThatLayout(
            f"{where}: unknown or missing keys: {', '.join(ascii(key) for key in sorted(set(fields) ^ keys))[:200]}"
        )
    found: dict[str, Any] = fields
    return found


def _slot(fields: Mapping[str, Any], where: str) -> Slot:
    try:
        parts = [_text(fields[name], f"{where}: {name}") for name in ("customer", "day", "kind")]
        if date.fromisoformat(parts[1]).isoformat() != parts[1] or parts[2] == Kind.FEED:
            raise NotASlot("a day is YYYY-MM-DD, and the older layout knows no feeds")
        return Slot(*parts)
    except ValueError as problem:
        raise NotThatLayout(f"{where}: {problem}") from None


def _state(value: object, where: str) -> ReservationState:
    try:
        return ReservationState(_text(value, f"{where}: state"))
    except ValueError:
        raise NotThatLayout(f"{where}: {ascii(value)[:60]} is no state") from None


def _time(value: object, where: str) -> datetime:
    try:
        at = datetime.fromisoformat(_text(value, where))
        if at.tzinfo is not None and at.astimezone(UTC).isoformat(timespec="microseconds") == value:
            return at
    except ValueError:
        pass
    raise NotThatLayout(f"{where}: not a time in UTC with microseconds, such as 2026-11-30T00:00:00.000000+00:00")


def _matching(pattern: re.Pattern[str], value: object, where: str) -> str:
    text = _text(value, where)
    if not pattern.fullmatch(text):
        raise NotThatLayout(f"{where}: not hex digits as they belong there")
    return text


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_REASON:
        raise NotThatLayout(f"{where}: not a text of {LONGEST_REASON} characters at most")
    return value


def _mapping(value: object, where: str, most_bytes: int) -> Mapping[str, Json]:
    if not isinstance(value, dict) or len(canonical_json(value)) > most_bytes:
        raise NotThatLayout(f"{where}: not an object of {most_bytes} bytes at most")
    return value
