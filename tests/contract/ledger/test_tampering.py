"""What somebody changed from outside: named, never sent where there is doubt, and the rest goes on. The same on files and PostgreSQL.

The model keeps nothing that could be changed from outside.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from guards.delivery.outcome import Reason, delivered, unknown
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.replay import FaultKind as F
from guards.delivery.reservation import ReservationState as S
from guards.delivery.slot import Grant
from resources.errors import OpsGuardError
from resources.ledger.interface import Ledger
from tests.contract.state.worlds import by_hand
from tests.ledgers.builders import EVIDENCE, KIM, LEE, PINS, RECEIPT, code, feed, granted, reserved, told
from tests.ledgers.worlds import World

pytestmark = pytest.mark.parametrize("world", ["file", "postgres"], indirect=True)

VICTIM, BEFORE, BESIDE, AFTER = feed("victim"), feed("before"), feed("beside"), feed("after")
OPENED, SENDING, DOUBTED = 2, 3, 5
"""The victim's rows; row 4 is another slot's, and so are 1 and 6."""


def written(world: World) -> None:
    """One slot may have been sent; beside it, one prepared earlier, one in between, and one that was sent later."""
    with world.open() as ledger:
        reserved(ledger, BEFORE)
        grant = granted(ledger, VICTIM)
        reserved(ledger, BESIDE)
        told(ledger.settle(grant, unknown(Reason.NO_ANSWER)))
        told(ledger.settle(granted(ledger, AFTER), delivered(RECEIPT)))


@dataclass(frozen=True, slots=True)
class Tampering:
    """`kinds`: what a verification must name, one of them. `blocks_all`: nothing at all may be sent afterwards."""

    kinds: frozenset[F]
    in_files: Callable[[Path], None]
    in_database: tuple[str, ...]
    blocks_all: bool = False


def segment(root: Path) -> Path:
    return root / "segments" / "000001.jsonl"


def with_lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    def tamper(root: Path) -> None:
        lines = segment(root).read_bytes().splitlines(keepends=True)
        segment(root).write_bytes(b"".join(change(lines)))

    return tamper


def altered(sequence: int, old: bytes, new: bytes) -> Callable[[list[bytes]], list[bytes]]:
    def change(lines: list[bytes]) -> list[bytes]:
        assert old in lines[sequence - 1]
        return [*lines[: sequence - 1], lines[sequence - 1].replace(old, new, 1), *lines[sequence:]]

    return change


def without(sequence: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[: sequence - 1], *lines[sequence:]]


def swapped(sequence: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[: sequence - 1], lines[sequence], lines[sequence - 1], *lines[sequence + 1 :]]


def row_altered(sequence: int, old: str, new: str) -> str:
    return f"""UPDATE opsguard.ledger_rows SET "row" = replace("row", '{old}', '{new}') WHERE sequence = {sequence}"""


TAMPERING = {
    "its doubt made a failure": Tampering(
        frozenset({F.DIGEST}),
        with_lines(altered(DOUBTED, b'"unknown"', b'"known_failure"')),
        (row_altered(DOUBTED, '"unknown"', '"known_failure"'),),
    ),
    "its last row gone": Tampering(
        frozenset({F.SEQUENCE, F.CHAIN}),
        with_lines(without(DOUBTED)),
        (f"DELETE FROM opsguard.ledger_rows WHERE sequence = {DOUBTED}",),
    ),
    "its grant gone": Tampering(
        frozenset({F.SEQUENCE, F.CHAIN}),
        with_lines(without(SENDING)),
        (f"DELETE FROM opsguard.ledger_rows WHERE sequence = {SENDING}",),
    ),
    "two rows swapped": Tampering(
        frozenset({F.SEQUENCE, F.CHAIN, F.DIGEST}),
        with_lines(swapped(DOUBTED - 1)),
        (
            f"UPDATE opsguard.ledger_rows SET sequence = 1000 WHERE sequence = {DOUBTED}",
            f"UPDATE opsguard.ledger_rows SET sequence = {DOUBTED} WHERE sequence = {DOUBTED - 1}",
            f"UPDATE opsguard.ledger_rows SET sequence = {DOUBTED - 1} WHERE sequence = 1000",
        ),
    ),
    "its claim gone": Tampering(
        frozenset({F.CLAIM}),
        lambda root: (root / "claims/partner-1" / VICTIM.period / "feed").unlink(),
        (f"DELETE FROM opsguard.ledger_slots WHERE period = '{VICTIM.period}'",),
    ),
    "its claim another's": Tampering(
        frozenset({F.CLAIM, F.PROJECTION}),
        lambda root: (
            shutil.copyfile(
                root / "claims/partner-1" / BESIDE.period / "feed", root / "claims/partner-1" / VICTIM.period / "feed"
            )
            and None
        ),
        (f"UPDATE opsguard.ledger_slots SET fence = 9 WHERE period = '{VICTIM.period}'",),
    ),
    "the chain cut back": Tampering(
        frozenset({F.HEAD}),
        with_lines(lambda lines: lines[: DOUBTED - 1]),
        (f"DELETE FROM opsguard.ledger_rows WHERE sequence >= {DOUBTED}",),
        blocks_all=True,
    ),
}


def tampered(world: World, name: str) -> Tampering:
    written(world)
    tampering = TAMPERING[name]
    if world.kind == "file":
        tampering.in_files(Path(world.where))
    else:
        by_hand(world.where, *tampering.in_database)
    return tampering


def tries_to_send(ledger: Ledger) -> bool:
    """By every call that could lead to a second message for the victim, in the order in which a run and a hasty person would try."""
    calls: list[Callable[[], object]] = [
        lambda: ledger.reserve(VICTIM, PINS, key="run-9"),
        lambda: ledger.grant(VICTIM.reservation_id(1), holder="run-9"),
        lambda: ledger.expire(VICTIM.reservation_id(1)),
        lambda: ledger.replace(VICTIM, approval=LEE, key="run-9"),
        lambda: ledger.grant(VICTIM.reservation_id(2), holder="run-9"),
        lambda: ledger.reserve(VICTIM, PINS, key="run-9"),
        lambda: ledger.grant(VICTIM.reservation_id(1), holder="run-9"),
    ]
    for call in calls:
        try:
            if isinstance(call(), Grant):
                return True
        except OpsGuardError:
            continue
    return False


@pytest.mark.parametrize("name", TAMPERING)
def test_what_was_tampered_with_is_named(world, name):
    tampering = tampered(world, name)
    faults = world.open().verify().faults
    assert tampering.kinds & {fault.kind for fault in faults}, faults
    assert all(fault.why for fault in faults)


@pytest.mark.parametrize("name", TAMPERING)
def test_a_slot_that_was_tampered_with_is_not_sent_again(world, name):
    tampered(world, name)
    assert not tries_to_send(world.open())


@pytest.mark.parametrize("name", [name for name, tampering in TAMPERING.items() if not tampering.blocks_all])
def test_new_slots_go_on_beside_one_that_was_tampered_with(world, name):
    tampered(world, name)
    ledger = world.open()
    assert told(ledger.settle(granted(ledger, feed("new")), delivered(RECEIPT))).state is S.DELIVERED
    assert ledger.verify().faults


@pytest.mark.parametrize("name", ["its doubt made a failure", "its claim gone", "its claim another's"])
def test_where_it_can_be_told_whose_row_it_was_every_other_slot_goes_on(world, name):
    tampered(world, name)
    ledger = world.open()
    for slot in (BEFORE, BESIDE):
        assert isinstance(ledger.grant(slot.reservation_id(1), holder="run-9"), Grant)


def test_a_chain_that_was_cut_back_stops_every_slot_that_it_may_have_told_of(world):
    """What was lost may be what says that a message went out. PostgreSQL keeps each slot's state beside the rows: there it is the victim's."""
    tampered(world, "the chain cut back")
    ledger = world.open()
    answers = [ledger.grant(slot.reservation_id(1), holder="run-9") for slot in (BEFORE, BESIDE)]
    if world.kind == "file":
        assert {code(answer) for answer in answers} == {C.RECOVERY_REQUIRED}
        assert ledger.health().recovery
    else:
        assert all(isinstance(answer, Grant) for answer in answers)
    assert not tries_to_send(ledger)


def test_an_older_copy_put_back_is_told_by_the_head_that_was_published(world):
    """Nothing inside an older copy is wrong; only what was written down elsewhere can tell."""
    written(world)
    older = put_away(world)
    with world.open() as ledger:
        told(ledger.resolve(VICTIM.reservation_id(1), was_sent=True, evidence=EVIDENCE, approval=KIM))
        published = ledger.head()
    put_back(world, older)
    ledger = world.open()
    assert not ledger.extends(published)
    assert ledger.head().sequence == published.sequence - 1


TABLES = ("ledger_slots", "ledger_reservations", "ledger_rows", "ledger_head")


def put_away(world: World) -> object:
    if world.kind == "file":
        return {path: path.read_bytes() for path in Path(world.where).rglob("*") if path.is_file()}
    with psycopg.connect(world.where, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE public.{table} AS SELECT * FROM opsguard.{table}")
    return None


def put_back(world: World, older: object) -> None:
    if isinstance(older, dict):
        for path, content in older.items():
            path.write_bytes(content)
        return
    by_hand(
        world.where,
        *(f"DELETE FROM opsguard.{table}" for table in reversed(TABLES)),
        *(f"INSERT INTO opsguard.{table} SELECT * FROM public.{table}" for table in TABLES),
    )
