"""The sandbox's variables, which it writes beside its settings file so that no password has to be copied by hand."""

import os
import re
import stat
from pathlib import Path

from resources.errors import ConfigurationError

FILE_NAME = "sandbox.env"


def read_sandbox_environment(directory: Path) -> dict[str, str]:
    """`NAME=value` lines of `sandbox.env`, defaults below the real environment; empty when there is no such file.

    The file holds passwords: one that others may read, or that somebody else owns, is refused.
    """
    path = directory / FILE_NAME
    try:
        status = path.stat()
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read ({error})") from None
    if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.geteuid():
        raise ConfigurationError(f"{path}: holds passwords and is open to others: `chmod 600 {path}`, and own it")
    pairs = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = re.fullmatch(r"(?:export )?([A-Za-z_][A-Za-z0-9_]*)=(.*)", line)
        if found is None:
            raise ConfigurationError(f"{path}: line {number}: must be NAME=value")
        pairs[found[1]] = found[2]
    return pairs
