"""Real processes on one store: who may call, who is gone, and who was only forked."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from guards.delivery.entry import Reservation
from guards.delivery.outcome import delivered
from guards.delivery.refusal import LedgerCode as C
from guards.delivery.reservation import ReservationState as S
from resources.ledger.file.store import FileLedger
from tests.ledgers.builders import RECEIPT, code, feed, granted, reserved, told
from tests.patience import until

SLOTS = 40
PROCESSES = 8

CONTEND = """
import sys
from pathlib import Path
from guards.delivery.outcome import delivered
from guards.delivery.slot import Grant
from resources.ledger.file.store import FileLedger
from tests.ledgers.builders import PINS, RECEIPT, feed, told
with FileLedger.open(Path(sys.argv[1]), seal_rows=17) as ledger:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[3])):
        held = told(ledger.reserve(feed(number), PINS, key=sys.argv[2]))
        grant = ledger.grant(held.reservation_id, holder=sys.argv[2])
        if isinstance(grant, Grant):
            print("called", number, flush=True)
            told(ledger.settle(grant, delivered(RECEIPT)))
"""

HOLD = """
import sys
from pathlib import Path
from resources.ledger.file.store import FileLedger
from tests.ledgers.builders import feed, granted
ledger = FileLedger.open(Path(sys.argv[1]))
granted(ledger, feed("held"))
print("granted", flush=True)
sys.stdin.readline()
"""


def started(code_: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code_, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_eight_processes_call_for_each_slot_once_and_lose_no_row(root):
    processes = [started(CONTEND, str(root), f"run-{number}", str(SLOTS)) for number in range(PROCESSES)]
    for each in processes:
        assert said(each) == "ready"
    for each in processes:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    answers = [each.communicate()[0] for each in processes]
    assert [each.returncode for each in processes] == [0] * PROCESSES
    calls = Counter(line for answer in answers for line in answer.splitlines())
    assert calls == {f"called {number}": 1 for number in range(SLOTS)}
    with FileLedger.open(root, seal_rows=17) as ledger:
        found = ledger.verify()
        assert (found.faults, found.rows, found.counts) == ((), 3 * SLOTS, {"delivered": SLOTS})


def test_a_holder_that_was_killed_is_expired_and_one_that_lives_is_not(root):
    holder = started(HOLD, str(root))
    assert said(holder) == "granted"
    reservation_id = feed("held").reservation_id(1)
    with FileLedger.open(root) as ledger:
        assert told(ledger.get(reservation_id)).is_live
        assert code(ledger.expire(reservation_id)) is C.LIVE
        assert ledger.health().stale_sending == ()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert ledger.health().stale_sending == (feed("held"),)
        assert told(ledger.expire(reservation_id)).state is S.UNKNOWN
        assert code(ledger.grant(reservation_id, holder="run-9")) is C.ILLEGAL_EDGE


def test_a_forked_child_neither_keeps_the_lease_nor_uses_the_store(root):
    """A worker that forked after a grant kept the lease alive for as long as its pool did."""
    holder = FileLedger.open(root)
    grant = granted(holder)
    reading, writing = os.pipe()
    waiting, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            holder.head()
            answer = b"used"
        except BaseException as error:
            answer = str(error).encode()
        os.write(writing, answer)
        os.read(waiting, 1)
        os._exit(0)
    assert b"parent process" in os.read(reading, 200)
    with FileLedger.open(root) as other:
        assert code(other.expire(grant.reservation_id)) is C.LIVE, "the parent has it still"
        holder.close()
        assert told(other.expire(grant.reservation_id)).state is S.UNKNOWN, "the child must not keep it"
    os.write(go, b".")
    os.waitpid(child, 0)
    for each in (reading, writing, waiting, go):
        os.close(each)


def test_a_process_that_was_started_by_the_holder_does_not_keep_the_lease(root):
    holder = FileLedger.open(root)
    grant = granted(holder)
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.readline()"], stdin=subprocess.PIPE, close_fds=False)
    holder.close()
    with FileLedger.open(root) as other:
        # The kernel lets the parent go on before it has closed the child's copies: for that moment the lease is held.
        until(lambda: isinstance(other.expire(grant.reservation_id), Reservation), "the lease's end")
        assert told(other.get(grant.reservation_id)).state is S.UNKNOWN
    child.communicate(b"\n")


def test_handles_of_one_process_count_as_several(root):
    with FileLedger.open(root) as one, FileLedger.open(root) as other:
        grant = granted(one)
        FileLedger.open(root).close()
        assert code(other.expire(grant.reservation_id)) is C.LIVE, "closing another handle dropped the lease"
        assert code(one.expire(grant.reservation_id)) is C.LIVE
        assert told(other.settle(grant, delivered(RECEIPT))).state is S.DELIVERED


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_handles_follow_each_other_over_the_ends_of_segments(root, rows):
    with FileLedger.open(root, seal_rows=rows) as one, FileLedger.open(root, seal_rows=rows) as other:
        for number in range(6):
            told(other.settle(granted(one, feed(number)), delivered(RECEIPT)))
            reserved(other, feed(f"{number}-b"))
            granted(one, feed(f"{number}-b"))
        assert one.head() == other.head()
        assert one.counts() == other.counts() == {"delivered": 6, "sending": 6}
        assert one.verify().faults == other.verify().faults == ()
