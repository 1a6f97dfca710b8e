"""Settings that decide where a message goes, what proves that it arrived, or whether a reminder is needed, are part of what was approved."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from guards.delivery.registry import Provider, Route
from guards.refusal import Refused
from resources.delivery.endpoints import check_ins_sha256, endpoint_of
from resources.delivery.route import CheckInFile, CheckInSource, CheckInTable
from resources.providers.settings import ProviderSettings, SmtpEndpoint, WebhookEndpoint
from tests.integration.delivery.watch import REMINDER, Watch

HOOK = WebhookEndpoint(url="https://example.com/hook", lookup_url="https://example.com/look", token=SecretStr("one"))
MAIL = SmtpEndpoint(host="mail.example.com", sender="ops@example.com", user="ops", password=SecretStr("one"))
TABLE = CheckInTable(url="postgresql://reader@db.example.com/shop", table="check_ins", password=SecretStr("one"))


def webhook_pin(endpoint: WebhookEndpoint) -> str:
    return endpoint_of(Route(Provider.WEBHOOK, "crm"), ProviderSettings(webhooks={"crm": endpoint})).config_sha256


def smtp_pin(endpoint: SmtpEndpoint) -> str:
    return endpoint_of(Route(Provider.SMTP, "jane@example.com"), ProviderSettings(smtp=endpoint)).config_sha256


@pytest.mark.parametrize(
    "changed",
    [
        {"url": "https://example.com/other"},
        {"lookup_url": ""},
        {"rejecting_statuses": frozenset({404})},
        {"must_echo_key": True},
        {"lookup_is_authoritative": True},
        {"ca_file": Path("/etc/ca.pem")},
        {"allow_cleartext": True},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_a_webhooks_answer_proves_is_pinned(changed: dict[str, object]) -> None:
    """After the approval, 422 was made a proof that nothing was taken; the endpoint had taken it."""
    assert webhook_pin(replace(HOOK, **changed)) != webhook_pin(HOOK)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        {"host": "other.example.com"},
        {"tls": "starttls", "port": 465},
        {"user": "boss"},
        {"sender": "boss@example.com"},
        {"message_id_domain": "other.example.com"},
        {"ca_file": Path("/etc/ca.pem")},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_by_which_server_and_in_whose_name_a_mail_goes_is_pinned(changed: dict[str, object]) -> None:
    assert smtp_pin(replace(MAIL, **changed)) != smtp_pin(MAIL)  # type: ignore[arg-type]


def test_a_renewed_secret_changes_no_pin() -> None:
    renewed = SecretStr("two")

    assert webhook_pin(replace(HOOK, token=renewed)) == webhook_pin(HOOK)
    assert smtp_pin(replace(MAIL, password=renewed)) == smtp_pin(MAIL)
    assert check_ins_sha256(replace(TABLE, password=renewed)) == check_ins_sha256(TABLE)
    assert check_ins_sha256(replace(TABLE, url="postgresql://reader:x@db.example.com/shop")) == check_ins_sha256(TABLE)


@pytest.mark.parametrize(
    "other",
    [
        None,
        CheckInFile(Path("/data/check_ins.jsonl")),
        replace(TABLE, url="postgresql://reader@replica.example.com/shop"),
        replace(TABLE, url="nowhere"),
        replace(TABLE, table="old.check_ins"),
    ],
    ids=["none", "a file", "another server", "no address", "another table"],
)
def test_another_source_of_check_ins_has_another_digest(other: CheckInSource) -> None:
    assert check_ins_sha256(other) != check_ins_sha256(TABLE)


def test_check_ins_read_elsewhere_since_the_approval_end_the_plan(made: Callable[..., Watch], tmp_path: Path) -> None:
    """The check-in was in the file that was approved; the settings were then pointed at an empty one, and the customer was reminded."""
    watch_ = made()
    watch_.approve_template()
    watch_.customer("acme-1", REMINDER)
    stored = watch_.approved()
    watch_.check_in("acme-1")
    (tmp_path / "other.jsonl").touch()
    moved = replace(watch_, route=replace(watch_.route, check_ins=CheckInFile(tmp_path / "other.jsonl")))

    refused = moved.apply(stored)

    assert isinstance(refused, Refused)
    assert refused.code.value == "policy_changed"
    assert watch_.sent_files() == []
