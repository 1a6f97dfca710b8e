"""Refusals: an expected "no" is a value with a code and a sentence, never an exception."""

from dataclasses import dataclass
from enum import StrEnum


class RefusalCode(StrEnum):
    """Codes never change once released; the sentences beside them may."""

    DRY_RUN = "dry_run"
    REMEDIATION_DISABLED = "remediation_disabled"
    NOTHING_TO_DO = "nothing_to_do"
    NOT_APPROVED = "not_approved"
    DECLINED = "declined"
    EXPIRED = "expired"
    ALREADY_USED = "already_used"
    STALE = "stale"
    BUSY = "busy"
    OBSERVATION_INCOMPLETE = "observation_incomplete"
    POLICY_CHANGED = "policy_changed"


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was written. `message` is one sentence for the operator and says what to do next."""

    code: RefusalCode
    message: str
