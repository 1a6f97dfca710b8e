"""An end to waiting for a server that took the connection and then says nothing: it hangs up from our side."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def hung_up_after(seconds: float, fileno: int) -> Iterator[threading.Event]:
    """Whoever waits on this socket gets an end of file after `seconds`; the event then says that it was us. What a server can be told to
    limit (`statement_timeout`) and what TCP notices do not cover a stopped process whose host still answers."""
    ours = socket.socket(fileno=os.dup(fileno))  # of our own: the number of a closed one may be somebody else's by then
    was_us = threading.Event()

    def hang_up() -> None:
        was_us.set()
        with suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield was_us
    finally:
        timer.cancel()
        timer.join()
        ours.close()
