"""The directories of a watch, as they lie on this machine's disk behind the servers."""

from dataclasses import dataclass
from pathlib import Path

from opsguard_defs.sandbox.layout import Layout
from opsguard_defs.sandbox.roster import WEBHOOKS, DemoWatch


@dataclass(frozen=True, slots=True)
class Places:
    outbound: Path
    archive: Path
    inbox: Path

    def all(self) -> tuple[Path, Path, Path]:
        return (self.outbound, self.archive, self.inbox)


def places(layout: Layout, watch: DemoWatch) -> Places:
    source, partner = layout.files(watch.source), layout.files(watch.partner)
    return Places(
        outbound=source / watch.outbound.lstrip("/"),
        archive=source / watch.archive.lstrip("/"),
        inbox=partner / watch.inbox.lstrip("/"),
    )


@dataclass(frozen=True, slots=True)
class CustomerPlaces:
    """What the watch `customers` reads, and what its providers were given."""

    registry: Path
    templates: Path
    outbox: Path
    check_ins: Path
    sent: Path
    """Hand-offs of the provider `file`: a directory per customer, a file per accepted message."""
    webhooks: Path
    """JSON lines: a line per message that the sandbox's webhooks accepted."""


def customer_places(layout: Layout) -> CustomerPlaces:
    root = layout.customers
    return CustomerPlaces(
        registry=root / "customers.yaml",
        templates=root / "templates",
        outbox=root / "outbox",
        check_ins=root / "check_ins.jsonl",
        sent=root / "sent",
        webhooks=layout.files(WEBHOOKS) / "messages.jsonl",
    )
