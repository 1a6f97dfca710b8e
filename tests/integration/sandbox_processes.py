"""What the tests of the sandbox look at: processes of one home, found in /proc by their command lines and waited for."""

import re
from pathlib import Path

from opsguard_defs.processes import ProcessIdentity
from tests.patience import until


def processes_of(home: Path) -> dict[int, str]:
    """Living processes whose command line names `home`, with that command line. Linux only."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            is_zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if re.search(rf"{re.escape(str(home))}(?=[/ ]|$)", command) and not is_zombie:
            found[int(entry.name)] = command
    return found


def wait_until_gone(home: Path, *killed: ProcessIdentity) -> None:
    """Name those that were killed just now: while the kernel takes a process apart it has no command line any more, but still its ports
    and locks."""
    seen = set(killed)

    def are_gone() -> bool:
        seen.update(one for one in map(ProcessIdentity.of, processes_of(home)) if one is not None)
        return not any(one.is_alive() for one in seen)

    until(are_gone, f"no process of {home}")
