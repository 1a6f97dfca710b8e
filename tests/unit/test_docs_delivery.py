"""The pages on guard `delivery` and its ledger say something about everything that a person can meet there."""

from pathlib import Path

import pytest

from assets.delivery_checks import CHECKS
from guards.delivery.outcome import LONGEST_NOTE
from guards.delivery.policy import DeliveryPolicy
from guards.delivery.refusal import LedgerCode
from guards.delivery.replay import FaultKind
from guards.delivery.reservation import EDGES, ReservationState
from guards.delivery.templates import VARIABLES
from guards.delivery.verdict import DeliveryVerdict
from opsguard_defs.settings import DeliveryWatch
from resources.delivery.sent import Outcome
from resources.ledger.file import standing
from resources.ledger.legacy_format import _CLAIM_KEYS, _FENCE_KEYS, _ROW_KEYS

pytestmark = pytest.mark.fast

DOCS = Path(__file__).resolve().parents[2] / "docs"
LEDGER, DELIVERY, RUNBOOK = ((DOCS / f"{name}.md").read_text("utf-8") for name in ("ledger", "delivery", "runbook"))


def rows(page: str, first: str) -> list[list[str]]:
    """The table rows whose first cell names `first`, as cells."""
    found = [line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in found if f"`{first}`" in row[0]]


@pytest.mark.parametrize("code", LedgerCode)
def test_every_refusal_of_the_ledger_has_a_row_that_says_what_to_do(code: LedgerCode) -> None:
    (row,) = rows(LEDGER, code)
    assert len(row) == 3
    assert row[2]


@pytest.mark.parametrize("kind", FaultKind)
def test_every_fault_has_a_row_that_says_what_to_do(kind: FaultKind) -> None:
    assert any(len(row) == 3 and row[2] for row in rows(LEDGER, kind))


@pytest.mark.parametrize(
    "sentence",
    [
        "directory is a copy",
        "rows that were there are gone",
        "the head's anchor is gone",
        "the disk did not take what was written",
        "the fence document is gone or was altered",
        "the fence document is older than the anchor",
        "in the middle of an import",
        "is still being turned into doubt",
        "this store was retired",
    ],
)
def test_recovery_has_a_row_for_whatever_keeps_a_file_store_from_sending(sentence: str) -> None:
    assert sentence in Path(standing.__file__).read_text("utf-8")
    rows = [
        line for line in section(LEDGER, "Recovery").splitlines() if line.startswith("|") and sentence in line.split(" | ")[0]
    ]
    assert len(rows) == 1


@pytest.mark.parametrize("state", ReservationState)
def test_every_state_has_a_row(state: ReservationState) -> None:
    assert rows(LEDGER, state)


def test_the_table_of_edges_is_the_programs_own() -> None:
    section = LEDGER.partition("## States and edges")[2].partition("\n## ")[0]
    written = set()
    for line in section.partition("| from | to |")[2].splitlines():
        cells = line.strip("|").split(" | ")
        if len(cells) == 2 and not set(cells[0]) <= {"-"}:
            sources = [state for state in ReservationState if f"`{state}`" in cells[0]] or [None]
            written |= {(source, state) for source in sources for state in ReservationState if f"`{state}`" in cells[1]}
    assert written == set(EDGES)


@pytest.mark.parametrize("verdict", DeliveryVerdict)
def test_every_verdict_has_a_row_that_says_whether_it_is_a_gap_and_whose(verdict: DeliveryVerdict) -> None:
    (row,) = [row for row in rows(DELIVERY, verdict) if len(row) == 5]
    assert (row[1] == "yes") == verdict.is_gap
    assert (row[2] == "a person") == verdict.needs_person
    assert (row[2] == "the plan") == verdict.is_repairable


@pytest.mark.parametrize("field", DeliveryPolicy.model_fields)
def test_every_policy_field_has_a_row_with_its_default(field: str) -> None:
    (row,) = rows(DELIVERY, field)
    default = DeliveryPolicy.model_fields[field].default
    shown = {True: "true", False: "false"}.get(default, str(default)) if not isinstance(default, tuple) else default[0]
    assert shown in row[1]


@pytest.mark.parametrize("key", sorted(set(DeliveryWatch.model_fields) - {"guard", "name"}))
def test_every_key_of_a_watch_has_a_row(key: str) -> None:
    assert rows(DELIVERY, key)


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_has_a_row(check: str) -> None:
    assert rows(DELIVERY, check)


@pytest.mark.parametrize("variable", VARIABLES)
def test_every_variable_of_a_template_is_named(variable: str) -> None:
    assert f"{{{{{variable}}}}}" in DELIVERY


@pytest.mark.parametrize("key", sorted(_ROW_KEYS | _FENCE_KEYS | _CLAIM_KEYS))
def test_every_key_of_the_older_layout_is_described(key: str) -> None:
    section = LEDGER.partition("### What exactly is read")[2].partition("\n## ")[0]
    assert f"`{key}`" in section or f'"{key}"' in section


def test_the_bounds_are_those_of_the_program() -> None:
    assert f"notes {LONGEST_NOTE} characters" in LEDGER


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("verdict", [verdict for verdict in DeliveryVerdict if verdict.needs_person])
def test_the_runbook_says_what_to_do_about_every_verdict_that_needs_a_person(verdict: DeliveryVerdict) -> None:
    (row,) = rows(section(RUNBOOK, "A message needs a person"), verdict)
    assert row[1]


@pytest.mark.parametrize("check", CHECKS)
def test_the_runbook_says_what_to_do_about_every_check_of_the_ledger(check: str) -> None:
    (row,) = rows(section(RUNBOOK, "A check of the ledger failed"), check)
    assert row[1]


@pytest.mark.parametrize("code", LedgerCode)
def test_the_runbook_leads_from_every_refusal_of_the_ledger_to_its_table(code: LedgerCode) -> None:
    text = section(RUNBOOK, "The ledger refused")
    assert f"`{code}`" in text
    assert "(ledger.md#refusals)" in text


@pytest.mark.parametrize("outcome", Outcome)
def test_the_runbook_names_every_outcome_of_a_message(outcome: Outcome) -> None:
    assert f"`{outcome}`" in section(RUNBOOK, "A message in doubt")
