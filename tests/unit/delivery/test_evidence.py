"""Check-ins: read whole or unreadable. A row that nobody can read may be the one that matters."""

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from guards.delivery.evidence import MOST_EVIDENCE_BYTES, CheckIn, CheckIns, EvidenceUnreadable, check_in_of, parse_check_ins

pytestmark = pytest.mark.fast

AT = datetime(2026, 11, 29, 23, 55, tzinfo=UTC)
SINCE = AT - timedelta(days=3)


def row(customer: object = "acme-1", at: object = "2026-11-30T08:55:00+09:00", source: object = "app", **more: object) -> bytes:
    return json.dumps({"customer": customer, "at": at, "source": source, **more}).encode()


def read(*lines: bytes) -> CheckIns | EvidenceUnreadable:
    return parse_check_ins(b"\n".join(lines), since=SINCE)


def test_a_check_in_counts_for_its_local_date_in_the_customers_own_zone() -> None:
    found = read(row())

    assert isinstance(found, CheckIns)
    assert found.on("acme-1", date(2026, 11, 30), "Asia/Seoul") == CheckIn("acme-1", AT, "app")
    assert found.on("acme-1", date(2026, 11, 29), "UTC") is not None
    assert found.on("acme-1", date(2026, 11, 30), "UTC") is None
    assert found.on("beta-2", date(2026, 11, 30), "Asia/Seoul") is None


def test_blank_lines_further_keys_and_a_missing_last_newline_are_fine() -> None:
    found = read(row(shift="early"), b"", b"  ", row("beta-2"))

    assert isinstance(found, CheckIns)
    assert set(found.rows) == {"acme-1", "beta-2"}


def test_old_rows_are_checked_and_not_kept() -> None:
    found = read(row(at="2020-01-01T00:00:00Z"))

    assert found == CheckIns()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (row()[:-5], "is not one JSON object"),
        (b"[1]", "is not one JSON object"),
        (b"\xff\xfe", "is not one JSON object"),
        (b'{"customer": NaN}', "is not one JSON object"),
        (b'{"customer": "acme-1", "customer": "beta-2"}', "is not one JSON object"),
        (b"[" * 100_000, "is not one JSON object"),
        (row(customer=7), "names no customer"),
        (row(customer=""), "names no customer"),
        (row(customer="acme-1 "), "which no customer's key can be"),
        (row(customer="ACME-1"), "which no customer's key can be"),
        (row(at=None), "no usable time"),
        (row(at="yesterday"), "no usable time"),
        (row(at="2026-11-30T08:55:00"), "no usable time"),
        (row(at="0001-01-01T00:00:00+00:00"), "no usable time"),
        (row(at="9999-12-31T23:59:59+00:00"), "no usable time"),
        (row(source=None), "no source"),
    ],
)
def test_one_bad_row_makes_all_unreadable_and_is_named(line: bytes, why: str) -> None:
    """A half-written last line was skipped, and the customer it named was reminded."""
    found = read(row(), line, row())

    assert isinstance(found, EvidenceUnreadable)
    assert found.why.startswith("line 2 of the check-ins")
    assert why in found.why


def test_a_file_over_its_limit_is_unreadable() -> None:
    found = parse_check_ins(b"\n" * (MOST_EVIDENCE_BYTES + 1), since=SINCE)

    assert isinstance(found, EvidenceUnreadable)


def test_a_long_source_is_shortened_since_it_is_only_for_people() -> None:
    found = check_in_of("acme-1", AT, "x" * 1_000)

    assert isinstance(found, CheckIn)
    assert len(found.source) == 200


def test_keys_that_the_registry_does_not_have_are_told_apart() -> None:
    found = read(row(), row("gamma-3"), row("beta-2"))

    assert isinstance(found, CheckIns)
    assert found.strangers({"acme-1"}) == ("beta-2", "gamma-3")
