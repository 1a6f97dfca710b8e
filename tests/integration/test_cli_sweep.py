"""`opsguard spool sweep`: only what our own journal names, only when asked, and never beside a running apply."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from guards.decision import DecisionKind
from guards.gate import Authorized, Flags, Fresh, Lease, gate
from guards.plan import Plan
from guards.spool.planning import SpoolTarget
from guards.spool.ruling import SpoolAction
from opsguard_defs.sandbox import Sandbox
from resources.spool.steps import Step
from resources.state import StateStore
from tests.integration.command import Command

OURS = ".stock.csv.0badc0de.part"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    box = Sandbox(tmp_path_factory.mktemp("sweep") / "home")
    with box.running():
        yield box


@pytest.fixture
def opsguard(sandbox: Sandbox, tmp_path: Path, database_url: str) -> Command:
    return Command(tmp_path, {**sandbox.env(), "OPSGUARD_STATE_URL": database_url})


@pytest.fixture
def inbox(sandbox: Sandbox) -> Path:
    place = sandbox.places("sftp_demo").inbox
    place.mkdir(parents=True, exist_ok=True)
    for path in place.iterdir():
        path.unlink()
    return place


class Nothing:
    """A target without requirements: what was uploaded does not matter here."""

    subject = "stock.csv"
    action = "send"
    size_bytes = 1
    requirements = ()

    def as_json(self) -> dict[str, object]:
        return dict(
            SpoolTarget(
                name="stock.csv", action=SpoolAction.SEND, size_bytes=1, modified_at=None, sha256="0" * 64, partner=None
            ).as_json()
        )


def die_while_uploading(store: StateStore, inbox: Path) -> Lease:
    """What a run that was killed in step 3 leaves: an open intent, and a part of the feed under our name. Returns its lease."""
    plan: Plan[None] = Plan(guard="spool", watch="sftp_demo", scope={}, policy={}, targets=(Nothing(),))  # type: ignore[arg-type]
    store.record_report(plan, run_id="dead", overrides={})
    store.decide(plan.digest, kind=DecisionKind.APPROVED, by="Ada", comment="", valid_for=timedelta(hours=1), channel="cli")
    lease = store.acquire_lease("spool/sftp_demo", holder="dead", ttl_seconds=600)
    assert isinstance(lease, Lease)
    verdict = gate(
        flags=Flags(dry_run=False, auto_remediate=True),
        plan=plan,
        decision=store.decision(plan.digest),
        current=plan,
        fresh=Fresh(None),
        lease=lease,
        now=store.now(),
    )
    assert isinstance(verdict, Authorized)
    store.intend(verdict.authorization, subject="stock.csv", step=Step.UPLOAD, detail={"temp": OURS, "reservation": ""})
    (inbox / OURS).write_bytes(b"half a feed")
    return lease


def test_what_a_dead_run_left_is_shown_and_removed_only_when_asked(
    opsguard: Command, state_store: StateStore, inbox: Path
) -> None:
    state_store.release(die_while_uploading(state_store, inbox))
    theirs = inbox / ".stock.csv.11111111.part"
    theirs.write_bytes(b"somebody else's upload")

    shown = opsguard("spool", "sweep", "sftp_demo", "--json")
    assert shown.code == 0, shown.err
    assert [one["temp"] for one in shown.objects[0]["found"]] == [OURS]
    assert (inbox / OURS).exists()

    swept = opsguard("spool", "sweep", "sftp_demo", "--yes", "--by", "Ada", "--json")
    assert swept.code == 0, swept.err
    assert swept.objects[0]["removed"] == [OURS]
    assert [path.name for path in inbox.iterdir()] == [theirs.name]
    (receipt,) = opsguard("receipts", "--guard", "spool_sweep", "--json").objects
    assert (receipt["subject"], receipt["action"], receipt["approved_by"], receipt["size_bytes"]) == (OURS, "remove", "Ada", 11)

    instead = opsguard("apply", receipt["plan_digest"][:12])
    assert (instead.code, "opsguard spool sweep sftp_demo --yes" in instead.err) == (2, True), instead.err

    again = opsguard("spool", "sweep", "--yes", "--by", "Ada", "--json")
    assert again.code == 0
    assert [one["found"] for one in again.objects] == [[], [], [], []]


def test_a_running_apply_is_not_disturbed(opsguard: Command, state_store: StateStore, inbox: Path) -> None:
    die_while_uploading(state_store, inbox)  # its lease still lives: for all we know it is uploading

    done = opsguard("spool", "sweep", "sftp_demo", "--yes", "--by", "Ada", "--json")

    assert done.code == 3, done.err
    assert done.objects[0]["refusal"]["code"] == "busy"
    assert (inbox / OURS).exists()


def test_a_sweep_does_not_supersede_what_waits_for_a_person(opsguard: Command, state_store: StateStore, inbox: Path) -> None:
    state_store.release(die_while_uploading(state_store, inbox))
    before = opsguard("plans", "--guard", "spool", "--json").objects

    assert opsguard("spool", "sweep", "sftp_demo", "--yes", "--by", "Ada").code == 0
    assert opsguard("plans", "--guard", "spool", "--json").objects == before
