"""Every command in one place: its name, where it stands in the help, and an example."""

import os
from typing import Annotated

import typer

from opsguard_defs.cli import alerts, apply, decide, demo, dev, doctor, init, records, report
from opsguard_defs.cli.ledger_accept import ledger
from opsguard_defs.cli.plans import plans
from opsguard_defs.cli.sandbox import sandbox
from opsguard_defs.cli.schedule import schedule
from opsguard_defs.cli.spool import spool
from opsguard_defs.cli.standing import standing
from opsguard_defs.cli.state import state

app = typer.Typer(
    name="opsguard",
    help="Finds the handoff that silently failed, says why, waits for a person, repairs exactly what was approved, and proves it.",
    epilog="Exit codes: 0 done or nothing to do; 2 bad usage or configuration; 3 refused, nothing written; "
    "4 ended without proof: the message says what to look at; 5 a system could not be reached or observed completely.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False,
) -> None:
    if debug:
        os.environ["OPSGUARD_DEBUG"] = "1"


def _example(text: str) -> str:
    return f"Example: {text}"


_TRY, _FLOW, _RECORDS, _SETUP = "Trying it out", "The flow", "Records", "Setting up"

app.command(epilog=_example("opsguard report spool/acme --set sla_minutes=30"), rich_help_panel=_FLOW)(report.report)
app.add_typer(plans, name="plans", rich_help_panel=_FLOW)
app.command(epilog=_example('opsguard approve 3f9c2a10 --by "Ada L." --comment "checked with acme"'), rich_help_panel=_FLOW)(
    decide.approve
)
app.command(epilog=_example('opsguard decline 3f9c2a10 --by "Ada L."'), rich_help_panel=_FLOW)(decide.decline)
app.command(epilog=_example("opsguard apply 3f9c2a10"), rich_help_panel=_FLOW)(apply.apply)
app.command(epilog=_example("opsguard verify spool/acme"), rich_help_panel=_FLOW)(apply.verify)
app.command(epilog=_example("opsguard receipts --guard spool"), rich_help_panel=_RECORDS)(records.receipts)
app.command(epilog=_example("opsguard init spool acme >> opsguard.toml"), rich_help_panel=_SETUP)(init.init)
app.command(epilog=_example("opsguard doctor --guard spool"), rich_help_panel=_SETUP)(doctor.doctor)
app.command(epilog=_example("opsguard demo --all-routes"), rich_help_panel=_TRY)(demo.demo)
app.add_typer(sandbox, name="sandbox", rich_help_panel=_TRY)
app.command(epilog=_example("opsguard dev --port 3000"), rich_help_panel=_TRY)(dev.dev)
app.command(epilog=_example("opsguard alerts --send"), rich_help_panel=_RECORDS)(alerts.alerts)
app.add_typer(ledger, name="ledger", rich_help_panel=_RECORDS)
app.add_typer(standing, name="standing", rich_help_panel=_FLOW)
app.add_typer(schedule, name="schedule", rich_help_panel=_FLOW)
app.add_typer(state, name="state", rich_help_panel=_SETUP)
app.add_typer(spool, name="spool", rich_help_panel=_RECORDS)
