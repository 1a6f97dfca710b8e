"""The target's own facts, asked for by name right before its write."""

from guards.spool.listing import Entry, Listing
from guards.spool.planning import SpoolTarget
from guards.spool.world import SpoolWorld
from resources.file_servers.interface import Reader
from resources.spool.names import fits
from resources.spool.writing import Writing


def recheck(writing: Writing, target: SpoolTarget) -> str:
    """ "" when every requirement of the target still holds, else the first that does not, in a sentence.

    The bytes are not read here: they are hashed while they are sent, and compared before the final name is touched.
    """
    world = world_of_one(writing, target)
    for requirement in target.requirements:
        mismatch = requirement.check(world)
        if mismatch is not None:
            return mismatch.sentence()
    return ""


def world_of_one(writing: Writing, target: SpoolTarget) -> SpoolWorld:
    """Complete for this one name: each row was asked for by itself, so a name without a row is provably absent. A marker's name that
    is too long for any server cannot be there."""
    source, partner = writing.source, writing.partner
    siblings = [marker for suffix in target.marker_suffixes if fits(marker := target.name + suffix)]
    return SpoolWorld(
        observed_at=writing.state.now(),
        outbound=_rows(source, writing.spool, [target.name, *siblings]),
        archive=_rows(source, writing.route.archive, [target.name]),
        partner=_rows(partner, writing.inbox, [target.name]),
        source_confirmed={target.name: source.stat(writing.spool, target.name)},
        partner_confirmed={target.name: partner.stat(writing.inbox, target.name)},
    )


def _rows(reader: Reader, directory: str, names: list[str]) -> Listing:
    entries: list[Entry] = [entry for name in names if (entry := reader.stat(directory, name)) is not None]
    return Listing(directory=directory, entries=tuple(entries))
