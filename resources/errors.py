"""The small error tree. Each class has an exit code and carries one sentence that tells the operator what to do next.

Expected refusals are values (`guards.refusal.Refused`); these are for broken worlds.
"""

from typing import ClassVar


class OpsGuardError(Exception):
    """Base of all errors shown to an operator as a sentence, without a traceback."""

    exit_code: ClassVar[int] = 1


class ConfigurationError(OpsGuardError):
    """Bad settings or usage; nothing was contacted."""

    exit_code = 2


class Unreachable(OpsGuardError):
    """A system could not be reached or would not let us in: says which side, which step, and what to try."""

    exit_code = 5


class Transient(Unreachable):
    """May pass by itself (4xx reply, connection cut before anything was written): retried on a fresh connection, bounded."""


class UntrustedServer(Unreachable):
    """Unknown or changed host key, certificate that does not verify, cleartext not allowed. Never retried, nothing was listed."""


class NotObserved(Unreachable):
    """The system answered, but would not say: permission denied, no such directory, a 550 that may mean anything."""


class Rejected(OpsGuardError):
    """The system said no to a write, provably before it took effect (5xx to STOR, RNFR, SSH_FX_PERMISSION_DENIED)."""

    exit_code = 4


class OutcomeUnknown(OpsGuardError):
    """An error after the first byte or after a rename was asked for: it may or may not have happened. Observe on a fresh connection."""

    exit_code = 4


class Unproven(OpsGuardError):
    """Something was written and verification failed or could not be made."""

    exit_code = 4
