"""Names that we make on other people's servers, and the key under which the ledger knows a partner's inbox."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.spool.policy import SpoolPolicy
from resources.file_servers.endpoint import Endpoint
from resources.spool.memory import partner_key
from resources.spool.names import LONGEST_NAME_BYTES, aside_name, temp_name
from resources.spool.route import SpoolRoute

pytestmark = pytest.mark.fast

RUN = "0a1b2c3d-0000"
PATTERN = ".{name}.{run8}.part"
PARTNER = Endpoint(side="partner", scheme="ftp", host="ftp.acme.example", port=21, user="acme", directory="/inbox")
ROUTE = SpoolRoute(
    name="acme",
    source=Endpoint(side="source", scheme="sftp", host="spool.example", port=22, user="feeds", directory="/outbound"),
    archive="/archive",
    partner=PARTNER,
    policy=SpoolPolicy(),
    owners=(),
    nightly_cron="30 5 * * *",
)


def test_two_long_names_with_one_beginning_never_share_a_temporary_name() -> None:
    """Two parallel uploads under one temporary name: a partner got one feed's bytes under the other's name."""
    names = [f"{'L' * 240}_{number:03}.csv" for number in range(200)]
    made = {temp_name(PATTERN, name=name, run_id=RUN) for name in names}
    assert len(made) == len(names)
    assert {len(name.encode()) for name in made} == {LONGEST_NAME_BYTES}


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=255))
def test_a_temporary_name_always_fits_and_begins_like_its_feed(name: str) -> None:
    for made in (temp_name(PATTERN, name=name, run_id=RUN), aside_name(name=name, run_id=RUN)):
        assert len(made.encode("utf-8", "surrogateescape")) <= LONGEST_NAME_BYTES
        assert made.startswith(f".{name[:20]}")
        assert "0a1b2c3d" in made


def at(**changes: object) -> str:
    return partner_key(replace(ROUTE, partner=replace(PARTNER, **changes)))


def test_two_accounts_of_one_server_are_two_inboxes() -> None:
    """On a hosting server each account has a tree of its own: one partner's delivery archived the other's feed, unsent."""
    assert at(user="beta") != at(user="acme")


def test_the_same_inbox_in_another_spelling_of_its_host_is_the_same() -> None:
    assert at(host="FTP.Acme.Example.") == at()
    assert partner_key(replace(ROUTE, name="other")) == at()


def test_a_named_inbox_keeps_its_name_when_its_address_changes() -> None:
    named = replace(ROUTE, partner_id="acme-inbox")
    moved = replace(named, partner=replace(PARTNER, host="sftp.acme.example", port=22, scheme="sftp"))
    assert partner_key(moved) == partner_key(named) == "partner-id-acme-inbox"
