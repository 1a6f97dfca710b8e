"""Patience with providers: the one place for their time-outs and bounds, with the reason for each number.

Nothing is tried again here. A call ends within its total time whatever the other side does: a peer that sends a byte now and then
never runs into a time-out per read, so a `Deadline` cuts the connection itself.
"""

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeVar

Result = TypeVar("Result")
Instead = TypeVar("Instead")

CONNECT_SECONDS: Final = 5.0
"""TCP and TLS set-up. Two lost SYNs are resent after 1 and 3 s. Not connected is provably not sent, so giving up early costs nothing."""
WEBHOOK_SECONDS: Final = 20
"""One answer of a webhook. What takes longer should answer 202; a lost answer costs a person's look."""
SLACK_SECONDS: Final = 10
"""Slack answers in 0.1 to 1 s and itself ends calls after seconds."""
SMTP_SECONDS: Final = 120
"""All of one mail. RFC 5321 (4.5.3.2.6) allows ten minutes for the last reply, scanners take up to a minute in practice, and a grant
lives 15 minutes: every call has to end well before its lease does."""
GOODBYE_SECONDS: Final = 5.0
"""The answer to QUIT, asked for only to see that replies are in step: what the last dot was answered stands when none comes."""
LONGEST_SECONDS: Final = 300
"""What settings may ask for: a third of a grant's life, so that a run of messages cannot outlive its lease in one call."""
LOOKUP_SECONDS: Final = 20
"""One look-up of a webhook; it can be asked again at any time."""
SLACK_LOOKUP_SECONDS: Final = 120
"""Ten pages of a channel take 10 s; a token that is rate-limited or a slow page is no reason to keep an apply run waiting."""
MOST_ANSWER_BYTES: Final = 256 * 1024
"""Of an HTTP answer. A receipt is small; what is longer is a page for people, or a flood."""
MOST_REPLIES: Final = 100
"""SMTP lines of one reply: EHLO answers have about 15."""


@dataclass(slots=True)
class Deadline:
    """A total time for one call, in seconds. Inside the block `watch` a connection: it is cut when the time is over.

    with Deadline(20) as deadline:
        deadline.watch(connection)
    """

    seconds: float
    _ends_at: float = 0.0
    _timer: threading.Timer | None = None
    _watched: socket.socket | None = None
    has_passed: bool = False
    """It cut a connection: an error that follows is its doing."""

    def __enter__(self) -> Self:
        self._ends_at = time.monotonic() + self.seconds
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._watched is not None:
            self._watched.close()

    @property
    def left(self) -> float:
        """Seconds, 0.001 at least: a time-out of 0 means something else to a socket."""
        return max(self._ends_at - time.monotonic(), 0.001)

    def watch(self, connection: socket.socket) -> None:
        """Once per call. A duplicate is kept: TLS takes the descriptor of the socket it wraps."""
        self._watched = connection.dup()
        self._timer = threading.Timer(self.left, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def _cut(self) -> None:
        self.has_passed = True
        if self._watched is not None:
            with contextlib.suppress(OSError):
                self._watched.shutdown(socket.SHUT_RDWR)


def within(seconds: float, call: Callable[[], Result], *, otherwise: Instead) -> Result | Instead:
    """`call()`, or `otherwise` when it has not ended by then: for clients that hide their connection.

    What has not ended goes on in its thread and is no longer listened to: its effect is as unknown as that of any lost answer.
    """
    ended: queue.SimpleQueue[Result | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put(call())
        except Exception as error:  # noqa: BLE001 - raised again by whoever waits
            ended.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        result = ended.get(timeout=seconds)
    except queue.Empty:
        return otherwise
    if isinstance(result, Exception):
        raise result
    return result
