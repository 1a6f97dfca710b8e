"""URLs of file servers. The incident: a password in a URL was printed with the plan, and lived on in four systems' logs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsguard_defs.settings.server_url import parse_server_url

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sftp://feeds@handoff.example/outbound", ("sftp", "feeds", "handoff.example", 22, "/outbound")),
        ("ftp://feeds@handoff.example/outbound", ("ftp", "feeds", "handoff.example", 21, "/outbound")),
        ("ftps://feeds@handoff.example/outbound", ("ftps", "feeds", "handoff.example", 21, "/outbound")),
        ("ftps-implicit://feeds@handoff.example/outbound", ("ftps-implicit", "feeds", "handoff.example", 990, "/outbound")),
        ("sftp://feeds@handoff.example:2222/a/b/", ("sftp", "feeds", "handoff.example", 2222, "/a/b")),
        ("SFTP://Feeds@HANDOFF.example//a///b", ("sftp", "Feeds", "handoff.example", 22, "/a/b")),
        ("sftp://feeds@[::1]:2222/outbound", ("sftp", "feeds", "::1", 2222, "/outbound")),
        ("sftp://feeds@[2001:DB8::0:1]/outbound", ("sftp", "feeds", "2001:db8::1", 22, "/outbound")),
        ("sftp://feeds@192.0.2.7/", ("sftp", "feeds", "192.0.2.7", 22, "/")),
        ("sftp://a%40b@host/out%20going/%C3%A9", ("sftp", "a@b", "host", 22, "/out going/é")),
        ("sftp://feeds@host/raw%FF", ("sftp", "feeds", "host", 22, "/raw\udcff")),
    ],
)
def test_a_url_is_read_into_its_parts(text: str, expected: tuple[str, str, str, int, str]) -> None:
    url = parse_server_url(text)

    assert (url.scheme, url.user, url.host, url.port, url.directory) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a URL"),
        ("handoff.example/outbound", "not a URL"),
        ("http://feeds@host/outbound", "unknown scheme"),
        ("ftp+tls://feeds@host/outbound", "unknown scheme"),
        ("sftp://feeds:canary@host/outbound", "password in a URL is refused"),
        ("sftp://feeds:@host/outbound", "password in a URL is refused"),
        ("sftp://feeds:can@ary@host/outbound", "password in a URL is refused"),
        ("sftp://feeds%3Acanary@host/outbound", "without a colon"),
        ("sftp://host/outbound", "user is missing"),
        ("sftp://@host/outbound", "user is missing"),
        ("sftp://feeds@/outbound", "host must be"),
        ("sftp://feeds@ho_st..example/outbound", "host must be"),
        ("sftp://feeds@hôst/outbound", "host must be"),
        ("sftp://feeds@-host/outbound", "host must be"),
        ("sftp://feeds@host", "directory is missing"),
        ("sftp://feeds@host:0/outbound", "from 1 to 65535"),
        ("sftp://feeds@host:65536/outbound", "from 1 to 65535"),
        ("sftp://feeds@host:٢٢/outbound", "from 1 to 65535"),
        ("sftp://feeds@host:22:23/outbound", "from 1 to 65535"),
        ("sftp://feeds@[::1/outbound", "brackets"),
        ("sftp://feeds@[::1]x/outbound", "brackets"),
        ("sftp://feeds@[::zz]/outbound", "not an IPv6"),
        ("sftp://feeds@::1/outbound", "host must be"),
        ("sftp://feeds@host/outbound?x=1", "query or fragment"),
        ("sftp://feeds@host/outbound#part", "query or fragment"),
        ("sftp://feeds@host/a/../b", ". or .."),
        ("sftp://feeds@host/a/%2e%2e/b", ". or .."),
        ("sftp://feeds@host/a%2Fb", "encoded slash"),
        ("sftp://feeds@host/a%zz", "two hex digits"),
        ("sftp://feeds@host/a%0Ab", "control characters"),
        ("sftp://fe%0Aeds@host/a", "control characters"),
        ("sftp://feeds@host/a\nDELE b", "control character"),
        ("sftp://feeds@host/a b", "blank"),
        ("sftp://feeds@host/\u202efdp", "control character"),
        ("sftp://feeds@host/" + "a" * 1001, "1000 bytes"),
    ],
)
def test_a_url_outside_the_grammar_is_refused_and_never_repeated(text: str, said: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_server_url(text)

    assert said in str(refused.value)
    assert "canary" not in str(refused.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    for candidate in (text, f"sftp://u@h/{text}", f"sftp://u@{text}/d", f"sftp://{text}@h/d"):
        try:
            url = parse_server_url(candidate)
        except ValueError as error:
            assert len(str(error)) > 20  # noqa: PT017 - either way is fine, and both are looked at
            continue
        assert 1 <= url.port <= 65535
        assert url.directory.startswith("/")
        assert not any(part in {"", ".", ".."} for part in url.directory[1:].split("/") if url.directory != "/")
        assert not any(ord(character) < 32 for character in url.host + url.user + url.directory)
