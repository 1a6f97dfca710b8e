"""`python -m opsguard_defs` is `opsguard`."""

from opsguard_defs.cli import main

if __name__ == "__main__":
    main()
