"""One module per stand-in server, each a program of its own: `python -m opsguard_defs.sandbox.servers.NAME`."""
