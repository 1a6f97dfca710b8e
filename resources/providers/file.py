"""The file provider: each message is one file, `<directory>/<destination>/<key>.json`, for another program to take.

A file appears whole or not at all and replaces nothing: it is written under a temporary name (a dot before, `.part` behind), synced,
and published by `link()`, which fails when the name is there. So everything before the link is provably not published, and everything
after it is doubt. Files are 0600 and directories 0700: the program that takes them is the same user.
"""

import errno
import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from guards.canonical import Json, canonical_json
from guards.delivery.registry import Provider as Named
from guards.gate import Authorization
from guards.text import one_line
from resources.ledger.file.disk import PRIVATE_DIRECTORY, Disk, File
from resources.providers.interface import (
    Accepted,
    Ambiguous,
    Answer,
    CannotTell,
    Capabilities,
    Found,
    Message,
    NotFound,
    Rejected,
    Sender,
    Sighting,
    unfit,
)
from resources.providers.settings import is_address

VERSION: Final = 1
MOST_FILE_BYTES: Final = 256 * 1024
"""A body of 32 KiB with every character escaped takes 192 KiB."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_LINKED: Final = _FULL | {errno.EPERM, errno.EACCES, errno.EROFS, errno.EMLINK, errno.ENOENT, errno.EOPNOTSUPP, errno.ENOSYS}
"""Said by the kernel instead of making the entry. EIO and the rest may come after it."""


class _NotOurs(Exception):
    """What lies under the name was not written by this provider; the sentence says why."""


@dataclass(frozen=True, slots=True)
class FileProvider:
    """`root` is made when only its last part is missing. `disk` is for tests: the layer where faults are put in."""

    root: Path
    disk: Callable[[Path], Disk] = Disk
    name: str = "file"

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            refuses_duplicates=True,
            says="the file provider finds a message as long as its file is there: a program that took the file away took the proof too",
        )

    def writer(self, authorization: Authorization, *, scope: str) -> Sender:
        return Sender(self._send, authorization, scope=scope)

    def _send(self, message: Message, key: str) -> Answer:
        if refused := unfit(message, key) or _bad_destination(message):
            return refused
        content = _content(message, key)
        try:
            self._make_directories(message.destination)
            disk = self.disk(self.root / message.destination)
        except OSError as error:
            return _rejected(error, "the directory could not be opened")
        with closing(disk):
            temporary = f".{key}.{secrets.token_hex(4)}.part"
            try:
                try:
                    _write(disk, temporary, content)
                except OSError as error:
                    return _rejected(error, "the file could not be written")
                return self._publish(disk, temporary, message, key)
            finally:
                with suppress(OSError):
                    disk.unlink(temporary)

    def asks(self, message: Message) -> str:
        return self.name

    def lookup(self, key: str, *, message: Message, since: datetime, until: datetime) -> Sighting:
        """The times are not needed: a name is a message, whenever it was written."""
        if refused := unfit(message, key) or _bad_destination(message):
            return CannotTell(refused.why)
        try:
            with closing(self.disk(self.root / message.destination)) as disk:
                return _sighting(disk, message, key)
        except OSError as error:
            return CannotTell(f"the directory of {message.destination} cannot be read ({_said(error)})")

    def _make_directories(self, destination: str) -> None:
        """Each is durable before a file is put into it."""
        with suppress(FileExistsError):
            self.root.mkdir(PRIVATE_DIRECTORY)
            with closing(self.disk(self.root.parent)) as above:
                above.sync_directory()
        with closing(self.disk(self.root)) as disk:
            with suppress(FileExistsError):
                disk.make_directory(destination)
            disk.sync_directory()

    def _publish(self, disk: Disk, temporary: str, message: Message, key: str) -> Answer:
        try:
            disk.link(temporary, _name(key))
        except FileExistsError:
            return self._already_there(disk, message, key)
        except OSError as error:
            if error.errno in _NOT_LINKED:
                return _rejected(error, "the file could not be published")
            return Ambiguous(f"publishing {_name(key)} failed with {_said(error)}: look whether it is there")
        return self._durable(disk, message, key)

    def _already_there(self, disk: Disk, message: Message, key: str) -> Answer:
        """The first call of this key got so far: the same content is the same acceptance, anything else is for a person."""
        match _sighting(disk, message, key):
            case Found():
                return self._durable(disk, message, key)
            case CannotTell(why):
                return Ambiguous(why)
            case NotFound():
                return Ambiguous(f"{_name(key)} was there and is gone: something else takes files from this directory")

    def _durable(self, disk: Disk, message: Message, key: str) -> Answer:
        try:
            disk.sync_directory()
        except OSError as error:
            return Ambiguous(f"{_name(key)} is there, but may not survive a power cut: syncing its directory said {_said(error)}")
        return Accepted(_receipt(message, key))


def _name(key: str) -> str:
    return f"{key}.json"


def _content(message: Message, key: str) -> bytes:
    """The same message gives the same bytes: no times, no process."""
    fields: Mapping[str, Json] = {
        "version": VERSION,
        "key": key,
        "destination": message.destination,
        "display": message.display,
        "subject": message.subject,
        "body": message.body,
        "body_sha256": message.body_sha256,
    }
    return canonical_json(fields) + b"\n"


def _receipt(message: Message, key: str) -> dict[str, Json]:
    return {"provider": "file", "file": f"{message.destination}/{_name(key)}", "key": key, "body_sha256": message.body_sha256}


def _write(disk: Disk, name: str, content: bytes) -> None:
    file = disk.create(name)
    try:
        written = 0
        while written < len(content):
            taken = disk.append(file, content[written:])
            if not taken:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += taken
        disk.sync(file)
    finally:
        disk.done(file)


def _sighting(disk: Disk, message: Message, key: str) -> Sighting:
    try:
        held = _read(disk, _name(key))
    except FileNotFoundError:
        return NotFound(f"the directory of {message.destination}: no {_name(key)} in it now")
    except OSError as error:
        return CannotTell(f"{_name(key)} cannot be read ({_said(error)})")
    except _NotOurs as error:
        return CannotTell(f"{_name(key)} is there, but {error}")
    told = (held.get("key"), held.get("destination"), held.get("body"), held.get("body_sha256"))
    if told != (key, message.destination, message.body, message.body_sha256):
        return CannotTell(f"{_name(key)} is there with another key, destination or body: compare it by hand")
    return Found(_receipt(message, key))


def _read(disk: Disk, name: str) -> Mapping[str, Any]:
    """`FileNotFoundError` only when the name is not there."""
    if not stat.S_ISREG(disk.status_of(name).st_mode):
        raise _NotOurs("it is no regular file")
    file = disk.open_read(name)
    try:
        content = _all(disk, file)
    finally:
        disk.done(file)
    try:
        held = json.loads(content)
    except (ValueError, RecursionError):
        raise _NotOurs("it is damaged: not JSON") from None
    if not isinstance(held, dict):
        raise _NotOurs("it holds something else than a message")
    return held


def _all(disk: Disk, file: File) -> bytes:
    content = b""
    while block := disk.read(file, len(content), MOST_FILE_BYTES + 1 - len(content)):
        content += block
        if len(content) > MOST_FILE_BYTES:
            raise _NotOurs("it is longer than any message")
    return content


def _bad_destination(message: Message) -> Rejected | None:
    if is_address(Named.FILE, message.destination):
        return None
    return Rejected(
        "invalid_destination",
        "a destination of the file provider is a directory's name: 1 to 64 of a-z, 0-9, dash and underscore",
    )


def _rejected(error: OSError, what: str) -> Rejected:
    return Rejected("disk_full" if error.errno in _FULL else "not_writable", f"{what} ({_said(error)}); nothing was published")


def _said(error: OSError) -> str:
    """Without the path, which may be long and is in the settings."""
    return one_line(error.strerror or type(error).__name__)
