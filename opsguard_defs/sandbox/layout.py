"""Where the sandbox keeps what, below $OPSGUARD_HOME, and how files are written there: 0600 in directories of 0700, never half."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from resources.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Layout:
    home: Path
    """Absolute."""

    @property
    def root(self) -> Path:
        return self.home / "sandbox"

    @property
    def config(self) -> Path:
        """The `opsguard.toml` that names the sandbox's servers."""
        return self.home / "opsguard.toml"

    @property
    def env_file(self) -> Path:
        """NAME=value lines: the passwords of `config`."""
        return self.home / "sandbox.env"

    @property
    def state(self) -> Path:
        """What runs, written when all of it accepts connections."""
        return self.root / "state.json"

    @property
    def ports(self) -> Path:
        """Ports of the last start: taken again when free, so that plans (whose scope names the port) stay valid."""
        return self.root / "ports.json"

    @property
    def written_config(self) -> Path:
        """`config` as we last wrote it, to see whether a person changed it since."""
        return self.root / "opsguard.toml.written"

    @property
    def start_lock(self) -> Path:
        """Held during `up` and `down`."""
        return self.root / "start.lock"

    @property
    def keeper_lock(self) -> Path:
        """Held by the keeper for as long as it lives: the kernel's own answer to "is it running"."""
        return self.root / "keeper.lock"

    @property
    def keeper_log(self) -> Path:
        return self.logs / "keeper.log"

    @property
    def identity(self) -> Path:
        """Host keys, certificates, passwords."""
        return self.root / "identity"

    @property
    def known_hosts(self) -> Path:
        return self.root / "known_hosts"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def nights(self) -> Path:
        """How many nights were played per watch."""
        return self.root / "nights.json"

    @property
    def customers(self) -> Path:
        """Registry, templates, outbox, check-ins and hand-offs of the watch `customers`."""
        return self.root / "customers"

    def files(self, server: str) -> Path:
        """The directory that `server` shows as `/`."""
        return self.root / "files" / server

    def make(self) -> None:
        """Create the directories. Raises ConfigurationError when the home cannot be written."""
        try:
            for directory in (self.home, self.root, self.identity, self.logs, self.root / "files"):
                private_directory(directory)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise ConfigurationError(
                f"The sandbox keeps its servers' files in {self.home}, and that cannot be written: {error.strerror or error}."
                " Give a directory that you may write: OPSGUARD_HOME=/path/to/it."
            ) from error


def default_home() -> Path:
    """$OPSGUARD_HOME, else `.opsguard` where we stand."""
    return Path(os.environ.get("OPSGUARD_HOME") or ".opsguard").absolute()


def private_directory(directory: Path) -> None:
    """Exists afterwards and, if we made it, is 0700. An existing one is left as its owner made it."""
    if not directory.is_dir():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_private(path: Path, content: str | bytes) -> None:
    """Whole or not at all, 0600."""
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone until the end of the block; the kernel lets go if we die."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Does a living process hold it?"""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(handle)
