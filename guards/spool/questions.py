"""Which names have to be asked about by themselves before the judge can be sure, and whose bytes have to be hashed.

The observer asks until nothing is left: `while questions := open_questions(...)`. It takes at most five rounds, mostly two. An answer goes into
the world's mapping of the same kind, and None ("no such name") is an answer; a hash that could not be taken is "". What was answered is
never asked again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from guards.spool.case import Bench
from guards.spool.judge import assess
from guards.spool.policy import SpoolPolicy
from guards.spool.ruling import Ask, Judged
from guards.spool.world import SpoolWorld


@dataclass(frozen=True, slots=True)
class Questions:
    """Names per kind of question, to be asked in this order (`second_look`: `stable_seconds` after `confirm_partner`)."""

    confirm_source: frozenset[str] = frozenset()
    confirm_partner: frozenset[str] = frozenset()
    second_look: frozenset[str] = frozenset()
    hash_source: frozenset[str] = frozenset()
    hash_partner: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.confirm_source or self.confirm_partner or self.second_look or self.hash_source or self.hash_partner)


def open_questions(world: SpoolWorld, *, policy: SpoolPolicy, consumes_on_arrival: bool, case_sensitive: bool) -> Questions:
    """Empty (false) when nothing more needs to be asked."""
    return questions_of(
        assess(Bench(world=world, policy=policy, consumes_on_arrival=consumes_on_arrival, case_sensitive=case_sensitive))
    )


def questions_of(judged: Iterable[Judged]) -> Questions:
    """The same from entries that are judged already: with 20,000 of them each judging is 0.4 s of CPU."""
    return _collected([one for one in judged if one.asks])


def _collected(asking: list[Judged]) -> Questions:
    def names(kind: Ask) -> frozenset[str]:
        return frozenset(one.case.name for one in asking if kind in one.asks)

    return Questions(
        confirm_source=names(Ask.CONFIRM_SOURCE),
        confirm_partner=names(Ask.CONFIRM_PARTNER),
        second_look=names(Ask.SECOND_LOOK),
        hash_source=names(Ask.HASH_SOURCE),
        hash_partner=names(Ask.HASH_PARTNER),
    )
