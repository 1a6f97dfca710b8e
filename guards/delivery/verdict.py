"""The closed set of verdicts on a slot."""

from typing import assert_never

from guards.finding import Answering


class DeliveryVerdict(Answering):
    DUE = "due"
    NOT_YET = "not_yet"
    SENT = "sent"
    SENDING = "sending"
    IN_DOUBT = "in_doubt"
    """It may have gone out and nobody has proven either way. Never sent again."""
    FAILED = "failed"
    """Provably not sent, and its slot is taken: a person may allow another attempt where the kind permits it."""
    MISSED = "missed"
    """Its window closed with nothing sent. Never sent late."""
    BODY_MISSING = "body_missing"
    TEMPLATE_UNAPPROVED = "template_unapproved"
    SUPPRESSED = "suppressed"
    """What the reminder would have asked for has arrived."""
    EVIDENCE_UNREADABLE = "evidence_unreadable"
    CUSTOMER_DISABLED = "customer_disabled"
    PIN_CONFLICT = "pin_conflict"
    """Reserved for something else than what is owed now: the registry, the body or the route changed under it."""

    @property
    def _answers(self) -> tuple[bool, bool, bool]:
        """A gap: the customer is owed this message and is not proven to have it (or nobody can tell)."""
        match self:
            case DeliveryVerdict.DUE:
                return (True, True, False)
            case (
                DeliveryVerdict.NOT_YET
                | DeliveryVerdict.SENT
                | DeliveryVerdict.SENDING
                | DeliveryVerdict.SUPPRESSED
                | DeliveryVerdict.CUSTOMER_DISABLED
            ):
                return (False, False, False)
            case DeliveryVerdict.MISSED:
                return (True, False, False)
            case (
                DeliveryVerdict.IN_DOUBT
                | DeliveryVerdict.FAILED
                | DeliveryVerdict.BODY_MISSING
                | DeliveryVerdict.TEMPLATE_UNAPPROVED
                | DeliveryVerdict.EVIDENCE_UNREADABLE
                | DeliveryVerdict.PIN_CONFLICT
            ):
                return (True, False, True)
            case _:
                assert_never(self)
