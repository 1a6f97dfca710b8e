"""What became of an attempt that nobody finished: decided from the journal and from what the partner holds now.

An attempt uploads under a temporary name and then *places* the file: one rename onto the final name (or, at a partner that cannot
rename, a write under the final name itself). The journal says durably, before it is asked for, that placing was about to happen.
"""

from dataclasses import dataclass
from enum import StrEnum


class FinalName(StrEnum):
    """What the partner now holds under the feed's own name."""

    EQUAL = "equal"
    """The attempt's digest, proven."""
    AS_BEFORE = "as_before"
    """The short copy the attempt was to replace, unchanged."""
    ABSENT = "absent"
    PARTIAL = "partial"
    """Smaller than the feed, and not what was there before."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Traces:
    """`placing_intended`: the journal holds the intent. `in_place`: without a temporary name. `temp_present`: ours is still there.
    `taken_if_absent`: the server confirmed the rename of the proven copy, at a partner that takes files away."""

    placing_intended: bool
    in_place: bool
    temp_present: bool
    taken_if_absent: bool
    final: FinalName


class Resolution(StrEnum):
    SENT = "sent"
    NOT_SENT = "not_sent"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Resolved:
    resolution: Resolution
    why: str


def resolve(traces: Traces) -> Resolved:
    """Numbered as they are tried; the first that proves something wins, and what proves nothing is left to a person."""
    # 1. The bytes are there.
    if traces.final is FinalName.EQUAL:
        return Resolved(Resolution.SENT, "the partner holds exactly these bytes under the final name")
    # 2. Placing was never asked for, and nothing else touches the final name.
    if not traces.placing_intended:
        return Resolved(Resolution.NOT_SENT, "the attempt ended before the final name was touched")
    # 3. A rename moves the temporary file: while it is there, no rename has happened.
    if traces.temp_present and not traces.in_place:
        return Resolved(Resolution.NOT_SENT, "the uploaded copy still has its temporary name, so it was never renamed")
    # 4. A rename would have replaced the short copy.
    if traces.final is FinalName.AS_BEFORE:
        return Resolved(Resolution.NOT_SENT, "the partner still holds the copy that the attempt was to replace")
    # 5. Written under the final name and cut.
    if traces.in_place and traces.final is FinalName.PARTIAL:
        return Resolved(Resolution.NOT_SENT, "the write under the final name was cut: the copy is shorter than the feed")
    # 6. The rename of the proven copy was confirmed, and this partner takes files away.
    if traces.taken_if_absent and traces.final is FinalName.ABSENT:
        return Resolved(Resolution.SENT, "the server confirmed the rename of the proven copy, and this partner takes files away")
    # 7. Absent now, or something else: the partner may have taken the feed away, or somebody removed it.
    return Resolved(
        Resolution.CANNOT_TELL,
        "placing was asked for and neither the feed nor its temporary copy is there: the partner may have taken it. "
        "Ask the partner, then record the answer: opsguard ledger resolve",
    )
