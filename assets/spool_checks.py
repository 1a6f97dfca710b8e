"""The closing checks of one spool watch: on fresh listings and fresh hashes, never on what a call returned."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import dagster as dg

from assets.check_result import check_result
from assets.failing import INCOMPLETE, failing_with_exit_code
from assets.site import Site
from assets.spool import spool_key, spool_names
from assets.state_resource import State
from guards.check import CheckOutcome
from guards.receipt import Receipt
from guards.refusal import Refused
from guards.spool import checks
from guards.spool.listing import Entry, EntryType, Listing
from guards.spool.planning import SpoolTarget
from resources.file_servers.interface import Reader
from resources.spool.apply import BASELINE
from resources.spool.observe import MEGABYTE, hash_of, look
from resources.spool.ours import ASIDE
from resources.spool.plans import restored, spool_targets
from resources.spool.route import SpoolRoute
from resources.spool.sides import OpenSides, observing, sides_of
from resources.spool.steps import Step
from resources.state import StateStore

CHECKS: Final = {
    "feeds_present": "Every feed of the plan is at the partner in full size, or consumed by it.",
    "sources_left_spool": "No delivered feed is left in the spool.",
    "sources_archived": "Every delivered feed is in the archive, size and SHA-256 as planned.",
    "untargeted_untouched": "Every partner file that no plan held is as it was before the first byte.",
    "final_audit": "Archived source and partner copy, hashed once more, are equal to the plan.",
}


@dataclass(frozen=True, slots=True)
class Written:
    """What the latest apply run of this watch promised and did, from the state store."""

    promised: tuple[SpoolTarget, ...]
    """All that the plan would deliver; an attempt that was proven not sent is a promise of the next plan."""
    delivered: tuple[SpoolTarget, ...]
    archived_as: Mapping[str, str]
    consumed: frozenset[str]
    before: Listing | None
    """The partner's listing before the first byte; None when the checks are asked for outside the apply run."""
    ours: frozenset[str]
    """Names that run made at the partner, or cleared away after an earlier one."""


def closing_checks(route: SpoolRoute, site: Site) -> dg.AssetChecksDefinition:
    key = spool_key(route, "delivered_files")

    @dg.multi_asset_check(
        name=spool_names(route).named("closing_checks"),
        specs=[dg.AssetCheckSpec(name, asset=key, description=text, blocking=True) for name, text in CHECKS.items()],
        op_tags={"opsguard/guard": "spool"},
    )
    def verify(context: dg.AssetCheckExecutionContext, state: State) -> Iterator[dg.AssetCheckResult]:
        with state.open() as store, failing_with_exit_code(what=INCOMPLETE):
            outcomes = audit(route, store, run_id=context.run.run_id)
        for outcome in outcomes:
            yield check_result(outcome, key)

    return verify


def audit(route: SpoolRoute, state: StateStore, *, run_id: str) -> tuple[CheckOutcome, ...]:
    """The five outcomes, in order. `run_id`: of the run that asks; what the partner held before is only compared in the run that wrote."""
    written = what_was_written(route, state, run_id=run_id)
    if written is None:
        return tuple(CheckOutcome(name, True, "Nothing was ever written for this watch: nothing to verify.") for name in CHECKS)

    def compare(opened: OpenSides) -> tuple[CheckOutcome, ...]:
        world = look(opened, state, policy=route.policy)
        consumes = route.partner.profile.consumes_on_arrival
        consumed = frozenset(target.name for target in written.delivered if consumes and world.partner.get(target.name) is None)
        archive_hashes = {
            target.name: _hash(opened.source, route.archive, written.archived_as.get(target.name, target.name), route)
            for target in written.delivered
        }
        partner_hashes = {
            target.name: _hash(opened.partner, route.partner.directory, target.name, route)
            for target in written.delivered
            if target.name not in consumed
        }
        by_archive_name = {written.archived_as.get(name, name): sha256 for name, sha256 in archive_hashes.items()}
        return (
            checks.feeds_present(
                written.promised,
                delivered=frozenset(target.name for target in written.delivered),
                partner=world.partner,
                consumes_on_arrival=consumes,
            ),
            checks.sources_left_spool(written.delivered, outbound=world.outbound),
            checks.sources_archived(
                written.delivered, archive=world.archive, archived_as=written.archived_as, archive_sha256=by_archive_name
            ),
            _untouched(written, world.partner, consumes=consumes),
            checks.final_audit(
                written.delivered, archive_sha256=archive_hashes, partner_sha256=partner_hashes, consumed=consumed
            ),
        )

    return observing(sides_of(route), compare)


def what_was_written(route: SpoolRoute, state: StateStore, *, run_id: str) -> Written | None:
    """Of this run when it wrote, else of the run that wrote last; None when none ever did."""
    of_run = state.journal(guard="spool", watch=route.name, step=BASELINE, run_id=run_id, newest=1)
    latest = of_run or state.journal(guard="spool", watch=route.name, step=BASELINE, newest=1)
    if not latest:
        return None
    baseline = latest[0]
    stored = state.find_plan(baseline.plan_digest)
    if isinstance(stored, Refused):
        return None
    receipts = [one for one in state.receipts(plan_digest=stored.digest) if one.run_id == baseline.run_id]
    proven = {one.subject for one in receipts}
    targets = spool_targets(restored(stored))
    return Written(
        promised=tuple(target for target in targets if target.action != "resolve" or target.name in proven),
        delivered=tuple(target for target in targets if target.name in proven),
        archived_as=_archived_as(receipts),
        consumed=frozenset(one.subject for one in receipts if one.evidence.get("consumed") is True),
        before=_listing(route, baseline.detail.get("partner")) if of_run else None,
        ours=frozenset(
            str(row.detail[key])
            for row in state.journal(guard="spool", watch=route.name, run_id=baseline.run_id)
            for key in ("temp", "aside")
            if row.step in (Step.UPLOAD, ASIDE) and row.detail.get(key)
        ),
    )


def _archived_as(receipts: list[Receipt]) -> dict[str, str]:
    return {
        one.subject: str(one.evidence["archive"]) for one in receipts if one.action == "archive" and "archive" in one.evidence
    }


def _listing(route: SpoolRoute, rows: object) -> Listing:
    entries = []
    for row in rows if isinstance(rows, list) else []:
        name, kind, size_bytes = row
        entries.append(Entry(name=name, type=EntryType(kind), size_bytes=size_bytes))
    return Listing(directory=route.partner.directory, entries=tuple(entries))


def _untouched(written: Written, after: Listing, *, consumes: bool) -> CheckOutcome:
    if written.before is None:
        return CheckOutcome(
            "untargeted_untouched", True, "Compared in the run that wrote; what the partner did since then is the partner's."
        )
    return checks.untargeted_untouched(
        written.promised, before=written.before, after=after, consumes_on_arrival=consumes, ours=written.ours
    )


def _hash(reader: Reader, directory: str, name: str, route: SpoolRoute) -> str:
    """ "" when it is not there or cannot be read."""
    if reader.stat(directory, name) is None:
        return ""
    return hash_of(reader, directory, name, ceiling_bytes=route.policy.max_file_megabytes * MEGABYTE)
