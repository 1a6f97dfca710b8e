"""What came of a decision, as the latest event of the asset `decision`: applied or refused, and why."""

from collections.abc import Mapping, Sequence

import dagster as dg

from assets.known_guards import Names
from guards.plan import SHORT_DIGITS
from guards.receipt import Receipt
from guards.refusal import Refused
from guards.text import markdown_text


def decision_logged(
    context: dg.OpExecutionContext,
    names: Names,
    *,
    digest: str,
    refused: Refused | None = None,
    done: str = "",
    receipts: list[Receipt] | None = None,
    not_sent: Sequence[Mapping[str, str]] = (),
) -> None:
    """A refused run is green: the refusal is the answer, not a failure. `not_sent`: what of the plan was not done, for who started it."""
    short = digest[:SHORT_DIGITS]
    if refused is not None:
        words, message = f"**Refused: {refused.code.value}**", refused.message
        context.log.info("refused (%s): %s", refused.code.value, refused.message)
    else:
        words, message = "**Applied**", done
    approved_by = receipts[0].approved_by if receipts else ""
    context.log_event(
        dg.AssetMaterialization(
            asset_key=names.path("decision"),
            description=f"{words}. {markdown_text(message)}{f' (plan `{short}`)' if short else ''}",
            metadata={
                "outcome": "refused" if refused else "applied",
                "refusal": refused.code.value if refused else "none",
                "message": message,
                "plan_digest": short,
                **({"approved_by": approved_by} if approved_by else {}),
                **({"not_sent": dg.MetadataValue.json([dict(one) for one in not_sent])} if not_sent else {}),
            },
        )
    )
