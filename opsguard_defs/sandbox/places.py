"""The three directories of a watch, as they lie on this machine's disk behind the servers."""

from dataclasses import dataclass
from pathlib import Path

from opsguard_defs.sandbox.layout import Layout
from opsguard_defs.sandbox.roster import DemoWatch


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
