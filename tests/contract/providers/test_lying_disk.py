"""A disk that fails at any call, before or after it did its work, with a real ledger around it. The oracle is what can be picked up."""

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from guards.delivery.reservation import ReservationState as S
from resources.ledger.file.disk import Disk, File
from resources.ledger.memory import MemoryLedger
from resources.providers.file import FileProvider
from resources.providers.interface import Accepted, Ambiguous, CannotTell, Found, Message, NotFound, Rejected
from tests.contract.providers.worlds import BODY, EARLIER, KEY, LATER, World, attempted, published, send, tried_again

MESSAGE = Message("acme", BODY, subject="Morning", display="Acme")


@dataclass
class Script:
    """Which call fails, counted over all of one send: `fails_at` None fails none."""

    fails_at: int | None = None
    error: int = errno.EIO
    after: bool = False
    calls: list[str] = field(default_factory=list)

    def run(self, name: str, act: Callable[[], object]) -> object:
        self.calls.append(name)
        fails = len(self.calls) - 1 == self.fails_at
        if fails and not self.after:
            raise OSError(self.error, os.strerror(self.error))
        result = act()
        if fails:
            raise OSError(self.error, os.strerror(self.error))
        return result


def failing(script: Script) -> Callable[[Path], Disk]:
    class Failing(Disk):
        def make_directory(self, path: str) -> None:
            script.run("make_directory", lambda: super(Failing, self).make_directory(path))

        def create(self, path: str) -> File:
            made = script.run("create", lambda: super(Failing, self).create(path))
            assert isinstance(made, File)
            return made

        def append(self, file: File, data: bytes) -> int:
            taken = script.run("append", lambda: super(Failing, self).append(file, data[:100]))
            assert isinstance(taken, int)
            return taken

        def sync(self, file: File) -> None:
            script.run("sync", lambda: super(Failing, self).sync(file))

        def sync_directory(self, path: str = ".") -> None:
            script.run("sync_directory", lambda: super(Failing, self).sync_directory(path))

        def link(self, source: str, target: str) -> None:
            script.run("link", lambda: super(Failing, self).link(source, target))

        def unlink(self, path: str) -> None:
            script.run("unlink", lambda: super(Failing, self).unlink(path))

    return Failing


def made_for(root: Path, script: Script) -> World:
    return World(FileProvider(root, failing(script)), MESSAGE, lambda: published(root))


def calls_of_one_send(tmp_path: Path) -> list[str]:
    script = Script()
    send(made_for(tmp_path / "counted", script).provider, MESSAGE, key=KEY)
    return script.calls


def test_one_send_is_synced_before_and_after_it_is_published(tmp_path: Path) -> None:
    calls = calls_of_one_send(tmp_path)
    assert calls[:3] == ["sync_directory", "make_directory", "sync_directory"]
    assert [call for call in calls[3:] if call != "append"] == ["create", "sync", "link", "sync_directory", "unlink"]
    assert calls.count("append") > 1, "short writes are continued"


@pytest.mark.parametrize("after", [False, True], ids=["before its work", "after its work"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_failure_at_any_call_is_never_a_false_refusal_nor_a_false_acceptance(tmp_path: Path, error: int, after: bool) -> None:
    for at, call in enumerate(calls_of_one_send(tmp_path)):
        if after and call == "link" and error != errno.EIO:
            continue  # the kernel says these instead of linking
        root = tmp_path / f"{at}"
        script = Script(at, error, after)
        ledger = MemoryLedger()
        made = made_for(root, script)
        told = attempted(ledger, made)
        taken = made.taken()
        if isinstance(told.answer, Rejected):
            assert taken == [], (call, told.answer)
            assert told.answer.code == ("disk_full" if error == errno.ENOSPC else "not_writable")
        elif isinstance(told.answer, Accepted):
            assert taken == [KEY]
            assert call == "unlink", "only clearing away may fail unnoticed"
        else:
            assert call in ("link", "sync_directory")
        held, _ = tried_again(ledger)
        assert held.state is {Rejected: S.KNOWN_FAILURE, Accepted: S.DELIVERED, Ambiguous: S.UNKNOWN}[type(told.answer)]  # type: ignore[union-attr]
        if isinstance(told.answer, Ambiguous):
            sighting = FileProvider(root).lookup(KEY, message=MESSAGE, since=EARLIER, until=LATER)
            assert isinstance(sighting, Found if taken else NotFound)


def test_the_same_key_a_second_time_changes_nothing(tmp_path: Path) -> None:
    provider = FileProvider(tmp_path / "sent")
    first = send(provider, MESSAGE, key=KEY)
    before = content(tmp_path)
    assert send(provider, MESSAGE, key=KEY) == first
    assert content(tmp_path) == before


def test_a_file_with_other_content_under_this_key_is_a_doubt_and_stays(tmp_path: Path) -> None:
    provider = FileProvider(tmp_path / "sent")
    send(provider, MESSAGE, key=KEY)
    before = content(tmp_path)
    answer = send(provider, Message("acme", "another body"), key=KEY)
    assert answer == Ambiguous(f"{KEY}.json is there with another key, destination or body: compare it by hand")
    assert content(tmp_path) == before


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"[" * 100_000, b" " * 300_000, b'{"key": 1}', b"\xff"])
def test_a_damaged_file_is_never_a_proof(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / f"{KEY}.json").write_bytes(damage)
    provider = FileProvider(tmp_path)
    assert isinstance(provider.lookup(KEY, message=MESSAGE, since=EARLIER, until=LATER), CannotTell)
    assert isinstance(send(provider, MESSAGE, key=KEY), Ambiguous)
    assert (tmp_path / "acme" / f"{KEY}.json").read_bytes() == damage


def test_a_link_or_a_pipe_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    place, elsewhere = tmp_path / "acme" / f"{KEY}.json", tmp_path / "elsewhere.json"
    send(FileProvider(tmp_path), MESSAGE, key=KEY)
    place.rename(elsewhere)
    makes: tuple[Callable[[], None], ...] = (lambda: place.symlink_to(elsewhere), lambda: os.mkfifo(place), place.mkdir)
    for make in makes:
        make()
        assert isinstance(FileProvider(tmp_path).lookup(KEY, message=MESSAGE, since=EARLIER, until=LATER), CannotTell)
        assert isinstance(send(FileProvider(tmp_path), MESSAGE, key=KEY), Ambiguous)
        if make is makes[-1]:
            place.rmdir()
        else:
            place.unlink()


def test_a_destination_that_is_a_link_leads_nowhere(tmp_path: Path) -> None:
    """Somebody who may write into the directory must not choose where messages go."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "acme").symlink_to(tmp_path / "outside")
    answer = send(FileProvider(tmp_path / "sent"), MESSAGE, key=KEY)
    assert isinstance(answer, Rejected)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_missing_parent_and_a_file_in_the_way_are_refusals(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "no" / "such", tmp_path / "file"):
        answer = send(FileProvider(root), MESSAGE, key=KEY)
        assert isinstance(answer, Rejected)
        assert answer.code == "not_writable"
        assert isinstance(FileProvider(root).lookup(KEY, message=MESSAGE, since=EARLIER, until=LATER), CannotTell)


def test_files_are_private_and_no_temporary_one_stays(tmp_path: Path) -> None:
    send(FileProvider(tmp_path / "sent"), MESSAGE, key=KEY)
    (place,) = (path for path in (tmp_path / "sent").rglob("*") if path.is_file())
    assert place.name == f"{KEY}.json"
    assert [path.stat().st_mode & 0o777 for path in (place, place.parent, tmp_path / "sent")] == [0o600, 0o700, 0o700]
    assert json.loads(place.read_text("ascii"))["body"] == BODY


def content(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
