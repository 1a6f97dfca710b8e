"""Plans: targets from judged entries, a digest that moves with every pinned fact, and back from stored JSON."""

import copy
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from guards.plan import Plan
from guards.spool.planning import SpoolTarget, load_plan, load_target
from guards.spool.policy import SpoolPolicy
from guards.spool.requirements import ArchiveNameFree, NoWriterMarker, PartnerStateUnchanged, SourceUnchanged
from guards.spool.ruling import SpoolAction
from guards.spool.world import PartnerCopy, SpoolWorld
from tests.unit.spool.worlds import LATE, NOW, Rules, Truth, file, planned, sha

pytestmark = pytest.mark.fast

TRUTH = Truth(outbound=(file("new.csv", 7), file("short.csv", 1500, age=timedelta(days=1))), partner=(file("short.csv", 500),))


def target(**changes: Any) -> SpoolTarget:
    return replace(
        SpoolTarget(
            name="a.csv",
            action=SpoolAction.SEND,
            size_bytes=100,
            modified_at=NOW - LATE,
            sha256=sha("a.csv"),
            partner=PartnerCopy(size_bytes=50, modified_at=NOW - LATE),
        ),
        **changes,
    )


def test_a_plan_pins_what_was_seen_of_each_target_oldest_first() -> None:
    plan = planned(TRUTH)
    assert [dict(one.as_json()) for one in plan.targets] == [
        {
            "name": "short.csv",
            "action": "send",
            "size_bytes": 1500,
            "modified_at": "2026-03-01T05:30:00+00:00",
            "sha256": sha("short.csv"),
            "partner": {"size_bytes": 500, "modified_at": "2026-03-01T23:18:00+00:00"},
            "marker_suffixes": [".part", ".lock", ".tmp", ".writing"],
        },
        {
            "name": "new.csv",
            "action": "send",
            "size_bytes": 7,
            "modified_at": "2026-03-01T23:18:00+00:00",
            "sha256": sha("new.csv"),
            "partner": None,
            "marker_suffixes": [".part", ".lock", ".tmp", ".writing"],
        },
    ]
    assert (plan.guard, plan.watch, plan.observation) == ("spool", "acme", "")
    assert plan.policy == SpoolPolicy().as_json()
    assert plan.outstanding_bytes == 1507
    assert [one.subject for one in plan.findings] == ["new.csv", "short.csv"]


def test_an_unchanged_world_has_one_digest_an_hour_later() -> None:
    from tests.unit.spool.worlds import observe

    world, _ = observe(TRUTH, Rules())
    later = replace(world, observed_at=NOW + timedelta(hours=1))
    assert Rules().plan(later).digest == Rules().plan(world).digest
    assert Rules().plan(later).findings != Rules().plan(world).findings


@pytest.mark.parametrize(
    "changed",
    [
        replace(TRUTH, source_content={"new.csv": "other bytes of the same size"}),
        replace(TRUTH, partner=(file("short.csv", 501),)),
        replace(TRUTH, partner=(file("short.csv", 500, age=timedelta()),)),
        replace(TRUTH, outbound=TRUTH.outbound[:1]),
        replace(TRUTH, outbound=(file("new.csv", 8), TRUTH.outbound[1])),
    ],
)
def test_a_changed_fact_of_a_target_is_another_plan(changed: Truth) -> None:
    assert planned(changed).digest != planned(TRUTH).digest


def test_another_policy_or_scope_is_another_plan() -> None:
    from tests.unit.spool.worlds import observe

    world, _ = observe(TRUTH, Rules())
    digests = {
        Rules().plan(world).digest,
        Rules(policy=SpoolPolicy(sla_minutes=61)).plan(world).digest,
        Rules().plan(world, scope={"partner": "another"}).digest,
    }
    assert len(digests) == 3


def test_what_is_no_target_does_not_change_the_digest() -> None:
    more = replace(TRUTH, outbound=(*TRUTH.outbound, file("young.csv", age=timedelta(minutes=1)), file("x.xml")))
    assert planned(more).digest == planned(TRUTH).digest
    assert len(planned(more).findings) == 4


def test_sending_and_archiving_require_a_free_name_in_the_archive_and_resolving_does_not() -> None:
    source = SourceUnchanged(name="a.csv", size_bytes=100, modified_at=NOW - LATE, sha256=sha("a.csv"))
    writer = NoWriterMarker(name="a.csv", suffixes=(".part", ".lock", ".tmp", ".writing"))
    partner = PartnerStateUnchanged(name="a.csv", expected=PartnerCopy(size_bytes=50, modified_at=NOW - LATE))
    archive = ArchiveNameFree(name="a.csv")
    assert target().requirements == (source, writer, partner, archive)
    assert target(action=SpoolAction.ARCHIVE).requirements == (source, writer, partner, archive)
    assert target(action=SpoolAction.RESOLVE).requirements == (source, writer, partner)
    assert (target().subject, target().action) == ("a.csv", "send")


# -- stored and loaded


def stored(plan: Plan[SpoolWorld]) -> dict[str, Any]:
    parts = {"scope": plan.scope, "policy": plan.policy, "targets": [one.as_json() for one in plan.targets]}
    loaded: dict[str, Any] = json.loads(json.dumps(parts))
    return loaded


def test_a_stored_plan_comes_back_with_its_digest() -> None:
    plan = planned(TRUTH)
    loaded = load_plan(watch="acme", **stored(plan))
    assert loaded.digest == plan.digest
    assert loaded.targets == plan.targets
    assert loaded.findings == ()
    assert load_plan(watch="acme", **stored(plan), observation="archive: cut").observation == "archive: cut"


def test_a_plan_loaded_for_another_watch_is_another_plan() -> None:
    plan = planned(TRUTH)
    assert load_plan(watch="other", **stored(plan)).digest != plan.digest


@pytest.mark.parametrize(
    "one",
    [
        target(),
        target(partner=None, modified_at=None),
        target(partner=PartnerCopy(None, None)),
        target(partner=PartnerCopy(0, None)),
    ],
)
def test_a_target_comes_back_equal(one: SpoolTarget) -> None:
    assert load_target(json.loads(json.dumps(one.as_json()))) == one


@pytest.mark.parametrize("action", list(SpoolAction))
def test_every_action_comes_back(action: SpoolAction) -> None:
    assert load_target(target(action=action).as_json()).action is action


BAD_FIELDS: list[tuple[str, Any]] = [
    ("name", 7),
    ("name", None),
    ("name", ""),
    ("name", "../a.csv"),
    ("name", "a\n.csv"),
    ("name", "a\udcff.csv"),
    ("action", "delete"),
    ("action", ["send"]),
    ("action", None),
    ("size_bytes", 0),
    ("size_bytes", None),
    ("size_bytes", -1),
    ("size_bytes", True),
    ("size_bytes", "100"),
    ("size_bytes", 1.5),
    ("modified_at", "yesterday"),
    ("modified_at", 1_700_000_000),
    ("modified_at", "2026-03-01T23:18:00"),
    ("modified_at", "2026-03-01T23:18:00+09:00"),
    ("modified_at", "2026-03-01T23:18:00Z"),
    ("modified_at", "2026-03-01 23:18:00+00:00"),
    ("sha256", ""),
    ("sha256", None),
    ("sha256", "a" * 63),
    ("sha256", "A" * 64),
    ("sha256", "a" * 64 + "\n"),
    ("partner", 7),
    ("partner", {}),
    ("partner", {"size_bytes": 1}),
    ("partner", {"size_bytes": 1, "modified_at": None, "more": 1}),
    ("partner", {"size_bytes": -1, "modified_at": None}),
    ("partner", {"size_bytes": "1", "modified_at": None}),
    ("partner", {"size_bytes": 1, "modified_at": "now"}),
    ("marker_suffixes", []),
    ("marker_suffixes", ".part"),
    ("marker_suffixes", [""]),
    ("marker_suffixes", [1]),
    ("marker_suffixes", None),
]


@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
def test_a_malformed_stored_target_is_refused(field: str, value: Any) -> None:
    """A row edited by hand must not become a write."""
    data = copy.deepcopy(dict(target().as_json()))
    data[field] = value
    with pytest.raises(ValueError):
        load_target(data)


@pytest.mark.parametrize("data", [None, 7, "a.csv", [], {}, {"name": "a.csv"}, {**target().as_json(), "more": 1}])
def test_what_is_not_a_target_at_all_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="a target is stored as an object with exactly these keys: action, marker_suffixes"):
        load_target(data)


def test_a_malformed_stored_policy_is_refused() -> None:
    parts = stored(planned(TRUTH))
    parts["policy"]["sla_minutes"] = -1
    with pytest.raises(ValueError):
        load_plan(watch="acme", **parts)
