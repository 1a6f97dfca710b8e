"""`opsguard doctor` on a delivery watch: what would keep messages from being sent is said before the first of them is due."""

import hashlib
from pathlib import Path

import pytest

from guards.delivery.row import Head
from resources.ledger.file.store import FileLedger
from resources.state import StateStore
from tests.integration.command import Command
from tests.integration.test_cli_ledger import NOBODY, SETTINGS
from tests.integration.test_cli_ledger_blocked import alter_row, three_sent

REGISTRY = """\
version: 1
defaults: {zone: Asia/Tokyo}
customers: [{key: acme-1, route: {provider: file, directory: acme}, daily: {at: "09:00"}}]
"""


@pytest.fixture
def opsguard(tmp_path: Path) -> Command:
    home = tmp_path / "home"
    (tmp_path / "opsguard.toml").write_text(SETTINGS)
    for directory in (home, tmp_path / "templates", tmp_path / "outbox"):
        directory.mkdir()
    (tmp_path / "customers.yaml").write_text(REGISTRY)
    return Command(tmp_path, {"OPSGUARD_HOME": str(home), "OPSGUARD_STATE_URL": NOBODY})


def said(opsguard: Command, check: str) -> tuple[str, str]:
    seen = opsguard("doctor", "--guard", "delivery", "--json").objects
    return next((one["health"], one["message"]) for one in seen if one["check"] == check)


def test_an_altered_row_is_not_read_and_in_order(opsguard: Command, tmp_path: Path) -> None:
    """It said: 43 rows, all read and in order."""
    three_sent(tmp_path / "home/ledger")
    assert said(opsguard, "ledger")[0] == "ok"
    alter_row(tmp_path / "home/ledger")
    health, message = said(opsguard, "ledger")
    assert health == "misconfigured"
    assert "was altered" in message
    assert "`opsguard ledger verify`" in message


def test_a_ledger_that_was_there_and_is_gone_or_cut_back_is_not_well(
    opsguard: Command, tmp_path: Path, state_store: StateStore
) -> None:
    """It said that the first run makes it, and that all was well: every run refused."""
    ledger = tmp_path / "home/ledger"
    three_sent(ledger)
    known = Command(
        tmp_path, {**opsguard.environ, "OPSGUARD_STATE_URL": state_store.engine.url.render_as_string(hide_password=False)}
    )
    with FileLedger.open(ledger, create=False) as opened:
        seen = opened.health()
    state_store.published.publish(seen.store, seen.head, run_id="run-0", watch="customers")
    assert said(known, "ledger")[0] == "ok"

    state_store.published.publish(seen.store, Head(seen.head.sequence + 9, "ab" * 32), run_id="run-1", watch="customers")
    health, message = said(known, "ledger")
    assert health == "unreachable"
    assert "does not hold row" in message

    ledger.rename(tmp_path / "elsewhere")
    health, message = said(known, "ledger")
    assert health == "unreachable"
    assert f"is not in {ledger}" in message
    assert "opsguard ledger accept customers" in message
    assert said(opsguard, "ledger")[0] == "note", "nobody answers who would know of another"
    assert not ledger.exists()


def test_a_template_that_asks_for_what_there_is_not_is_named(opsguard: Command, tmp_path: Path) -> None:
    """Approved as it was, it kept every message from being sent on the first evening."""
    text = b"Dear {{nickname}}\n"
    (tmp_path / "templates/hello-v1.md").write_bytes(text)
    listed = f"version: 1\ntemplates:\n  hello-v1: {{sha256: {hashlib.sha256(text).hexdigest()}, approved_by: Kim}}\n"
    (tmp_path / "templates/approved.yaml").write_text(listed)
    health, message = said(opsguard, "templates")
    assert health == "misconfigured"
    assert "hello-v1" in message
    assert "nickname" in message
