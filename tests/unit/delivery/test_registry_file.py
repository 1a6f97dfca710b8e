"""`customers.yaml`: everything that is wrong is said at once, where it stands; what is right is read as it was meant."""

import hashlib
import importlib
import sys
import zoneinfo
from collections.abc import Iterator
from datetime import time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.delivery import registry_file
from guards.delivery.marked_yaml import MOST_PROBLEMS
from guards.delivery.registry import Customer, Overflow, Provider, Registry, Route, Rule, SlotIdentity, UntilWindowEnd
from guards.delivery.registry_file import parse_registry
from guards.delivery.slot import Kind
from tests.unit.delivery.registries import as_file, registry, reminder

pytestmark = pytest.mark.fast

ROUTE = "route: {provider: slack, channel: C0123456}"
DAILY = 'daily: {at: "09:00"}'


def document(*lines: str, defaults: str = "") -> bytes:
    """A file with one customer, acme-1; its `lines` begin in line 4, column 5."""
    head = ["version: 1", f"defaults: {{{defaults}}}", "customers:"]
    return "\n".join([*head, "  - key: acme-1", *(f"    {line}" for line in lines)]).encode()


def problems(data: bytes) -> list[str]:
    parsed = parse_registry(data)
    assert not isinstance(parsed, Registry), "nothing was wrong"
    return [str(problem) for problem in parsed]


def acme(data: bytes) -> Customer:
    parsed = parse_registry(data)
    assert isinstance(parsed, Registry), parsed
    return parsed.customers["acme-1"]


def test_the_form_in_the_documentation_is_one_that_is_read() -> None:
    example = (registry_file.__doc__ or "").split("\n\n")[1]
    parsed = parse_registry(example.encode())

    assert isinstance(parsed, Registry)
    assert parsed.digest == hashlib.sha256(example.encode()).hexdigest()
    assert parsed.zone == "Asia/Seoul"
    assert parsed.slot_identity is SlotIdentity.PERIOD
    one = parsed.customers["acme-1"]
    assert (one.display_name, one.enabled, one.zone, one.route) == (
        "Acme",
        True,
        "Europe/Berlin",
        Route(Provider.SLACK, "C0123456"),
    )
    assert one.rules == (
        Rule(kind=Kind.DAILY, at=time(9), catch_up=UntilWindowEnd.UNTIL_MIDNIGHT),
        Rule(kind=Kind.WEEKLY, at=time(10), catch_up=UntilWindowEnd.UNTIL_WEEK_END),
        Rule(
            kind=Kind.MONTHLY,
            at=time(10),
            catch_up=timedelta(days=2),
            day=31,
            overflow=Overflow.SKIP,
            template="statement-v2",
        ),
        Rule(kind=Kind.CUTOFF, at=time(18), catch_up=UntilWindowEnd.NONE),
        reminder(),
    )


def test_what_is_left_out_has_a_default() -> None:
    one = acme(document(ROUTE, DAILY))

    assert (one.display_name, one.enabled, one.zone) == ("acme-1", True, "Asia/Seoul")
    assert one.rules[0].catch_up is UntilWindowEnd.UNTIL_MIDNIGHT


def test_the_files_own_defaults_hold_for_every_customer() -> None:
    defaults = "zone: Europe/Oslo, month_overflow: skip, catch_up: PT6H, slot_identity: day"
    one = acme(document(ROUTE, 'monthly: {day: 31, at: "09:00"}', defaults=defaults))

    assert one.zone == "Europe/Oslo"
    assert (one.rules[0].overflow, one.rules[0].catch_up) == (Overflow.SKIP, timedelta(hours=6))


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("{provider: slack, channel: D0123456}", Route(Provider.SLACK, "D0123456")),
        ("{provider: webhook, webhook: acme}", Route(Provider.WEBHOOK, "acme")),
        ("{provider: smtp, to: ops@example.com}", Route(Provider.SMTP, "ops@example.com")),
        ("{provider: file, directory: acme-in}", Route(Provider.FILE, "acme-in")),
    ],
)
def test_each_provider_has_its_own_kind_of_address(route: str, expected: Route) -> None:
    read = acme(document(f"route: {route}", DAILY)).route

    assert read == expected
    assert read.as_json() == {"provider": expected.provider.value, "address": expected.address}


@pytest.mark.parametrize("written", ["10:00", '"10:00"', "'10:00'"])
def test_a_time_may_stand_without_quotes(written: str) -> None:
    """The incident: YAML reads 10:00 as the number 600 and 09:00 as text, and only customers after ten o'clock were refused."""
    assert acme(document(ROUTE, f"daily: {{at: {written}}}")).rules[0].at == time(10)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("P2D", timedelta(days=2)),
        ("PT6H", timedelta(hours=6)),
        ("PT90M", timedelta(minutes=90)),
        ("P1DT2H3M", timedelta(days=1, hours=2, minutes=3)),
        ("P4W", timedelta(weeks=4)),
        ("P31D", timedelta(days=31)),
        ("none", UntilWindowEnd.NONE),
        ("until_month_end", UntilWindowEnd.UNTIL_MONTH_END),
    ],
)
def test_a_catch_up_is_a_word_or_a_length(written: str, expected: object) -> None:
    assert acme(document(ROUTE, f'daily: {{at: "09:00", catch_up: {written}}}')).rules[0].catch_up == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('dialy: {at: "09:00"}', "line 7, column 5: customer number 1: unknown key dialy; did you mean daily?"),
        ("colour: red", "line 7, column 5: customer number 1: unknown key colour; known are key, display_name, enabled"),
        ("daily: {at: 9:00}", 'line 7, column 17: customer acme-1: daily: at must be a time from "00:00" to "23:59"'),
        ('daily: {at: "24:00"}', "daily: at must be a time"),
        ('daily: {at: "09:00:30"}', "daily: at must be a time"),
        ("daily: {at: [9]}", "daily: at must be a time"),
        ("daily: {}", "line 7, column 12: customer acme-1: daily: the key at is missing"),
        ("daily: 09:00", "line 7, column 12: customer acme-1: daily must be a mapping with the keys at, catch_up, template"),
        (
            'daily: {at: "09:00", catch_up: -P1D}',
            "column 36: customer acme-1: daily: catch_up must be longer than nothing: -P1D is not",
        ),
        ('daily: {at: "09:00", catch_up: PT0M}', "catch_up must be longer than nothing: PT0M is not"),
        ('daily: {at: "09:00", catch_up: P32D}', "catch_up must be 31 days at most; P32D is longer"),
        ('daily: {at: "09:00", catch_up: P99999W}', "catch_up must be 31 days at most"),
        ('daily: {at: "09:00", catch_up: P}', "catch_up must be none, until_midnight"),
        ('daily: {at: "09:00", catch_up: P1DT}', "catch_up must be none, until_midnight"),
        ('daily: {at: "09:00", catch_up: P1M}', "or a length of days, hours and minutes such as P2D"),
        ('daily: {at: "09:00", catch_up: until_midnite}', "did you mean until_midnight?"),
        ('daily: {at: "09:00", catch_up: {}}', "catch_up must be none, until_midnight"),
        ('daily: {at: "09:00", template: greeting}', "template must be a template's id that ends with its version"),
        ('daily: {at: "09:00", template: ../greeting-v1}', "template must be a template's id that ends with its version"),
        ('weekly: {weekday: monday, at: "09:00"}', "weekday must be one of mon, tue, wed, thu, fri, sat, sun; did you mean mon?"),
        ('weekly: {weekday: 1, at: "09:00"}', "weekday must be one of mon, tue, wed, thu, fri, sat, sun"),
        ('weekly: {weekday: [mon], at: "09:00"}', "weekday must be one of mon, tue"),
        ('weekly: {at: "09:00"}', "customer acme-1: weekly: the key weekday is missing"),
        ('monthly: {day: 31 February, at: "09:00"}', "monthly: day must be a whole number from 1 to 31"),
        ('monthly: {day: 2026-02-31, at: "09:00"}', "monthly: day must be a whole number from 1 to 31"),
        ('monthly: {day: 0, at: "09:00"}', "a whole number from 1 to 31, without quotes and leading zeros; 0 is not"),
        ('monthly: {day: 32, at: "09:00"}', "without quotes and leading zeros; 32 is not"),
        ('monthly: {day: 010, at: "09:00"}', "a whole number from 1 to 31, without quotes and leading zeros"),
        ('monthly: {day: "31", at: "09:00"}', "a whole number from 1 to 31, without quotes and leading zeros"),
        (
            'monthly: {day: 31, at: "09:00", month_overflow: clip}',
            "month_overflow must be one of clamp, skip; did you mean clamp?",
        ),
        (
            'reminder: {not_before: "12:00", not_after: "12:00", template: a-v1}',
            "not_after 12:00 must be later than not_before 12:00",
        ),
        (
            'reminder: {not_before: "12:00", not_after: "11:00", template: a-v1}',
            "not_after 11:00 must be later than not_before 12:00",
        ),
        ('reminder: {not_before: "11:00", not_after: "12:00"}', "reminder: the key template is missing"),
        ('reminder: {not_before: "25:00", not_after: "12:00", template: a-v1}', "reminder: not_before"),
        ('reminder: {not_before: "11:00", not_after: "12:00", template: a-v1, catch_up: none}', "reminder: unknown key catch_up"),
        ("enabled: yes", "line 7, column 14: customer acme-1: enabled must be true or false"),
        ("enabled: 'true'", "enabled must be true or false"),
        ("zone: Asia/Soul", "zone: unknown time zone Asia/Soul; did you mean Asia/Seoul?"),
        ("zone: Mars", "zone: unknown time zone Mars; "),
        ("zone: qqqqqqqqqqqq", "zone: unknown time zone qqqqqqqqqqqq; names are like Asia/Seoul or Europe/Berlin"),
        ("zone: ../../etc/passwd", "unknown time zone ../../etc/passwd"),
        ("zone: right/UTC", "unknown time zone right/UTC"),
        ("zone: localtime", "unknown time zone localtime; names are like Asia/Seoul"),
        ("zone: Asia", "unknown time zone Asia"),
        ("zone: +09:00", "unknown time zone +09:00"),
        ("zone: [UTC]", "zone must be the name of a time zone"),
        ('display_name: "a\\u202eb"', "display_name: a\\u202eb holds characters that show as nothing or that act"),
        ('display_name: "a\\0b"', "display_name: a\\x00b holds characters that show as nothing or that act"),
        ('display_name: " "', "display_name must be text of 1 to 120 characters on one line"),
        (f"display_name: {'x' * 121}", "display_name must be text of 1 to 120 characters on one line"),
        ("display_name: 007", "display_name: YAML reads this as a number: put it between quotes"),
        ("display_name: [x]", "display_name must be text of 1 to 120 characters on one line"),
        ("<<: {zone: UTC}", "a merge key (<<) is refused"),
    ],
)
def test_a_wrong_line_is_said_with_its_place_and_what_is_allowed(line: str, expected: str) -> None:
    found = problems(document(ROUTE, 'cutoff: {at: "18:00"}', line))

    assert any(expected in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("slack", "route must be a mapping with provider (slack, webhook, smtp, file) and where to"),
        ("{channel: C0123456}", "route must be a mapping with provider"),
        (
            "{provider: slakc, channel: C0123456}",
            "route: provider must be one of slack, webhook, smtp, file; did you mean slack?",
        ),
        ("{provider: slack}", "route: the key channel is missing"),
        (
            "{provider: slack, channel: general}",
            'channel must be a channel\'s id such as C0123456, not its name; "general" is not',
        ),
        ("{provider: slack, channel: C0123456, to: x}", "route: unknown key to; known are provider, channel"),
        ("{provider: webhook, webhook: 'https://example.com'}", "webhook must be the name of a webhook in the settings"),
        ("{provider: webhook, webhook: 7}", 'webhook: YAML reads 7 as a number: write "7" with quotes'),
        ("{provider: webhook, webhook: {}}", "webhook must be the name of a webhook in the settings"),
        ("{provider: smtp, to: 'a@example.com, b@example.com'}", "to must be one plain mail address"),
        ('{provider: smtp, to: "a@example.com\\r\\nBcc: b@example.com"}', "to must be one plain mail address"),
        ("{provider: file, directory: ../x}", "directory must be a directory's name below file_provider_dir"),
    ],
)
def test_a_wrong_route_is_said(route: str, expected: str) -> None:
    found = problems(document(f"route: {route}", DAILY))

    assert any(expected in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("[]", "line 1, column 1: the file must be a mapping with the keys version, defaults, customers"),
        ("version: 1", "line 1, column 1: the file: the key customers is missing"),
        ("customers: []", "line 1, column 1: the file: the key version is missing"),
        ("version: 2\ncustomers: []", "line 1, column 10: version must be 1"),
        ("version: 1\ncustomers: {}", "line 2, column 12: customers must be a list"),
        ("version: 1\ncustomers: [7]", "line 2, column 13: customer number 1 must be a mapping"),
        ("version: 1\ncustomers: [{}]", "customer number 1: the key key is missing"),
        ("version: 1\ndefaults: x\ncustomers: []", "line 2, column 11: defaults must be a mapping"),
        (
            "version: 1\ndefaults: {zone: x, catch_up: y, month_overflow: z, slot_identity: w}\ncustomers: []",
            "slot_identity must be one",
        ),
    ],
)
def test_a_wrong_whole_is_said(data: str, expected: str) -> None:
    found = problems(data.encode())

    assert any(expected in sentence for sentence in found), found


@pytest.mark.parametrize("key", ["ab", "Acme", "acme 1", "-acme", "a" * 65, "acme:1", "acmé"])
def test_a_key_outside_the_grammar_is_refused(key: str) -> None:
    found = problems(f"version: 1\ncustomers:\n  - key: '{key}'\n    {ROUTE}\n    {DAILY}\n".encode())

    assert "line 3, column 10: customer number 1: key must be 3 to 64 of a-z, 0-9, dash and underscore" in found[0]


def test_two_customers_with_one_key_are_refused_and_both_lines_named() -> None:
    """The incident: the second Acme replaced the first, and nobody noticed for a month."""
    entry = f"\n  - key: acme-1\n    {ROUTE}\n    {DAILY}"
    found = problems(f"version: 1\ncustomers:{entry}{entry}\n".encode())

    assert found == ["line 6, column 10: customer number 2: two customers have the key acme-1; the first is in line 3"]


def test_a_customer_who_is_owed_nothing_is_refused() -> None:
    assert "is owed nothing: give at least one of daily, weekly, monthly, cutoff, reminder" in problems(document(ROUTE))[0]


def test_a_refused_value_is_not_complained_about_twice() -> None:
    """An alias stands for something we do not look at, so nothing is said about what it may be."""
    found = problems(
        document(ROUTE, "zone: *x", "enabled: *x", "display_name: *x", "daily: *x", "cutoff: {at: *x, catch_up: *x}")
    )

    assert len(found) == 6
    assert all("an alias (*name) is refused" in sentence for sentence in found)


def test_everything_is_said_at_once_and_in_the_files_order() -> None:
    found = parse_registry(document("route: x", "zone: y", "daily: {at: z}", defaults="zone: x, colour: y"))

    assert isinstance(found, tuple)
    assert [problem.line for problem in found] == [2, 2, 5, 6, 7]


def test_a_file_of_nothing_but_mistakes_ends_soon() -> None:
    """Comparing 100,000 misspelt keys with the known ones would take a minute."""
    data = "version: 1\ncustomers:\n" + "".join(f"  - {'x' * 50}{number}: 1\n" for number in range(50_000))

    assert len(problems(data.encode())) == MOST_PROBLEMS


def test_of_more_mistakes_than_are_said_the_first_are_said() -> None:
    """Nobody looks for the end of a file whose beginning is wrong, and the same file is told the same twice."""
    found = problems(document(ROUTE, *(f"x{number}: 1" for number in range(2 * MOST_PROBLEMS))))

    assert [sentence.partition("unknown key ")[2].partition(";")[0] for sentence in found] == [
        f"x{number}" for number in range(MOST_PROBLEMS)
    ]


def test_more_customers_than_anybody_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_file, "MOST_CUSTOMERS", 1)

    assert problems(b"version: 1\ncustomers: [a, b]") == ["line 2, column 12: customers: 2 of them; 1 are the most"]


@pytest.fixture
def no_zone_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without the system's tzdata and without the package."""
    zoneinfo.reset_tzpath(to=())
    for name in [name for name in sys.modules if name.partition(".")[0] == "tzdata"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.ZoneInfo.clear_cache()
    yield
    monkeypatch.undo()
    importlib.invalidate_caches()
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()


@pytest.mark.usefixtures("no_zone_database")
def test_a_machine_without_a_zone_database_is_told_what_to_install() -> None:
    """The incident: a slim container image said that Asia/Seoul is no time zone."""
    assert (
        "this machine has no time zone database: install the system's tzdata package"
        in problems(document(ROUTE, DAILY, "zone: UTC"))[0]
    )


TIMES = st.times(max_value=time(23, 58)).map(lambda found: found.replace(second=0, microsecond=0, fold=0))
CATCH_UPS = st.one_of(
    st.sampled_from(UntilWindowEnd), st.integers(1, 31 * 24 * 60).map(lambda minutes: timedelta(minutes=minutes))
)
TEMPLATES = st.sampled_from(["", "greeting-v1", "a-v9999"])
PLAIN = st.builds(Rule, kind=st.sampled_from([Kind.DAILY, Kind.CUTOFF]), at=TIMES, catch_up=CATCH_UPS, template=TEMPLATES)
WEEKLY = st.builds(Rule, kind=st.just(Kind.WEEKLY), at=TIMES, catch_up=CATCH_UPS, weekday=st.integers(0, 6), template=TEMPLATES)
MONTHLY = st.builds(
    Rule,
    kind=st.just(Kind.MONTHLY),
    at=TIMES,
    catch_up=CATCH_UPS,
    day=st.integers(1, 31),
    overflow=st.sampled_from(Overflow),
    template=TEMPLATES,
)
REMINDERS = TIMES.map(lambda at: reminder(f"{at:%H:%M}", "23:59"))
RULES = st.lists(st.one_of(PLAIN, WEEKLY, MONTHLY, REMINDERS), min_size=1, max_size=5, unique_by=lambda one: one.kind).map(
    lambda rules: tuple(sorted(rules, key=lambda one: list(Kind).index(one.kind)))
)
ROUTES = st.sampled_from(
    [
        Route(Provider.SLACK, "C0123456"),
        Route(Provider.WEBHOOK, "null"),
        Route(Provider.WEBHOOK, "7"),
        Route(Provider.SMTP, "o'hara+x@example.com"),
        Route(Provider.FILE, "acme"),
    ]
)
NAMES = st.text(alphabet="aZ09 _-:#'\"{}[]&*!%@`,?|>éß東\u200c", min_size=1, max_size=20).filter(lambda name: bool(name.strip()))
CUSTOMERS = st.builds(
    Customer,
    key=st.from_regex(r"[a-z0-9][a-z0-9_-]{2,10}", fullmatch=True),
    display_name=NAMES,
    enabled=st.booleans(),
    zone=st.sampled_from(["Asia/Seoul", "UTC", "America/Argentina/Ushuaia", "Etc/GMT+12"]),
    route=ROUTES,
    rules=RULES,
)


@given(st.lists(CUSTOMERS, max_size=4, unique_by=lambda one: one.key), st.sampled_from(SlotIdentity))
def test_what_a_file_says_is_what_is_read(customers: list[Customer], identity: SlotIdentity) -> None:
    meant = registry(*customers, identity=identity)
    read = parse_registry(as_file(meant).encode())

    assert isinstance(read, Registry), read
    assert read.customers == dict(meant.customers)
    assert list(read.customers) == list(meant.customers)
    assert (read.zone, read.slot_identity) == (meant.zone, meant.slot_identity)


@given(st.data())
def test_no_damage_to_a_file_makes_it_raise(data: st.DataObject) -> None:
    """Bytes lost, doubled or replaced anywhere."""
    good = document(
        ROUTE, DAILY, 'weekly: {weekday: mon, at: "10:00"}', 'reminder: {not_before: "11:00", not_after: "12:00", template: a-v1}'
    )
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(start + 12, len(good))))
    parsed = parse_registry(good[:start] + data.draw(st.binary(max_size=6)) + good[end:])

    assert isinstance(parsed, Registry) or parsed


@given(st.binary(max_size=300))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    assert isinstance(parse_registry(data), tuple)
