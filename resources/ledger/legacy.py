"""The older single-file layout, taken over: its rows and claims as rows of today's chain, for `Ledger.adopt`.

What is read, exactly, stands in `legacy_format`; how, in `legacy_tree`. The old tree is only read.

A claim is never turned into something unsent:
* a claim without a row becomes `unknown`: its message may have gone out;
* `prepared` and `sending` become `unknown`: whoever held them is gone;
* an older claim without a header cannot say whose it is: beside rows that end "not sent" the slot becomes `unknown`;
* `delivered` keeps its receipt, and what a person resolved keeps the evidence and the name.

The same tree gives the same rows, byte for byte, so that an import that was cut off is simply made again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from guards.canonical import Json
from guards.delivery.entry import Entry, Event
from guards.delivery.outcome import LONGEST_NOTE, Approval, Reason
from guards.delivery.pins import NotPins, Pins
from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import EDGES, ReservationState
from guards.delivery.row import Head, append
from guards.delivery.slot import Slot
from resources.ledger.interface import Ledger, StoredRow, Verification
from resources.ledger.legacy_format import OldClaim, OldRow, check_fence, parse_claim, parse_rows
from resources.ledger.legacy_tree import NotThatLayout, Tree

HOLDER: Final = "import"
_UNDECIDED: Final = (ReservationState.PREPARED, ReservationState.SENDING)
_SAYS_NOT_SENT: Final = (ReservationState.KNOWN_FAILURE, ReservationState.RESOLVED_NOT_SENT)
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TakenOver:
    """`rows` for `adopt`. `doubtful` are the slots that the import itself made `unknown`, in slot order."""

    rows: tuple[StoredRow, ...]
    slots: int
    doubtful: tuple[Slot, ...]


def read_legacy(root: Path) -> TakenOver | LedgerRefused:
    """The whole tree or a refusal that names the first thing wrong; nothing was written either way."""
    try:
        with Tree(root) as tree:
            rows, head = parse_rows(tree.rows())
            check_fence(tree.fence(), head)
            claims = {claim.slot: claim for claim in map(parse_claim, tree.claims())}
        return _taken_over(rows, claims)
    except NotThatLayout as problem:
        return LedgerRefused(LedgerCode.INVALID, f"{root}: {problem}: nothing was imported")
    except OSError as error:
        return LedgerRefused(LedgerCode.INVALID, f"{root} cannot be read ({error.strerror or error}): nothing was imported")


def import_legacy(root: Path, ledger: Ledger) -> Verification | LedgerRefused:
    """Into an empty ledger, or one that holds exactly this import; whole or not at all."""
    taken = read_legacy(root)
    return taken if isinstance(taken, LedgerRefused) else ledger.adopt(taken.rows)


def _taken_over(rows: Sequence[OldRow], claims: Mapping[Slot, OldClaim]) -> TakenOver:
    by_slot: dict[Slot, list[OldRow]] = {}
    for row in rows:
        by_slot.setdefault(row.slot, []).append(row)
    for slot, of_slot in by_slot.items():
        _check_slot(of_slot, claims.get(slot))
    latest = max(
        [*(row.at for row in rows), *(claim.claimed_at for claim in claims.values() if claim.claimed_at)], default=_EARLIEST
    )
    made: list[tuple[datetime, Entry]] = []
    last: dict[Slot, Entry] = {}
    for row in rows:
        if _is_doubted(row, by_slot[row.slot], claims[row.slot]):
            continue
        entry = _entry(row, claims[row.slot], last.get(row.slot))
        made.append((row.at, entry))
        last[row.slot] = entry
    orphans = [claims[slot] for slot in sorted(set(claims) - set(by_slot))]
    made += [(claim.claimed_at or latest, _of_claim(claim)) for claim in orphans]
    undecided = [slot for slot, entry in sorted(last.items()) if entry.state in _UNDECIDED]
    made += [(latest, _doubt(last[slot], by_slot[slot][-1])) for slot in undecided]
    disbelieved = [slot for slot, of_slot in by_slot.items() if last[slot].state is not of_slot[-1].state]
    return TakenOver(
        rows=_chained(made),
        slots=len(claims),
        doubtful=tuple(sorted({*undecided, *disbelieved, *(claim.slot for claim in orphans)})),
    )


def _check_slot(rows: Sequence[OldRow], claim: OldClaim | None) -> None:
    first = rows[0]
    where = f"{first.slot.key} (line {first.sequence})"
    if claim is None:
        raise NotThatLayout(f"{where} has rows and no claim: its claim was lost")
    if claim.reservation and (claim.reservation, claim.pins_digest) != (first.reservation, first.pins_digest):
        raise NotThatLayout(f"{claim.name} contradicts line {first.sequence}: another reservation, or other pins")
    before: OldRow | None = None
    for row in rows:
        if (row.reservation, row.pins_digest) != (first.reservation, first.pins_digest):
            raise NotThatLayout(
                f"line {row.sequence}: another reservation, or other pins, than line {first.sequence} for {first.slot.key}"
            )
        if ((before.state if before else None), row.state) not in EDGES:
            raise NotThatLayout(f"line {row.sequence}: {row.state} does not follow {before.state if before else 'nothing'}")
        if row.state is ReservationState.SENT_AUDITED and before is not None and row.receipt != before.receipt:
            raise NotThatLayout(f"line {row.sequence}: an audit replaced the receipt")
        before = row


def _is_doubted(row: OldRow, of_slot: Sequence[OldRow], claim: OldClaim) -> bool:
    """A last row that says "not sent", and a claim that cannot say that it is of the same reservation."""
    return not claim.reservation and row is of_slot[-1] and row.state in _SAYS_NOT_SENT


def _entry(row: OldRow, claim: OldClaim, before: Entry | None) -> Entry:
    pins = _pins(claim, row)
    sending = row.state is ReservationState.SENDING
    fence = (before.fence if before else 0) + sending
    approval = Approval(approval_id=0, approved_by=row.approved_by).as_json() if row.approved_by else {}
    return Entry(
        event=Event.MOVED if before else Event.OPENED,
        slot=row.slot,
        attempt=1,
        state=row.state,
        fence=fence,
        holder=HOLDER if sending else (before.holder if before else ""),
        pins_digest=pins.digest,
        pins=None if before else pins,
        key="" if before else HOLDER,
        reason=None if row.state in _UNDECIDED else Reason.MIGRATED,
        note=row.reason if len(row.reason) <= LONGEST_NOTE else row.reason[: LONGEST_NOTE - 3] + "...",
        receipt=row.receipt,
        evidence=row.evidence,
        approval=approval,
    )


def _doubt(last: Entry, old: OldRow) -> Entry:
    """The import's own row. Where `unknown` came before a "not sent" that is not believed, none is needed."""
    return Entry(
        event=Event.MOVED,
        slot=last.slot,
        attempt=1,
        state=ReservationState.UNKNOWN,
        fence=last.fence,
        holder=last.holder,
        pins_digest=last.pins_digest,
        reason=Reason.MIGRATED,
        note=f"the older ledger ended with {old.state}",
    )


def _of_claim(claim: OldClaim) -> Entry:
    pins = _pins(claim, None)
    return Entry(
        event=Event.OPENED,
        slot=claim.slot,
        attempt=1,
        state=ReservationState.UNKNOWN,
        fence=0,
        holder="",
        pins_digest=pins.digest,
        pins=pins,
        key=HOLDER,
        reason=Reason.MIGRATED,
        note="a claim of the older ledger without a row" if claim.reservation else "an older claim without a header",
    )


def _pins(claim: OldClaim, row: OldRow | None) -> Pins:
    """What was to be sent as the older ledger had it, as one fact: it is never taken for a message of today."""
    facts: dict[str, Json] = {
        "imported_from": "scheduled-deliveries",
        "claim_sha256": claim.digest,
        "old_reservation": claim.reservation or (row.reservation if row else ""),
        "old_pins_digest": claim.pins_digest or (row.pins_digest if row else ""),
        "old_pins": dict(row.pins) if row else {},
    }
    try:
        return Pins(facts=facts)
    except NotPins as problem:
        raise NotThatLayout(f"{claim.slot.key}: {problem}") from None


def _chained(entries: Iterable[tuple[datetime, Entry]]) -> tuple[StoredRow, ...]:
    head = Head()
    rows: list[StoredRow] = []
    for at, entry in entries:
        (row,) = append(head, (entry,), at=at)
        rows.append(StoredRow(row.sequence, row.digest, row.bytes))
        head = row.head
    return tuple(rows)
