"""Patience with servers that are meant to answer: they get all the time of a busy machine, and one more attempt at once."""

from resources.file_servers.connect import Patience
from tests.patience import PATIENCE_SECONDS

QUICK = Patience(
    connect_seconds=PATIENCE_SECONDS,
    stall_seconds=PATIENCE_SECONDS,
    settle_seconds=PATIENCE_SECONDS,
    attempts=2,
    first_pause_seconds=0.01,
)
