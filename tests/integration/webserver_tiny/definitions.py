"""One job that would be worth launching, one asset that would be worth reading."""

import dagster as dg


@dg.op
def write_something() -> None:
    """Its run's record is what the tests count."""


@dg.job
def dangerous() -> None:
    write_something()


@dg.asset(description="The secret plan: feeds of partner Acme.")
def plan() -> None: ...


defs = dg.Definitions(jobs=[dangerous], assets=[plan])
