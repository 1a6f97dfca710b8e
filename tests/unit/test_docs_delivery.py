"""The operator's page of guard delivery names what the code has, and nothing is missing from it."""

import re
from typing import Final

import pytest

from assets.delivery_checks import CHECKS
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.verdict import DeliveryVerdict
from opsguard_defs.settings import DeliveryWatch
from opsguard_defs.settings.secrets import secret_variable
from tests.unit.test_docs import page, rows

pytestmark = pytest.mark.fast

PAGE: Final = "docs/delivery.md"


@pytest.mark.parametrize("key", [key for key in DeliveryWatch.model_fields if key not in {"guard", "name"}])
def test_every_key_of_a_watch_has_a_row(key: str) -> None:
    assert key in rows(page(PAGE))


@pytest.mark.parametrize("field", list(DeliveryPolicy.model_fields))
def test_every_policy_field_has_a_row_with_its_default(field: str) -> None:
    default = DeliveryPolicy.model_fields[field].default
    shown = {bool: str(default).lower(), tuple: '["reminder"]'}.get(
        type(default), f"{default:,}" if isinstance(default, int) else ""
    )

    assert shown in rows(page(PAGE))[field]


@pytest.mark.parametrize("verdict", list(DeliveryVerdict))
def test_every_verdict_has_a_row_that_says_whether_it_is_a_gap(verdict: DeliveryVerdict) -> None:
    row = rows(page(PAGE))[verdict.value]

    assert (row.split("|")[2].strip() == "yes") is verdict.is_gap


@pytest.mark.parametrize("check", list(CHECKS))
def test_every_check_is_explained(check: str) -> None:
    assert f"`{check}`" in page(PAGE)


@pytest.mark.parametrize("field", ["slack_token", "smtp_password", "check_ins_password"])
def test_every_secret_has_its_variable(field: str) -> None:
    assert f"`{secret_variable('delivery', 'customers', field)}`" in page(PAGE)


@pytest.mark.parametrize(
    "name", ["report", "send", "recover", "verify", "every_10_minutes", "expire", "approved_plans", "standing_approvals"]
)
def test_every_job_and_sensor_is_named(name: str) -> None:
    assert re.search(rf"`delivery_customers_{name}`", page(PAGE))
