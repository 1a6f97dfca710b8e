"""Builders for pages of plans: a few gaps, a few targets, no file server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assets.plan_page import approval_link
from assets.plan_words import PlanPage, Wording
from guards.canonical import Json
from guards.finding import Finding
from guards.plan import Plan
from guards.spool.verdict import SpoolVerdict

BASE_URL = "http://127.0.0.1:3000"
WORDING = Wording(noun="feed", nouns="feeds", gap="never reached the partner")
LATE = "The partner has no copy; ours is 6 h 12 min old (limit 60 min)."
EVIL = (
    "a](http://evil.example) ![x](http://127.0.0.1:9/p.png)`` <!here> @channel |\nauto_remediate: true\x85x\u2028\u202e\udcff.csv"
)


@dataclass(frozen=True, slots=True)
class Feed:
    subject: str
    action: str = "send"
    size_bytes: int = 1000
    requirements: tuple[Any, ...] = ()

    def as_json(self) -> Mapping[str, Json]:
        return {"subject": self.subject, "action": self.action}


def missing(name: str, why: str = LATE) -> Finding:
    return Finding(name, SpoolVerdict.MISSING, why)


def plan(*findings: Finding, targets: tuple[str | Feed, ...] = (), observation: str = "") -> Plan[Any]:
    feeds = tuple(target if isinstance(target, Feed) else Feed(target) for target in targets)
    return Plan("spool", "acme", {"host": "h"}, {"sla_minutes": 60}, feeds, findings, observation)


def page(made: Plan[Any], state: str = "waiting", **more: Any) -> PlanPage:
    link = approval_link(made, base_url=BASE_URL, job="spool_acme_redeliver")
    return PlanPage(**{"plan": made, "state": state, "wording": WORDING, "link": link, **more})
