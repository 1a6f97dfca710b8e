"""Builders of spool worlds: what three directories hold, what their servers answer by name, and an observer that asks until done."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from guards.delivery.reservation import ReservationState
from guards.finding import Finding
from guards.plan import Plan
from guards.spool.judge import judge
from guards.spool.listing import Entry, EntryType, Listing, TimeSource
from guards.spool.planning import make_plan
from guards.spool.policy import SpoolPolicy
from guards.spool.questions import Questions, open_questions
from guards.spool.world import Attempt, SpoolWorld

NOW = datetime(2026, 3, 2, 5, 30, tzinfo=UTC)
LATE = timedelta(hours=6, minutes=12)
POLICY = SpoolPolicy()
MOST_ROUNDS = 5


def sha(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()


def file(name: str, size_bytes: int | None = 100, *, age: timedelta | None = LATE, kind: EntryType = EntryType.FILE) -> Entry:
    """`age=None`: the server gives no time. `size_bytes=None`: it would not say."""
    modified_at = None if age is None else NOW - age
    source = TimeSource.NONE if age is None else TimeSource.MLSD
    return Entry(name=name, type=kind, size_bytes=size_bytes, modified_at=modified_at, time_source=source)


def attempt(state: ReservationState, *, content: str, ago: timedelta = timedelta(hours=3), live: bool = False) -> Attempt:
    return Attempt(sha256=sha(content), state=state, since=NOW - ago, live=live, reservation_id=f"r-{state.value}")


@dataclass(frozen=True)
class Truth:
    """What the servers would answer about one name at a time. By default just what their listings say, with content named
    after the feed on both sides."""

    outbound: tuple[Entry, ...] = ()
    partner: tuple[Entry, ...] = ()
    archive: tuple[Entry, ...] = ()
    source_answers: Mapping[str, Entry | None] = field(default_factory=dict)
    partner_answers: Mapping[str, Entry | None] = field(default_factory=dict)
    second_answers: Mapping[str, Entry | None] = field(default_factory=dict)
    source_content: Mapping[str, str] = field(default_factory=dict)
    """"" for one that cannot be read."""
    partner_content: Mapping[str, str] = field(default_factory=dict)
    first_seen: Mapping[str, datetime] = field(default_factory=dict)
    attempts: Mapping[str, tuple[Attempt, ...]] = field(default_factory=dict)
    outbound_incomplete: str = ""
    partner_incomplete: str = ""
    archive_incomplete: str = ""

    def listed(self) -> SpoolWorld:
        """The first look: listings and memory, nothing asked by name."""
        return SpoolWorld(
            observed_at=NOW,
            outbound=Listing("/outbound", self.outbound, self.outbound_incomplete),
            archive=Listing("/archive", self.archive, self.archive_incomplete),
            partner=Listing("/inbox", self.partner, self.partner_incomplete),
            first_seen=self.first_seen,
            attempts=self.attempts,
        )

    def answer(self, world: SpoolWorld, asked: Questions) -> SpoolWorld:
        source, partner = world.outbound, world.partner
        return replace(
            world,
            source_confirmed={**world.source_confirmed, **_answers(asked.confirm_source, self.source_answers, source)},
            partner_confirmed={**world.partner_confirmed, **_answers(asked.confirm_partner, self.partner_answers, partner)},
            partner_second_look={
                **world.partner_second_look,
                **_answers(asked.second_look, {**self.partner_answers, **self.second_answers}, partner),
            },
            source_sha256={**world.source_sha256, **_hashes(asked.hash_source, self.source_content)},
            partner_sha256={**world.partner_sha256, **_hashes(asked.hash_partner, self.partner_content)},
        )


def _answers(names: Iterable[str], answers: Mapping[str, Entry | None], listing: Listing) -> dict[str, Entry | None]:
    return {name: answers[name] if name in answers else listing.get(name) for name in names}


def _hashes(names: Iterable[str], contents: Mapping[str, str]) -> dict[str, str]:
    return {name: sha(content) if (content := contents.get(name, name)) else "" for name in names}


@dataclass(frozen=True)
class Rules:
    policy: SpoolPolicy = POLICY
    consumes_on_arrival: bool = False
    case_sensitive: bool = True

    def questions(self, world: SpoolWorld) -> Questions:
        return open_questions(
            world, policy=self.policy, consumes_on_arrival=self.consumes_on_arrival, case_sensitive=self.case_sensitive
        )

    def judge(self, world: SpoolWorld) -> tuple[Finding, ...]:
        return judge(world, policy=self.policy, consumes_on_arrival=self.consumes_on_arrival, case_sensitive=self.case_sensitive)

    def plan(self, world: SpoolWorld, *, scope: Mapping[str, str] | None = None) -> Plan[SpoolWorld]:
        return make_plan(
            world,
            watch="acme",
            scope=scope or {"partner": "ftps://acme@ftp.acme.example:21/inbox"},
            policy=self.policy,
            consumes_on_arrival=self.consumes_on_arrival,
            case_sensitive=self.case_sensitive,
        )


def observe(truth: Truth, rules: Rules) -> tuple[SpoolWorld, list[Questions]]:
    """Ask until nothing is left; fails when the questions do not end or repeat one that was answered."""
    world, rounds = truth.listed(), []
    while asked := rules.questions(world):
        assert not asked.confirm_source & world.source_confirmed.keys()
        assert not asked.confirm_partner & world.partner_confirmed.keys()
        assert not asked.second_look & world.partner_second_look.keys()
        assert not asked.hash_source & world.source_sha256.keys()
        assert not asked.hash_partner & world.partner_sha256.keys()
        rounds.append(asked)
        assert len(rounds) <= MOST_ROUNDS, rounds
        world = truth.answer(world, asked)
    return world, rounds


def findings(truth: Truth, rules: Rules | None = None) -> dict[str, Finding]:
    rules = rules or Rules()
    world, _ = observe(truth, rules)
    return {found.subject: found for found in rules.judge(world)}


def planned(truth: Truth, rules: Rules | None = None) -> Plan[SpoolWorld]:
    rules = rules or Rules()
    world, _ = observe(truth, rules)
    return rules.plan(world)
