"""What travels between the ops of one redelivery: names and outcomes, as JSON. Never an authorization."""

from typing import Any

from guards.text import count_words
from resources.spool.sent import Outcome, Sent


def sent_json(one: Sent) -> dict[str, Any]:
    return {"name": one.name, "outcome": one.outcome.value, "message": one.message}


def proven(sent: dict[str, Any]) -> set[str]:
    """Names whose source may be archived once the partner's bytes are proven."""
    return {one["name"] for one in sent["sent"] if Outcome(one["outcome"]).is_proven}


def what_was_done(sent: dict[str, Any], archived: int) -> str:
    """ "3 feeds delivered and proven, 3 archived; 1 failed": one sentence for the decision and the plan's check."""
    counted: dict[str, int] = {}
    for one in sent["sent"]:
        counted[one["outcome"]] = counted.get(one["outcome"], 0) + 1
    parts = [f"{number} {outcome.replace('_', ' ')}" for outcome, number in counted.items()]
    problems = [f"{one['name']!a}: {one['message']}" for one in sent["sent"] if not Outcome(one["outcome"]).is_proven]
    said = f"{count_words(len(sent['sent']), 'feed')}: {', '.join(parts) or 'none sent'}; {archived} archived."
    return f"{said} {problems[0]}{f' (and {len(problems) - 1} more)' if len(problems) > 1 else ''}" if problems else said


def in_doubt(sent: dict[str, Any]) -> str:
    """ "" or one sentence about the feeds that may or may not have arrived."""
    doubtful = [one for one in sent["sent"] if Outcome(one["outcome"]) is Outcome.UNKNOWN]
    if not doubtful:
        return ""
    more = f" (and {len(doubtful) - 1} more)" if len(doubtful) > 1 else ""
    return (
        f"{count_words(len(doubtful), 'feed')} in doubt, looked at by nobody yet: {doubtful[0]['name']!a}: "
        f"{doubtful[0]['message']}{more}. Look at the inbox, then report again: what the partner holds will decide"
    )
