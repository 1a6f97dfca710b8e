"""The ledger of one delivery watch as an asset, and the six checks on it: from a fresh full verification, never from what a call returned."""

from typing import Any, Final

import dagster as dg

from assets.check_result import check_evaluation
from assets.delivery import delivery_key, spec
from guards.delivery.reservation import ReservationState
from guards.text import count_words, markdown_text
from resources.delivery.examine import Examined, examine
from resources.delivery.ledger import remember
from resources.delivery.receipts import without_receipt
from resources.delivery.route import DeliveryRoute
from resources.ledger.interface import Health, Ledger
from resources.progress import watched
from resources.state import StateStore

CHECKS: Final = {
    "chain_valid": "Every row of the ledger is what was written, in its place.",
    "claims_paired": "Every claim on a slot has its reservation, and every reservation its claim.",
    "head_extends_last_published": "The head that was last published is still in the chain: no older copy was restored.",
    "no_stale_sending": "No message is left in the middle of its call by a run that ended.",
    "every_delivered_has_a_receipt": "Every message that counts as sent has evidence about itself.",
    "one_delivery_per_slot": "No slot was sent more than once.",
}
STATE_WORDS: Final = {
    ReservationState.PREPARED: "reserved, nobody called yet",
    ReservationState.SENDING: "under way",
    ReservationState.DELIVERED: "sent",
    ReservationState.SENT_AUDITED: "sent, and looked at once more",
    ReservationState.KNOWN_FAILURE: "provably not sent",
    ReservationState.UNKNOWN: "in doubt",
    ReservationState.ABANDONED: "given up before the call",
    ReservationState.RESOLVED_SENT: "resolved as sent",
    ReservationState.RESOLVED_NOT_SENT: "resolved as not sent",
}
_VOUCH_FOR_THE_HEAD: Final = frozenset({"chain_valid", "head_extends_last_published"})


def ledger_check_specs(route: DeliveryRoute) -> list[dg.AssetCheckSpec]:
    key = delivery_key(route, "ledger")
    return [dg.AssetCheckSpec(name, asset=key, description=text) for name, text in CHECKS.items()]


def ledger_spec(route: DeliveryRoute) -> dg.AssetSpec:
    return spec(route, "ledger", kinds={"postgres" if route.ledger == "postgres" else "file"}, skippable=True)


def examine_and_publish(route: DeliveryRoute, store: StateStore, ledger: Ledger, *, run_id: str) -> Examined:
    """The head is published only where chain and last published head vouch for it: else the alarm would end with the next report."""
    known = store.published.of_watch(route.name)
    examined = examine(
        ledger,
        published=None if known is None else known.head,
        without_receipt=lambda: set(without_receipt(route, store)),
        progress=watched(),
    )
    if all(one.passed for one in examined.outcomes if one.name in _VOUCH_FOR_THE_HEAD):
        remember(route, store, ledger, run_id=run_id)
    return examined


def log_ledger(context: dg.OpExecutionContext, route: DeliveryRoute, examined: Examined) -> None:
    """What the apply run leaves behind: the asset and its checks must not keep saying what they said before."""
    key = delivery_key(route, "ledger")
    context.log_event(dg.AssetMaterialization(key, metadata=ledger_metadata(examined.health)))
    for outcome in examined.outcomes:
        context.log_event(check_evaluation(outcome, key))


def ledger_metadata(health: Health) -> dict[str, Any]:
    """A sentence first. The numbers have fixed names: they become plots. Every state has one, 0 included."""
    since = health.oldest_sending_at
    return {
        "health": dg.MetadataValue.md(health_words(health)),
        "store": health.store,
        "recovery": health.recovery or "none needed",
        "head": health.head.digest[:12],
        "sequence": health.head.sequence,
        **{f"state_{state.value}": health.counts.get(state.value, 0) for state in ReservationState},
        "stale_sending": len(health.stale_sending),
        "oldest_sending": "none" if since is None else f"since {since:%Y-%m-%d %H:%M:%S} UTC",
    }


def health_words(health: Health) -> str:
    """ "**12 messages**: 10 sent, 1 in doubt, 1 provably not sent", and where each kind of trouble is explained. Markdown."""
    counts = [(STATE_WORDS[state], health.counts.get(state.value, 0)) for state in ReservationState]
    said = ", ".join(f"{number:,} {words}" for words, number in counts if number)
    total = sum(number for _, number in counts)
    lines = [f"**{count_words(total, 'message')}**{f': {said}' if said else ''}."]
    if health.recovery:
        lines.append(f"Nothing is sent: {markdown_text(health.recovery)}")
    if health.stale_sending:
        lines.append("A run ended in the middle of a call: the check **no\\_stale\\_sending** says what to do.")
    if health.counts.get(ReservationState.UNKNOWN.value, 0):
        lines.append(
            "What is in doubt is never sent again by itself: the check **plan\\_needs\\_a\\_decision** of the plan names each and what to type."
        )
    return "\n\n".join(lines)
