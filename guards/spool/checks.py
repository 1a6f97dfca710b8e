"""The checks of the spool guard: what fresh observations prove after (and between) the writes. Never what a call returned.

All pure: listings, targets and hashes in, one `CheckOutcome` out. A name in a message is quoted by `repr`, since it may be hostile.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from guards.check import CheckOutcome, Severity
from guards.spool.listing import Entry, EntryType, Listing
from guards.spool.notes import count, size
from guards.spool.planning import SpoolTarget
from guards.text import first_of

LOOK_BY_HAND: Final = "Uploaded but not confirmed: look at the inbox by hand before the next run."
NOT_DELIVERED: Final = "not delivered, or in doubt"
SEE_DECISION: Final = "The decision says what became of each; report again."
MOST_NAMED: Final = 5


def complete(listing: Listing) -> CheckOutcome:
    """A listing that may be cut proves no absence."""
    if listing.is_complete:
        return CheckOutcome("complete", True, f"All {count(len(listing), 'row')} of the directory were seen.")
    return _failed(
        "complete", f"{listing.incomplete}. Nothing is called missing and nothing is planned until a complete listing is seen."
    )


def partner_bytes_match(target: SpoolTarget, *, found_size_bytes: int | None, found_sha256: str | None) -> CheckOutcome:
    """The uploaded bytes, before they get their final name or their source is archived. None: could not be observed."""
    name = "partner_bytes_match"
    if found_size_bytes == target.size_bytes and found_sha256 == target.sha256:
        return CheckOutcome(name, True, f"{target.name!r}: the partner's {size(target.size_bytes)} have the planned SHA-256.")
    hashed = f"SHA-256 {found_sha256[:12]}" if found_sha256 else "no SHA-256"
    return _failed(
        name,
        f"{target.name!r}: planned {size(target.size_bytes)} with SHA-256 {target.sha256[:12]}, "
        f"the partner has {size(found_size_bytes)} with {hashed}. {LOOK_BY_HAND}",
    )


def feeds_present(
    targets: Sequence[SpoolTarget], *, delivered: frozenset[str], partner: Listing, consumes_on_arrival: bool
) -> CheckOutcome:
    """Each target is at the partner in full size, or was delivered and is gone at one that takes files away.

    `delivered`: names that have a receipt. Absence of any other is not consumption: it was never sent, or that is in doubt.
    """
    name = "feeds_present"
    if not partner.is_complete:
        return _failed(name, f"The partner's inbox could not be seen completely ({partner.incomplete}). {LOOK_BY_HAND}")
    lost: list[str] = []
    open_: list[str] = []
    consumed = 0
    for target in targets:
        found = partner.get(target.name)
        if found is not None and found.type is EntryType.FILE and found.size_bytes == target.size_bytes:
            continue
        if found is None and consumes_on_arrival and target.name in delivered:
            consumed += 1
        else:
            (lost if target.name in delivered else open_).append(
                f"{target.name!r} ({_shown(found)}, planned {size(target.size_bytes)})"
            )
    problems = [f"{len(lost)} of {count(len(targets), 'feed')} not there in full: {_list(lost)}. {LOOK_BY_HAND}"] if lost else []
    if open_:
        problems.append(f"{len(open_)} of {count(len(targets), 'feed')} {NOT_DELIVERED}: {_list(open_)}. {SEE_DECISION}")
    if problems:
        return _failed(name, " ".join(problems))
    taken = f", {consumed} of them taken away by the partner" if consumed else ""
    return CheckOutcome(name, True, f"{count(len(targets), 'feed')} at the partner in full size{taken}.")


def sources_left_spool(targets: Sequence[SpoolTarget], *, outbound: Listing) -> CheckOutcome:
    """No target's source is left. One of another size or time is a newer feed that was rightly left: a warning."""
    name = "sources_left_spool"
    if not outbound.is_complete:
        return _failed(
            name, f"The spool could not be seen completely ({outbound.incomplete}): look whether the sources are gone."
        )
    still: list[str] = []
    changed: list[str] = []
    for target in targets:
        found = outbound.get(target.name)
        if found is None:
            continue
        same = (found.size_bytes, found.modified_at) == (target.size_bytes, target.modified_at)
        (still if same else changed).append(f"{target.name!r}")
    if still:
        return _failed(name, f"{len(still)} of {count(len(targets), 'source')} still in the spool: {_list(still)}. Report again.")
    if changed:
        return _failed(
            name,
            f"{count(len(changed), 'source')} changed after sending and left in the spool: {_list(changed)}. The next report judges it anew.",
            Severity.WARN,
        )
    return CheckOutcome(name, True, f"{count(len(targets), 'source')} left the spool.")


def sources_archived(
    targets: Sequence[SpoolTarget], *, archive: Listing, archived_as: Mapping[str, str], archive_sha256: Mapping[str, str]
) -> CheckOutcome:
    """Each source is in the archive with the planned size and digest.

    `archived_as`: feed name to its name in the archive (a taken name got an ending); `archive_sha256`: by name in the archive.
    """
    name = "sources_archived"
    if not archive.is_complete:
        return _failed(name, f"The archive could not be seen completely ({archive.incomplete}): look for the sources by hand.")
    wrong = []
    for target in targets:
        archived = archived_as.get(target.name, target.name)
        found = archive.get(archived)
        if found is None or found.type is not EntryType.FILE or found.size_bytes != target.size_bytes:
            wrong.append(f"{target.name!r} ({_shown(found)}, planned {size(target.size_bytes)})")
        elif archive_sha256.get(archived) != target.sha256:
            wrong.append(f"{target.name!r} (other bytes or not hashed)")
    if wrong:
        return _failed(
            name,
            f"{len(wrong)} of {count(len(targets), 'source')} not proven in the archive: {_list(wrong)}. Look at the archive by hand.",
        )
    return CheckOutcome(name, True, f"{count(len(targets), 'source')} in the archive, size and SHA-256 as planned.")


def untargeted_untouched(
    targets: Iterable[SpoolTarget],
    *,
    before: Listing,
    after: Listing,
    consumes_on_arrival: bool,
    ours: frozenset[str] = frozenset(),
) -> CheckOutcome:
    """Every partner file that was no target has its size still. `ours`: names this project made, which it may remove."""
    name = "untargeted_untouched"
    if not (before.is_complete and after.is_complete):
        why = before.incomplete or after.incomplete
        return _failed(name, f"The partner's inbox could not be seen completely ({why}): compare it by hand.")
    spared = ours | {target.name for target in targets}
    changed, vanished, watched = [], [], 0
    for entry in before:
        if entry.name in spared:
            continue
        watched += 1
        found = after.get(entry.name)
        if found is None:
            vanished.append(f"{entry.name!r}")
        elif (found.type, found.size_bytes) != (entry.type, entry.size_bytes):
            changed.append(f"{entry.name!r} ({_shown(entry)}, now {_shown(found)})")
    if changed or (vanished and not consumes_on_arrival):
        return _failed(
            name,
            f"{len(changed)} changed and {len(vanished)} vanished of {count(watched, 'partner file')} that no plan held: "
            f"{_list(changed + vanished)}. Ask the partner who did it before the next run.",
        )
    if vanished:
        return _failed(
            name,
            f"{len(vanished)} of {count(watched, 'partner file')} vanished meanwhile: {_list(vanished)}. This partner takes files away.",
            Severity.WARN,
        )
    return CheckOutcome(name, True, f"{count(watched, 'partner file')} that no plan held: all as before.")


def final_audit(
    targets: Sequence[SpoolTarget],
    *,
    archive_sha256: Mapping[str, str],
    partner_sha256: Mapping[str, str],
    consumed: frozenset[str],
) -> CheckOutcome:
    """Archived source and partner copy, hashed once more, both equal to the plan. Mappings by feed name; `consumed`: taken by the partner."""
    name = "final_audit"
    wrong = []
    for target in targets:
        sides = []
        if archive_sha256.get(target.name) != target.sha256:
            sides.append("archive")
        if target.name not in consumed and partner_sha256.get(target.name) != target.sha256:
            sides.append("partner")
        if sides:
            wrong.append(f"{target.name!r} ({' and '.join(sides)})")
    if wrong:
        return _failed(
            name,
            f"{len(wrong)} of {count(len(targets), 'feed')} with other bytes than planned, or none: {_list(wrong)}. {LOOK_BY_HAND}",
        )
    gone = sum(1 for target in targets if target.name in consumed)
    taken = f" ({gone} taken away by the partner: the archive's alone)" if gone else ""
    return CheckOutcome(name, True, f"{count(len(targets), 'feed')} hashed once more: archive and partner as planned{taken}.")


def _failed(name: str, message: str, severity: Severity = Severity.ERROR) -> CheckOutcome:
    return CheckOutcome(name, passed=False, message=message, severity=severity)


def _shown(entry: Entry | None) -> str:
    if entry is None:
        return "not there"
    return size(entry.size_bytes) if entry.type is EntryType.FILE else f"a {entry.type.value}"


def _list(names: Sequence[str]) -> str:
    return first_of(names, MOST_NAMED)
