"""Ledgers for tests: one small world per store, builders, and processes that act on one."""
