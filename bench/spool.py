"""The numbers of the `spool` guard: `python -m bench.spool [--json] [--only ROW] [--rounds N]`."""

import sys

from bench import commands, judging, redelivery, relay
from bench.harness import main

ROWS = (*relay.ROWS, *redelivery.ROWS, *judging.ROWS, *commands.ROWS)

if __name__ == "__main__":
    sys.exit(main("bench.spool", ROWS))
