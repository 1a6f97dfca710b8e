"""The closed set of verdicts, in the order they are tried: the first that fits wins."""

from typing import assert_never

from guards.finding import Answering


class SpoolVerdict(Answering):
    WRITER_MARKER = "writer_marker"
    NAME_UNSAFE = "name_unsafe"
    TYPE_UNEXPECTED = "type_unexpected"
    NOT_DELIVERABLE = "not_deliverable"
    WRITER_ACTIVE = "writer_active"
    WRITER_STUCK = "writer_stuck"
    EMPTY_SOURCE = "empty_source"
    TOO_LARGE = "too_large"
    DATE_UNKNOWN = "date_unknown"
    CLOCK_SKEW = "clock_skew"
    WITHIN_SLA = "within_sla"
    DELIVERY_UNKNOWN = "delivery_unknown"
    ALREADY_ARCHIVED = "already_archived"
    DELIVERED_CONSUMED = "delivered_consumed"
    LOST_AFTER_DELIVERY = "lost_after_delivery"
    """The ledger proves that we delivered this digest, and the partner's copy is gone or of another size since. Never sent again."""
    MISSING = "missing"
    SHORT_GROWING = "short_growing"
    SHORT_DELIVERY = "short_delivery"
    DIVERGED = "diverged"
    CONTENT_MISMATCH = "content_mismatch"
    POSSIBLE_ALIAS = "possible_alias"
    DELIVERED_VERIFIED = "delivered_verified"
    DELIVERED_SIZE_ONLY = "delivered_size_only"
    OVER_CEILING = "over_ceiling"
    LISTING_INCOMPLETE = "listing_incomplete"

    @property
    def _answers(self) -> tuple[bool, bool, bool]:
        """A gap: the partner is owed this feed and is not proven to have it (or nobody can tell). Repairable: a target may stand
        for it in a plan, which is sending, resolving by observation, or archiving alone."""
        match self:
            case (
                SpoolVerdict.WRITER_MARKER
                | SpoolVerdict.NOT_DELIVERABLE
                | SpoolVerdict.WRITER_ACTIVE
                | SpoolVerdict.WITHIN_SLA
                | SpoolVerdict.SHORT_GROWING
                | SpoolVerdict.DELIVERED_SIZE_ONLY
            ):
                return (False, False, False)
            case (
                SpoolVerdict.NAME_UNSAFE
                | SpoolVerdict.TYPE_UNEXPECTED
                | SpoolVerdict.WRITER_STUCK
                | SpoolVerdict.EMPTY_SOURCE
                | SpoolVerdict.TOO_LARGE
                | SpoolVerdict.DATE_UNKNOWN
                | SpoolVerdict.CLOCK_SKEW
                | SpoolVerdict.ALREADY_ARCHIVED
                | SpoolVerdict.LOST_AFTER_DELIVERY
                | SpoolVerdict.DIVERGED
                | SpoolVerdict.CONTENT_MISMATCH
                | SpoolVerdict.POSSIBLE_ALIAS
            ):
                return (True, False, True)
            case SpoolVerdict.DELIVERED_CONSUMED | SpoolVerdict.DELIVERED_VERIFIED:
                return (False, True, False)
            case SpoolVerdict.DELIVERY_UNKNOWN | SpoolVerdict.MISSING | SpoolVerdict.SHORT_DELIVERY:
                return (True, True, False)
            case SpoolVerdict.OVER_CEILING | SpoolVerdict.LISTING_INCOMPLETE:
                return (True, False, False)
            case _:
                assert_never(self)
