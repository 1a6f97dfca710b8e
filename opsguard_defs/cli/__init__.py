"""The command line. Light on purpose: what a command works with is imported inside the command."""

import sys


def main() -> None:
    """Entry point of the `opsguard` program."""
    from opsguard_defs.cli.run import run

    sys.exit(run(sys.argv[1:]))
