"""What an attempt left at the partner, asked for by name: the facts that `guards.spool.resolution` decides on."""

from dataclasses import replace

from guards.spool.listing import Entry
from guards.spool.planning import SpoolTarget
from guards.spool.resolution import FinalName, Traces
from guards.spool.world import PartnerCopy
from resources.spool.proof import Proof, prove
from resources.spool.writing import Writing


def look_for_traces(
    writing: Writing,
    target: SpoolTarget,
    *,
    temp: str,
    placing_intended: bool,
    renamed: bool,
    in_place: bool,
    replaces: PartnerCopy | None,
    proven: Proof | None = None,
) -> tuple[Traces, Proof]:
    """`temp` is "" when none was used. `renamed`: the server confirmed the rename of the proven copy. `replaces`: the copy that the
    attempt was to replace, as it was seen right before. `proven`: of the temporary copy.

    A proven copy that was renamed, is gone from its temporary name and stands under the final one in full size is not read a second
    time here: the blocking check between sending and archiving hashes it on a connection of its own.
    """
    temp_present = bool(temp) and writing.partner.stat(writing.inbox, temp) is not None
    final = None
    if proven is not None and renamed and not temp_present:
        entry = writing.partner.stat(writing.inbox, target.name)
        final = replace(proven, entry=entry) if entry is not None and entry.size_bytes == target.size_bytes else None
    if final is None:
        final = prove(
            writing.partner,
            writing.inbox,
            target.name,
            size_bytes=target.size_bytes,
            moved=writing.pulse,
            patience=writing.patience,
        )
    traces = Traces(
        placing_intended=placing_intended,
        in_place=in_place,
        temp_present=temp_present,
        taken_if_absent=renamed and writing.route.partner.profile.consumes_on_arrival,
        final=_final_name(target, final, replaces=replaces),
    )
    return traces, final


def _final_name(target: SpoolTarget, final: Proof, *, replaces: PartnerCopy | None) -> FinalName:
    if final.equals(size_bytes=target.size_bytes, sha256=target.sha256):
        return FinalName.EQUAL
    if final.entry is None:
        return FinalName.ABSENT
    if replaces is not None and _copy(final.entry) == replaces:
        return FinalName.AS_BEFORE
    if final.entry.size_bytes is not None and final.entry.size_bytes < target.size_bytes:
        return FinalName.PARTIAL
    return FinalName.OTHER


def _copy(entry: Entry) -> PartnerCopy:
    return PartnerCopy(size_bytes=entry.size_bytes, modified_at=entry.modified_at)
