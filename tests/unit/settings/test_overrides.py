"""`--set FIELD=VALUE`: a policy for one run, checked like the file."""

import pytest

from guards.spool.policy import SpoolPolicy
from opsguard_defs.settings.overrides import override_policy
from resources.errors import ConfigurationError

pytestmark = pytest.mark.fast


def test_fields_are_read_by_their_kind() -> None:
    changed = override_policy(
        SpoolPolicy(max_file_megabytes=5),
        {"sla_minutes": "0", "archive_delivered": "true", "in_progress_suffixes": ".part, .x", "verify_delivered": "checksum"},
    )

    assert changed == SpoolPolicy(
        max_file_megabytes=5,
        sla_minutes=0,
        archive_delivered=True,
        in_progress_suffixes=(".part", ".x"),
        verify_delivered="checksum",
    )


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("sla_minuts", "1", "did you mean sla_minutes?"),
        ("sla_minutes", "-1", "from 0 to 525600"),
        ("sla_minutes", "ten", "from 0 to 525600"),
        ("sla_minutes", "1e3", "from 0 to 525600"),
        ("archive_delivered", "yes", "true or false"),
        ("verify_delivered", "md5", '"size", "checksum"'),
        ("in_progress_suffixes", "", "one or more endings"),
    ],
)
def test_a_bad_override_says_what_is_allowed(field: str, value: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        override_policy(SpoolPolicy(), {field: value})

    assert f"--set {field}" in str(refused.value)
    assert said in str(refused.value)
