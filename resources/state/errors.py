"""What goes wrong with the state database itself. Expected refusals are values (`guards.refusal.Refused`)."""

from typing import ClassVar

from resources.errors import OpsGuardError, Unreachable


class LeaseLost(OpsGuardError):
    """The lease ended or another run holds a newer fence: what was being written has to be observed afresh.

    Not an `OutcomeUnknown`: who catches one of those looks again and goes on, and a run without its lease must do neither.
    """

    exit_code: ClassVar[int] = 4


class Altered(Unreachable):
    """The database holds something this program did not write: nothing that rests on it is believed."""
