"""Bodies from the outbox: text of a bounded size, or a reason. Nothing is cut and nothing is repaired."""

import hashlib

import pytest

from guards.delivery.bodies import MOST_BODY_BYTES, Body, NoBody, body_of, outbox_path
from guards.delivery.slot import Slot

pytestmark = pytest.mark.fast


def test_a_body_is_its_bytes_and_its_digest_is_theirs() -> None:
    body = body_of("# 월요일\n".encode())

    assert body == Body("# 월요일\n")
    assert isinstance(body, Body)
    assert (body.size_bytes, body.sha256) == (12, hashlib.sha256("# 월요일\n".encode()).hexdigest())


def test_a_body_of_exactly_the_limit_is_sent_whole() -> None:
    assert isinstance(body_of(b"a" * MOST_BODY_BYTES), Body)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"a" * (MOST_BODY_BYTES + 1), "more than 32,768 bytes"),
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"a\x00b", "NUL"),
        (b"abc\xff", "not UTF-8 (byte 3)"),
        ("\ud800".encode("utf-8", "surrogatepass"), "not UTF-8"),
    ],
    ids=["oversized", "empty", "blank", "NUL", "not UTF-8", "a lone surrogate"],
)
def test_what_is_no_text_of_a_bounded_size_is_a_reason(data: bytes, why: str) -> None:
    """A job that died half-way dropped 40 KiB of NULs, and they were sent."""
    body = body_of(data)

    assert isinstance(body, NoBody)
    assert why in body.why


def test_a_slots_body_lies_below_the_outbox_by_the_slots_own_grammar() -> None:
    assert outbox_path(Slot("acme-1", "2026-W49", "weekly")) == ("acme-1", "2026-W49", "weekly.md")
