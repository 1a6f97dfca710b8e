"""What of an approved plan did not go out is said by the command that sends it."""

from pathlib import Path

from opsguard_defs import runs
from opsguard_defs.cli.apply import _exit_of, apply_json, show_apply
from resources.state import StateStore
from tests.integration.delivery.dagster_world import installed
from tests.servers.webhook import Lie, lying_webhook


def test_a_message_that_the_provider_refused_is_named_and_is_not_success(
    state_store: StateStore, database_url: str, tmp_path: Path, capsys
) -> None:
    """A reminder was refused with 422; `opsguard apply` said "applied", showed no line of it and ended with 0."""
    with lying_webhook(Lie.REJECT) as server:
        hook = f'[watch.webhooks.partner]\nurl = "{server.url}/messages"'
        policy = '[watch.policy]\nknown_failure_kinds = ["daily", "reminder"]'
        with installed(tmp_path / "home", database_url, state_store, hook, policy) as acme:
            acme.customers({"route": {"provider": "webhook", "webhook": "partner"}})
            acme.body()

            applied: runs.ApplyResult = acme.send()

            assert (applied.outcome, applied.receipts) == ("applied", [])
            (told,) = apply_json(applied)["not_sent"]
            assert (told["subject"], told["outcome"]) == (acme.slot(), "failed")
            show_apply(applied)
            assert _exit_of(applied) == 4
            assert f"{acme.slot()}: failed: " in capsys.readouterr().out
            assert server.accepted == []
