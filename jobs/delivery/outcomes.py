"""What one apply run of guard delivery did, in sentences."""

from collections import Counter
from collections.abc import Sequence

from guards.text import count_words
from resources.delivery.sent import Outcome, Sent


def what_was_done(sent: Sequence[Sent]) -> str:
    """ "3 messages: 2 sent, 1 suppressed." and the first of what did not go as planned: for the decision and the plan's check."""
    counted = Counter(one.outcome for one in sent)
    parts = [f"{number:,} {outcome.value.replace('_', ' ')}" for outcome, number in counted.items()]
    problems = [f"{one.name}: {one.message}" for one in sent if not one.outcome.is_proven]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    said = f"{count_words(len(sent), 'message')}: {', '.join(parts) or 'none sent'}."
    return f"{said} {problems[0]}{more}" if problems else said


def in_doubt(sent: Sequence[Sent]) -> str:
    """ "" or one sentence about the messages that may or may not have been taken."""
    doubtful = [one for one in sent if one.outcome is Outcome.UNKNOWN]
    if not doubtful:
        return ""
    more = f" (and {len(doubtful) - 1} more)" if len(doubtful) > 1 else ""
    return (
        f"{count_words(len(doubtful), 'message')} in doubt: {doubtful[0].name}: {doubtful[0].message}{more}. Nothing in doubt is sent "
        f"again: ask the provider or the recipient, then `opsguard ledger resolve {doubtful[0].name}`"
    )
