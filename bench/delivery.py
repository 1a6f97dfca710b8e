"""The numbers of the `delivery` guard: `python -m bench.delivery [--json] [--only ROW] [--rounds N]`."""

import sys

from bench import ledger_file, ledger_postgres, schedule
from bench.harness import main

ROWS = (*ledger_file.ROWS, *ledger_postgres.ROWS, *schedule.ROWS)

if __name__ == "__main__":
    sys.exit(main("bench.delivery", ROWS))
