"""`opsguard ledger`: what may never happen twice, and how far each attempt got. The commands here only look.

`ledger_resolve` and `ledger_replace` take a person's word, `ledger_keep` and `ledger_move` keep, copy and move the store.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from guards.text import count_words
from opsguard_defs.cli import words
from opsguard_defs.cli.exits import Exit, worst
from opsguard_defs.cli.ledger_anchor import AnchorText, Published, anchors_of, check, kind_of, read_anchors
from opsguard_defs.cli.ledger_store import Place, StoreOption, health_of, looking, places
from opsguard_defs.cli.ledger_words import attempt_json, fault_json, head_json, say_fault, show_attempts, show_pins
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line, say
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from guards.delivery.entry import Reservation
    from guards.delivery.slot import Slot
    from opsguard_defs.settings import Settings
    from resources.ledger.interface import Health

ledger = typer.Typer(
    help="The ledger of everything that may happen only once.", no_args_is_help=True, epilog="Example: opsguard ledger verify"
)


@ledger.command(epilog="Example: opsguard ledger status")
def status(store: StoreOption = "", as_json: AsJson = False) -> int:
    """Slots by the state of their latest attempt, and the head of the chain.

    Exit code 4: nothing is sent until it is recovered, or some slots are blocked.
    """
    from opsguard_defs.settings import load_settings

    settings = load_settings()
    codes = []
    for place in places(settings, store):
        with looking(settings, place) as held:
            found = health_of(held, place)
        codes.append(Exit.UNPROVEN if found.recovery or found.blocked else Exit.DONE)
        if as_json:
            emit(_health_json(found))
        else:
            _show_health(found)
    return worst(codes)


@ledger.command(epilog="Example: opsguard ledger show acme-1:2026-11-30:daily --body")
def show(
    slot: Annotated[
        str, typer.Argument(metavar="SLOT", help="customer:period:kind; or the customer alone for all of its slots.")
    ],
    body: Annotated[bool, typer.Option("--body", help="Also print the message itself.")] = False,
    store: StoreOption = "",
    as_json: AsJson = False,
) -> int:
    """Every attempt at one slot (or of one customer), oldest first, with what was pinned and what became of it."""
    from guards.delivery.slot import NotASlot, is_customer_key, parse_slot
    from opsguard_defs.settings import load_settings

    try:
        wanted = parse_slot(slot) if ":" in slot else None
    except NotASlot as error:
        raise ConfigurationError(f"SLOT: {error}") from None
    if wanted is None and not is_customer_key(slot):
        raise ConfigurationError(f"SLOT: {slot[:80]!a} is neither customer:period:kind nor a customer's key")
    settings = load_settings()
    attempts: list[Reservation] = []
    for place in places(settings, store, kind=wanted.kind if wanted else ""):
        attempts += _attempts(settings, place, wanted, slot)
    if as_json:
        for attempt in attempts:
            emit(attempt_json(attempt, with_body=body))
    elif not attempts:
        line("the ledger holds no attempt at that")
    else:
        show_attempts(attempts)
        for attempt in attempts if wanted else ():
            show_pins(attempt, with_body=body)
    return Exit.DONE


@ledger.command(epilog="Example: opsguard ledger verify --against anchor.json")
def verify(
    store: StoreOption = "",
    against: Annotated[
        str, typer.Option("--against", metavar=AnchorText, help="It must also extend what `opsguard ledger anchor` printed.")
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Check the whole chain from its first row. Nothing is changed by it.

    Exit code 5 when it is not whole; 4 when it does not extend the anchor.
    """
    from opsguard_defs.settings import load_settings

    settings = load_settings()
    published = read_anchors(against) if against else ()
    return worst(_verify(settings, place, published, as_json=as_json) for place in places(settings, store or kind_of(published)))


def _verify(settings: "Settings", place: Place, published: tuple[Published, ...], *, as_json: bool) -> Exit:
    with looking(settings, place) as held:
        found = held.verify()
        name = health_of(held, place).store
        wanted = anchors_of(published, name)
        extends = check(held, wanted) if wanted else Exit.DONE
    if as_json:
        emit(
            {
                "store": name,
                "rows": found.rows,
                "slots": found.slots,
                "counts": found.counts,
                "head": head_json(found.head),
                "faults": [fault_json(fault) for fault in found.faults],
                **({"extends_anchor": extends is Exit.DONE} if published else {}),
            }
        )
    else:
        line(f"{name}: {count_words(found.rows, 'row')}, {count_words(found.slots, 'slot')}, head {found.head.digest}")
        if not found.faults:
            line("every row continues the one before it, and every claim and answer follows from them")
    for fault in found.faults:
        say_fault(fault)
    if found.faults:
        say("nothing is sent where doubt exists; what can be repaired without losing anything: `opsguard ledger repair`")
    return worst([Exit.NOT_OBSERVED if found.faults else Exit.DONE, extends])


def _attempts(settings: "Settings", place: Place, wanted: "Slot | None", customer: str) -> "tuple[Reservation, ...]":
    with looking(settings, place) as held:
        return held.of(wanted) if wanted else held.history(customer)


def _health_json(found: "Health") -> dict[str, object]:
    return {
        "store": found.store,
        "counts": found.counts,
        "head": head_json(found.head),
        "oldest_sending_at": found.oldest_sending_at,
        "stale_sending": [slot.key for slot in found.stale_sending],
        "recovery": found.recovery,
        "blocked": found.blocked,
    }


def _show_health(found: "Health") -> None:
    line(f"{found.store}")
    line(f"slots: {', '.join(f'{number} {state}' for state, number in sorted(found.counts.items())) or 'none yet'}")
    line(f"chain: {count_words(found.head.sequence, 'row')}, head {found.head.digest}")
    if found.oldest_sending_at:
        line(f"sending since {words.utc(found.oldest_sending_at)}")
    for slot in found.stale_sending:
        line(
            f"{slot.key}: its holder is gone and said nothing: it may have gone out. The expire sensor or the next apply run makes it doubt; to settle it: `opsguard ledger resolve {slot.key}`"
        )
    if doubtful := found.counts.get("unknown", 0) + found.counts.get("sending", 0):
        line(
            f"{count_words(doubtful, 'slot')} unresolved: a report looks at each and says what it found; what stays in doubt a person settles: `opsguard ledger resolve`"
        )
    if found.blocked:
        say(f"{count_words(found.blocked, 'slot')} blocked: `opsguard ledger verify`")
    if found.recovery:
        say(f"nothing is sent from here: {found.recovery}")
