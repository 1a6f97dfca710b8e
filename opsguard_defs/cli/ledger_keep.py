"""`opsguard ledger anchor|repair`: keeping the ledger."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from opsguard_defs.cli.exits import Exit, worst
from opsguard_defs.cli.ledger_anchor import AnchorText, anchors_of, check, kind_of, read_anchors
from opsguard_defs.cli.ledger_replace import ledger
from opsguard_defs.cli.ledger_store import StoreOption, health_of, is_absent, looking, only_place, opened, places
from opsguard_defs.cli.ledger_words import fault_json, head_json, say_fault
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line, say
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from resources.ledger.interface import Ledger, Repairs, Verification

__all__ = ["anchor", "ledger", "repair"]

_TAKEN_FOR_A_COPY: Final = "nothing is wrong. --yes takes this store for a copy all the same: what is open becomes unknown, and so does what was due until then"


@ledger.command(epilog="Example: opsguard ledger anchor >> /mnt/elsewhere/anchors.jsonl")
def anchor(
    against: Annotated[
        str, typer.Option("--check", metavar=AnchorText, help="Print nothing; check that the chain extends this one.")
    ] = "",
    store: StoreOption = "",
    as_json: AsJson = False,
) -> int:
    """Print the head of the chain, to be kept on another machine. Exit code 4: the chain does not extend the one given by --check.
    5: there is no ledger yet, or its directory is not there now."""
    from opsguard_defs.settings import load_settings

    settings = load_settings()
    published = read_anchors(against) if against else ()
    codes = []
    for place in places(settings, store or kind_of(published)):
        with looking(settings, place) as held:
            name, head, at = health_of(held, place).store, held.head(), held.now()
            wanted = anchors_of(published, name)
            codes.append(check(held, wanted) if wanted else Exit.DONE)
        if not wanted and is_absent(place):
            say(f"{name}: no anchor is printed: nothing was sent yet, or the directory is not mounted")
            codes.append(Exit.NOT_OBSERVED)
        elif not wanted:
            emit({"store": name, **head_json(head), "at": at})
        elif as_json:
            emit({"store": name, "extends_anchor": codes[-1] is Exit.DONE, "head": head_json(head)})
        elif codes[-1] is Exit.DONE:
            line(
                f"{name} holds row {wanted[-1].sequence} as it was published, and {head.sequence - wanted[-1].sequence} rows since"
            )
    return worst(codes)


@ledger.command(epilog="Example: opsguard ledger repair --yes")
def repair(
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without it what is wrong is only shown.")] = False,
    accept_copy: Annotated[
        bool, typer.Option("--accept-copy", help="You say: this is a copy (or another server), and no other copy of it is used.")
    ] = False,
    accept_loss: Annotated[bool, typer.Option("--accept-loss", help="You say: the rows that are gone stay gone.")] = False,
    store: StoreOption = "",
    as_json: AsJson = False,
) -> int:
    """Put right what can be put right without losing anything and without making anything unsent.

    With --accept-copy or --accept-loss everything that was still open becomes unknown: it may have been sent meanwhile.
    Exit code 4: something is left that a person has to decide. 5: without --yes, where something is wrong.
    """
    from opsguard_defs.settings import load_settings

    settings = load_settings()
    place = only_place(settings, store)
    if accept_loss and place.directory is None:
        raise ConfigurationError("--accept-loss is for a file store; this one is in the state database")
    if not yes or is_absent(place):
        with looking(settings, place) as held:
            found, recovery = held.verify(), held.health().recovery
        return _would_repair(found, recovery, accept_copy=accept_copy, as_json=as_json)
    with opened(settings, place) as held:
        return _repaired(_repair(held, accept_copy=accept_copy, accept_loss=accept_loss), as_json=as_json)


def _repair(held: "Ledger", *, accept_copy: bool, accept_loss: bool) -> "Repairs":
    if not accept_loss:
        return held.repair(accept_copy=accept_copy)
    from resources.ledger.file.store import FileLedger

    assert isinstance(held, FileLedger)  # asked before it was opened
    return held.repair(accept_copy=accept_copy, accept_loss=accept_loss)


def _would_repair(found: "Verification", recovery: str, *, accept_copy: bool, as_json: bool) -> Exit:
    if as_json:
        emit({"faults": [fault_json(fault) for fault in found.faults], "recovery": recovery, "made": None, "left": None})
    for fault in found.faults:
        say_fault(fault)
    if recovery:
        say(recovery)
    if not found.faults and not recovery:
        if not as_json:
            line("nothing is wrong: there is nothing to repair" if not accept_copy else _TAKEN_FOR_A_COPY)
        return Exit.DONE
    if not as_json:
        line("--yes repairs what of this loses nothing and makes nothing unsent; the rest stays and is named")
    return Exit.NOT_OBSERVED


def _repaired(done: "Repairs", *, as_json: bool) -> Exit:
    if as_json:
        made = [{"what": one.what, "done": one.done, "slot": one.slot.key if one.slot else ""} for one in done.made]
        emit({"made": made, "left": [fault_json(fault) for fault in done.left]})
    else:
        for one in done.made:
            line(f"{'done' if one.done else 'left to you'}: {one.what}")
        if not done.made and not done.left:
            line("there was nothing to repair")
    for fault in done.left:
        say_fault(fault)
    return Exit.UNPROVEN if done.left or not all(one.done for one in done.made) else Exit.DONE
