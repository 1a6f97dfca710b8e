"""Files that a person dropped into a watch's directories, moved out of the way of a night that must be played alone."""

import tempfile
from pathlib import Path

from opsguard_defs.sandbox.incident import is_played
from opsguard_defs.sandbox.layout import private_directory
from opsguard_defs.sandbox.lifecycle import Sandbox


def set_aside(sandbox: Sandbox, watch: str) -> Path | None:
    """Leaves nothing in spool, archive and inbox of `watch` but feeds of played nights, which the next night takes away by itself.

    Where the rest went: a new directory that no server shows; None when there was none.
    """
    places = sandbox.places(watch)
    named = (("outbound", places.outbound), ("archive", places.archive), ("inbox", places.inbox))
    foreign = [
        (place, path) for place, directory in named if directory.is_dir() for path in directory.iterdir() if not is_played(path)
    ]
    if not foreign:
        return None
    root = sandbox.layout.root / "set_aside"
    private_directory(root)
    aside = Path(tempfile.mkdtemp(prefix=f"{watch}-", dir=root))
    for place, path in foreign:
        private_directory(aside / place)
        path.rename(aside / place / path.name)
    return aside
