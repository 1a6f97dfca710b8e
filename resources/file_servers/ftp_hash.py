"""The server's own SHA-256: HASH (draft-bryan-ftpext-hash) or XSHA256. Only what FEAT offers and what answers to the letter counts."""

import re
from typing import Final

from resources.file_servers.ftp_control import FtpControl
from resources.file_servers.mlsd import count

_DIGITS: Final = r"(?P<digits>[0-9a-fA-F]{64})"
_HASH_REPLY: Final = re.compile(rf"SHA-256 (?P<first>\d+)-(?P<last>\d+) {_DIGITS}(?: .*)?", re.DOTALL)
_XSHA256_REPLY: Final = re.compile(rf"{_DIGITS} *")


def server_sha256(control: FtpControl, path: str) -> str | None:
    """64 lower-case hex digits; None when the server has no such command, refuses, or answers anything that is not sure.

    Only the last line of a reply is read: ProFTPD says "Computing SHA-256 digest" before it. The range of a HASH reply must be the
    whole file as SIZE gives it (ProFTPD counts its end like a length, the draft like an offset).
    """
    control.binary()
    if "SHA-256" in re.split(r"[;* ]+", control.features.get("HASH", "").upper()) and control.ask("OPTS HASH SHA-256").done:
        size = control.ask("SIZE", path)
        length = count(size.text) if size.code == 213 else None
        control.tell("HASH", path)
        reply = control.reply(seconds=control.patience.settle_seconds)
        found = _HASH_REPLY.fullmatch(reply.lines[-1]) if reply.code == 213 else None
        if found is None or length is None:
            return None
        whole = int(found["first"]) == 0 and int(found["last"]) in (length, max(length - 1, 0))
        return found["digits"].lower() if whole else None
    if "XSHA256" in control.features and '"' not in path:
        control.tell("XSHA256", f'"{path}"' if " " in path else path)
        reply = control.reply(seconds=control.patience.settle_seconds)
        found = _XSHA256_REPLY.fullmatch(reply.lines[-1]) if reply.code in (213, 250) else None
        return found["digits"].lower() if found is not None else None
    return None
