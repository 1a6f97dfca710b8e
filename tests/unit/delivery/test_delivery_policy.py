"""The policy of a delivery watch: bounds are refused, and equal policies have one spelling."""

import pytest
from pydantic import ValidationError

from guards.delivery.policy import DeliveryPolicy

pytestmark = pytest.mark.fast


def test_the_order_in_which_kinds_are_given_does_not_change_the_plan() -> None:
    given = DeliveryPolicy.model_validate({"known_failure_kinds": ["reminder", "daily", "reminder"]})

    assert given == DeliveryPolicy(known_failure_kinds=("daily", "reminder"))
    assert given.as_json()["known_failure_kinds"] == ["daily", "reminder"]


def test_what_is_written_is_what_is_read() -> None:
    policy = DeliveryPolicy(max_messages_per_run=7, only_standing=True)

    assert DeliveryPolicy.model_validate(policy.as_json()) == policy


@pytest.mark.parametrize(
    "bad",
    [
        {"known_failure_kinds": ["feed"]},
        {"known_failure_kinds": "reminder"},
        {"max_messages_per_run": 0},
        {"max_messages_per_run": 5_001},
        {"look_back_days": -1},
        {"look_ahead_hours": 745},
        {"approval_timeout_minutes": 0},
        {"catch_up": "none"},
    ],
)
def test_what_is_out_of_bounds_or_unknown_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        DeliveryPolicy.model_validate(bad)
