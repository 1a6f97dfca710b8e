"""Builds trees of the older layout, written from its description and not with the code that reads it."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 11, 30, 0, 0, tzinfo=UTC)
DAY = "2026-11-30"


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def reservation(customer: str, kind: str, day: str = DAY) -> str:
    return sha256(f"{customer}/{day}/{kind}".encode())[:40]


@dataclass
class OldTree:
    """`tree.slot("acme-1", "daily", "prepared", "sending")` appends rows and the claim; `write` makes the files."""

    root: Path
    rows: list[dict[str, Any]] = field(default_factory=list)
    claims: dict[str, bytes] = field(default_factory=dict)
    fence: dict[str, Any] = field(default_factory=lambda: {"version": 1, "state": "ready"})

    def slot(self, customer: str, kind: str, *states: str, claim: str = "tombstone", reason: str = "") -> "OldTree":
        pins = {"body_sha256": sha256(customer.encode()), "destination": f"#{customer}"}
        receipt = {"message": f"{customer}-{kind}", "at": "2026-11-30T09:00:00Z"}
        for state in states:
            resolved = state.startswith("resolved")
            self.rows.append(
                {
                    "customer": customer,
                    "day": DAY,
                    "kind": kind,
                    "reservation": reservation(customer, kind),
                    "state": state,
                    "at": self._at(len(self.rows)),
                    "pins": pins,
                    "pins_digest": sha256(canonical(pins)),
                    "reason": reason if state not in ("prepared", "sending") else "",
                    "receipt": receipt if state in ("delivered", "sent_audited") else {},
                    "evidence": {"asked": "the customer"} if resolved else {},
                    "approved_by": "Ada L." if resolved else "",
                }
            )
        if claim == "tombstone":
            self.claim(customer, kind, sha256(canonical(pins)))
        elif claim == "older":
            self.claims[f"{customer}/{DAY}/{kind}.claim"] = b"claimed by host7 pid 4711\n"
        return self

    def claim(self, customer: str, kind: str, pins_digest: str = "a" * 64, /, **changed: str) -> "OldTree":
        content = {
            "customer": customer, "day": DAY, "kind": kind, "reservation": reservation(customer, kind),
            "pins_digest": pins_digest, "claimed_at": self._at(len(self.rows)), **changed,
        }  # fmt: skip
        body = canonical(content)
        self.claims[f"{customer}/{DAY}/{kind}.claim"] = b"opsguard-claim-v1 " + sha256(body).encode() + b"\n" + body + b"\n"
        return self

    def write(self) -> Path:
        lines, previous = [], "0" * 64
        for number, row in enumerate(self.rows, start=1):
            content = {"sequence": number, "previous": previous, **row}
            previous = sha256(canonical(content))
            lines.append(canonical({**content, "digest": previous}) + b"\n")
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "scheduled-deliveries.jsonl").write_bytes(b"".join(lines))
        fence = {"sequence": len(self.rows), "digest": previous, **self.fence}
        (self.root / "scheduled-deliveries-fence.json").write_bytes(canonical(fence) + b"\n")
        for name, claim in self.claims.items():
            path = self.root / "customer-schedule-claims" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(claim)
        return self.root

    def _at(self, number: int) -> str:
        return (START + timedelta(minutes=number)).isoformat(timespec="microseconds")


def every_state(root: Path) -> OldTree:
    """One slot in each state that the older ledger could leave behind."""
    tree = OldTree(root)
    tree.slot("acme-1", "daily", "prepared", "sending", "delivered")
    tree.slot("acme-2", "daily", "prepared", "sending", "delivered", "sent_audited")
    tree.slot("acme-3", "daily", "prepared")
    tree.slot("acme-4", "daily", "prepared", "sending")
    tree.slot("acme-5", "reminder", "prepared", "sending", "known_failure", reason="422 from the webhook: no such channel")
    tree.slot("acme-6", "weekly", "prepared", "sending", "unknown", reason="answer lost")
    tree.slot("acme-7", "monthly", "prepared", "abandoned", reason="terminal response")
    tree.slot("acme-8", "cutoff", "prepared", "sending", "unknown", "resolved_sent")
    tree.slot("acme-9", "reminder", "prepared", "sending", "unknown", "resolved_not_sent")
    tree.claim("bolt-1", "daily")
    tree.slot("bolt-2", "daily", claim="older")
    tree.slot("bolt-3", "reminder", "prepared", "sending", "known_failure", claim="older")
    tree.slot("bolt-4", "reminder", "prepared", "sending", "unknown", "resolved_not_sent", claim="older")
    tree.slot("bolt-5", "daily", "prepared", "sending", "delivered", claim="older")
    return tree


def bytes_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
