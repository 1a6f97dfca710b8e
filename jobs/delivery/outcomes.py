"""What one apply run of guard delivery did, in sentences."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import dagster as dg

from guards.delivery.taken import resolve_command
from guards.text import SENTENCE_LIMIT, count_words, one_line
from resources.delivery.sent import Outcome, Sent

MOST_ROWS: Final = 50
_SCHEMA: Final = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in ("slot", "outcome", "said", "key")])


def what_was_done(sent: Sequence[Sent]) -> str:
    """ "3 messages: 2 sent, 1 suppressed." and the first of what did not go as planned: for the decision and the plan's check."""
    counted = Counter(one.outcome for one in sent)
    parts = [f"{number:,} {outcome.value.replace('_', ' ')}" for outcome, number in counted.items()]
    problems = [f"{one.name}: {one.message}" for one in sent if not one.outcome.is_proven]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    said = f"{count_words(len(sent), 'message')}: {', '.join(parts) or 'none sent'}."
    return f"{said} {problems[0]}{more}" if problems else said


def not_sent(sent: Sequence[Sent]) -> list[dict[str, str]]:
    """Each target that did not go out, as `opsguard apply` shows it."""
    return [
        {"subject": one.name, "outcome": one.outcome.value, "message": one_line(one.message, limit=SENTENCE_LIMIT)}
        for one in sent
        if not one.outcome.is_proven
    ]


def in_doubt(sent: Sequence[Sent]) -> str:
    """ "" or one sentence about the messages that may or may not have been taken."""
    doubtful = [one for one in sent if one.outcome is Outcome.UNKNOWN]
    if not doubtful:
        return ""
    more = f" (and {len(doubtful) - 1} more)" if len(doubtful) > 1 else ""
    return (
        f"{count_words(len(doubtful), 'message')} in doubt: {doubtful[0].name}: {doubtful[0].message}{more}. Nothing in doubt is sent "
        f"again: ask the provider or the recipient, then `{resolve_command(doubtful[0].name)}` (or --not-sent)"
    )


def outcomes_table(sent: Sequence[Sent]) -> dg.TableMetadataValue:
    """What became of each message, those that did not go as planned first. `key` is what the provider knows it by."""
    shown = sorted(sent, key=lambda one: one.outcome.is_proven)
    rows = [
        {
            "slot": one.name,
            "outcome": one.outcome.value,
            "said": one_line(one.message, limit=SENTENCE_LIMIT),
            "key": one.key,
        }
        for one in shown[:MOST_ROWS]
    ]
    if len(shown) > MOST_ROWS:
        rows.append({"slot": f"and {len(shown) - MOST_ROWS:,} more", "outcome": "", "said": "opsguard ledger status", "key": ""})
    return dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema=_SCHEMA)
