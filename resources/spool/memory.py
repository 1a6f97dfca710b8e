"""What the state store remembers about a route: the clock, first sightings, and the ledger's attempts."""

from collections.abc import Collection, Mapping

from guards.canonical import Json, digest
from guards.delivery.slot import Slot
from guards.spool.planning import SpoolTarget
from guards.spool.world import Attempt
from resources.spool.route import SpoolRoute
from resources.state import StateStore


def partner_key(route: SpoolRoute) -> str:
    """The ledger's customer: one partner inbox, whichever watch sends to it.

    The account belongs to it, since many servers give each account a directory tree of its own. When an address is spelled otherwise
    one day (another host name, another port), `partner_id` keeps what was sent there known.
    """
    if route.partner_id:
        return f"partner-id-{route.partner_id}"
    partner = route.partner
    inbox: dict[str, Json] = {
        "host": partner.host.lower().rstrip("."),
        "port": partner.port,
        "user": partner.user,
        "inbox": partner.directory,
    }
    return f"partner-{digest(inbox)[:16]}"


def name_key(name: str) -> str:
    return digest(name)[:16]


def feed_slot(route: SpoolRoute, name: str, sha256: str) -> Slot:
    """One slot for one name and one content at one partner's inbox: filled once, ever."""
    return Slot(customer=partner_key(route), period=f"{name_key(name)}-{sha256}", kind="feed")


def attempts(state: StateStore, route: SpoolRoute, names: Collection[str]) -> dict[str, tuple[Attempt, ...]]:
    """Every attempt the ledger holds for these names, oldest first; names without one are left out."""
    by_key = {name_key(name): name for name in names}
    found: dict[str, list[Attempt]] = {}
    for held in state.ledger.history_of(partner_key(route), by_key):
        key, _, sha256 = held.slot.period.partition("-")
        if name := by_key.get(key):
            found.setdefault(name, []).append(
                Attempt(
                    sha256=sha256, state=held.state, since=held.changed_at, live=held.is_live, reservation_id=held.reservation_id
                )
            )
    return {name: tuple(held) for name, held in found.items()}


def is_known_sent(target: SpoolTarget, known: Mapping[str, tuple[Attempt, ...]]) -> bool:
    """The ledger proves that exactly these bytes were delivered under this name. `known`: from `attempts`."""
    return any(one.state.is_proven_sent and one.sha256 == target.sha256 for one in known.get(target.name, ()))
