"""What somebody who may launch runs can ask Dagster for besides the job's form: single steps, forged inputs, other resources, secrets.

Each of these once worked. A person who may launch runs may approve plans; nobody may make the product say what is not so.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from guards.decision import DecisionKind
from opsguard_defs import runs
from opsguard_defs.assembly import definitions
from resources.state import StateStore
from tests.integration.spool.dagster_world import Installed, installed
from tests.integration.spool.world import place
from tests.servers.peer import Peer

CONTENT = b"around the graph\n" * 50
GRAPH = "spool_acme_redelivery"


@pytest.fixture
def acme(state_store: StateStore, database_url: str, tmp_path: Path, ftp: Peer, sftp: Peer) -> Iterator[Installed]:
    with installed(tmp_path / "home", database_url, place(state_store, sftp, ftp)) as (one,):
        yield one


def approved(acme: Installed, store: StateStore) -> str:
    acme.place.feed("feed.csv", CONTENT)
    digest = acme.report().stored.digest
    store.decide(digest, kind=DecisionKind.APPROVED, by="Kim", comment="", valid_for=timedelta(hours=1), channel="cli")
    return digest


def asset_job(acme: Installed, config: dict[str, Any], *, steps: list[str]) -> ExecuteInProcessResult:
    job = definitions(acme.settings).resolve_job_def("__ASSET_JOB")
    with runs._instance(acme.settings) as instance:
        return job.execute_in_process(run_config=config, instance=instance, op_selection=steps, raise_on_error=False)


def inputs(step: str, name: str, value: dict[str, Any]) -> dict[str, Any]:
    given = {key: {"value": one} for key, one in value.items()}
    return {"ops": {GRAPH: {"ops": {step: {"inputs": {name: given}}}}}}


def test_the_archiving_step_alone_believes_nobody_and_archives_nothing(acme: Installed, state_store: StateStore) -> None:
    digest = approved(acme, state_store)
    forged = {
        "plan": digest,
        "dry_run": False,
        "auto_remediate": True,
        "sent": [{"name": "feed.csv", "outcome": "delivered", "message": ""}],
    }
    result = asset_job(acme, inputs("archive_sources", "sent", forged), steps=[f"{GRAPH}.archive_sources"])
    assert not result.success
    spool, archive, inbox = acme.place.held()
    assert (spool, archive, inbox) == ({"feed.csv": CONTENT}, {}, {})
    assert state_store.receipts() == []
    assert state_store.find_plan(digest).state == "approved", "its approval is still there for the whole job"


def test_no_run_can_name_another_state_store(acme: Installed, state_store: StateStore, tmp_path: Path) -> None:
    """There a declined plan would not be declined."""
    elsewhere = {"resources": {"state": {"config": {"home": str(tmp_path / "evil")}}}}
    assert asset_job(acme, elsewhere, steps=["spool_acme_observe"]).success, "what it says is not even read"
    assert not (tmp_path / "evil").exists()
    assert len(state_store.plans(guard="spool", watch="acme")) == 1


def test_no_field_of_the_form_reads_the_servers_environment(acme: Installed) -> None:
    """`{env: NAME}` put the partner's password on a receipt, in a table that refuses to forget."""
    secret = {"env": "OPSGUARD_SPOOL_ACME_PARTNER_PASSWORD"}
    config = {"ops": {GRAPH: {"ops": {"authorise": {"config": {"approved_by": secret}}}}}}
    with pytest.raises(dg.DagsterInvalidConfigError, match="approved_by"):
        asset_job(acme, config, steps=[f"{GRAPH}.authorise"])


def test_the_launchpad_shows_plain_described_fields(acme: Installed) -> None:
    job = definitions(acme.settings).resolve_job_def("spool_acme_redeliver")
    fields = job.config_mapping.config_schema.config_type.fields
    assert sorted(fields) == ["approval_comment", "approved_by", "approved_plan", "auto_remediate", "dry_run"]
    assert all(field.description for field in fields.values())
    assert {field.config_type.given_name for field in fields.values()} == {"String", "Bool"}
    assert fields["dry_run"].default_value is True
    assert fields["auto_remediate"].default_value is False
