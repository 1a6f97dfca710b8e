"""`opsguard ledger backup|export|import`: copies, and moving a ledger between stores."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guards.text import count_words
from opsguard_defs.cli.exits import Exit
from opsguard_defs.cli.ledger_keep import ledger
from opsguard_defs.cli.ledger_store import Place, StoreOption, is_absent, only_place, opened
from opsguard_defs.cli.ledger_words import head_json, refused_exit
from opsguard_defs.cli.options import AsJson
from opsguard_defs.cli.output import emit, line, say
from resources.errors import ConfigurationError

if TYPE_CHECKING:
    from guards.delivery.refusal import LedgerRefused
    from guards.delivery.slot import Slot
    from resources.ledger.interface import Ledger, Verification

__all__ = ["backup", "export_rows", "import_rows", "ledger"]


@ledger.command(epilog="Example: opsguard ledger backup /backup/ledger-2026-11-30 --store file")
def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory, on a disk of its own at best.")],
    store: StoreOption = "",
    as_json: AsJson = False,
) -> int:
    """Copy a file store as it is at one moment, while others use it. The copy sends nothing before a person accepts it.

    The ledger in the state database is part of `opsguard state backup`.
    """
    from opsguard_defs.settings import load_settings
    from resources.ledger.file.store import FileLedger
    from resources.ledger.places import require_outside

    settings = load_settings()
    place = only_place(settings, store)
    if place.directory is None:
        raise ConfigurationError("the ledger in the state database is part of `opsguard state backup`")
    if is_absent(place):
        raise ConfigurationError(f"there is no ledger in {place.directory}: nothing was copied")
    require_outside(directory, "the backup")
    with FileLedger.open(place.directory, create=False) as held:
        head = held.backup(directory.absolute())
        name = held.health().store
    if as_json:
        emit({"directory": str(directory), "store": name, "head": head_json(head)})
    else:
        line(f"{directory}: {count_words(head.sequence, 'row')}, head {head.digest}")
        line("to use it in place of the store: opsguard ledger repair --accept-copy --yes, on it")
    return Exit.DONE


@ledger.command("export", epilog="Example: opsguard ledger export ledger.jsonl --store file")
def export_rows(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines; readable by you only.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    retire: Annotated[
        bool, typer.Option("--retire", help="Then end this file store: nothing is sent from it any more (it moves elsewhere).")
    ] = False,
    store: StoreOption = "",
    as_json: AsJson = False,
) -> int:
    """Write every row, as of now, into one file. `opsguard ledger import` takes it into another store with the same head.

    To move a ledger, use --retire: an export of a store that goes on is a copy, and is only imported where a person accepts it.
    """
    from opsguard_defs.settings import load_settings
    from resources.ledger.places import is_retired
    from resources.ledger.transfer import export_to, require_target

    settings = load_settings()
    place = only_place(settings, store)
    if retire and place.directory is None:
        raise ConfigurationError("--retire ends a file store; this one is in the state database")
    if is_absent(place):
        raise ConfigurationError(f"there is no ledger in {place.directory}: nothing was exported")
    require_target(path.absolute(), force=force)
    with opened(settings, place) as held:
        if retire and (refused := _retire(held, place)):  # first: nothing may be appended behind the export
            return refused_exit(refused, as_json=as_json)
        retired = place.directory is not None and is_retired(place.directory)
        made = export_to(held, path.absolute(), force=force, retired=retired)
    if as_json:
        emit({"file": str(path), "rows": made.rows, "head": head_json(made.head), "store": made.store, "retired": made.retired})
        return Exit.DONE
    line(f"{path}: {count_words(made.rows, 'row')}, head {made.head.digest}")
    if retire:
        line("this store is retired: nothing is sent from it any more; next: opsguard ledger import FILE --store postgres")
    return Exit.DONE


def _retire(held: "Ledger", place: Place) -> "LedgerRefused | None":
    from guards.delivery.refusal import LedgerCode, LedgerRefused
    from resources.ledger.file.store import FileLedger
    from resources.ledger.places import is_retired

    if place.directory is not None and is_retired(place.directory):
        return LedgerRefused(LedgerCode.INVALID, "this store is retired already: export it without --retire")
    assert isinstance(held, FileLedger)  # asked before it was opened
    return held.retire(note="exported, to be used elsewhere")


@ledger.command("import", epilog="Example: opsguard ledger import ledger.jsonl --store postgres")
def import_rows(
    path: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="What `opsguard ledger export` wrote, or a directory of the older layout.")
    ],
    accept_copy: Annotated[
        bool,
        typer.Option("--accept-copy", help="You say: its store was not retired, and no other copy of it is used from now on."),
    ] = False,
    store: StoreOption = "",
    as_json: AsJson = False,
) -> int:
    """Take a ledger into an empty store: all of it, with the same head, or nothing.

    A directory is read as the older single-file layout (scheduled-deliveries.jsonl): what it cannot tell becomes doubt, never
    something unsent. With --accept-copy what was open becomes unknown, and so does what was due until now: it may have been sent.
    Exit code 3: refused, and nothing was imported.
    """
    from guards.delivery.refusal import LedgerRefused
    from opsguard_defs.settings import load_settings
    from resources.ledger.legacy import read_legacy
    from resources.ledger.places import are_a_ledger, require_outside
    from resources.ledger.transfer import import_from, read_export, require_retired

    settings = load_settings()
    place = only_place(settings, store)
    if not path.exists():
        raise ConfigurationError(f"{path} does not exist: nothing was imported")
    if (path / "segments").is_dir():
        raise ConfigurationError(f"{path} is a file store: `opsguard ledger export FILE --store {path}`, then import that file")
    if not (path.is_dir() or path.is_file()):
        raise ConfigurationError(f"{path} is neither a file nor a directory: nothing was imported")
    is_new = is_absent(place)
    if is_new and place.directory is not None:
        require_outside(place.directory, "the new ledger")
    doubtful: tuple[Slot, ...] = ()
    found: Verification | LedgerRefused
    if path.is_dir():
        taken = read_legacy(path.absolute())
        if isinstance(taken, LedgerRefused):
            return refused_exit(taken, as_json=as_json)
        doubtful = taken.doubtful
        if is_new and (refused := are_a_ledger(taken.rows)):
            return refused_exit(refused, as_json=as_json)
        with opened(settings, place, create=True) as held:
            found = held.adopt(taken.rows)
    else:
        if is_new:  # what is refused makes no store
            export = read_export(path)
            refused = export if isinstance(export, LedgerRefused) else None if accept_copy else require_retired(export)
            if refused is None and not isinstance(export, LedgerRefused):
                refused = are_a_ledger(export.rows())
            if refused is not None:
                return refused_exit(refused, as_json=as_json)
        with opened(settings, place, create=True) as held:
            found = import_from(path, held, accept_copy=accept_copy)
    if isinstance(found, LedgerRefused):
        return refused_exit(found, as_json=as_json)
    _imported(place, found, doubtful, by_day=path.is_dir(), as_json=as_json)
    return Exit.DONE


def _imported(place: Place, found: "Verification", doubtful: "tuple[Slot, ...]", *, by_day: bool, as_json: bool) -> None:
    if as_json:
        emit(
            {
                "rows": found.rows,
                "slots": found.slots,
                "counts": found.counts,
                "head": head_json(found.head),
                "became_doubtful": [slot.key for slot in doubtful],
            }
        )
    else:
        line(f"{place.said}: {count_words(found.rows, 'row')}, {count_words(found.slots, 'slot')}, head {found.head.digest}")
        line(f"slots: {', '.join(f'{number} {state}' for state, number in sorted(found.counts.items())) or 'none'}")
        for slot in doubtful:
            line(f"{slot.key}: the older ledger cannot tell whether it went out: unknown, until a person resolves it")
    if by_day:
        say(
            "the older layout keeps one slot per day: have its registry say `slot_identity: day`, or messages of this week and month "
            "that it has sent already are due again"
        )
