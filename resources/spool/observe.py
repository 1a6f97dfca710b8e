"""Look at all three places and at what we remember, until the judge has no open question. Reads only."""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from guards.spool.case import Bench
from guards.spool.judge import assess
from guards.spool.listing import Entry
from guards.spool.policy import SpoolPolicy
from guards.spool.questions import Questions, questions_of
from guards.spool.ruling import Judged
from guards.spool.world import SpoolWorld
from resources.errors import NotObserved, Transient
from resources.file_servers.connect import PATIENCE, Patience
from resources.file_servers.interface import Reader
from resources.progress import Progress, silent
from resources.pulse import nothing_moves
from resources.spool.memory import attempts
from resources.spool.sides import OpenSides
from resources.state import StateStore

MEGABYTE = 1024 * 1024
MOST_ROUNDS = 6
"""Listing, confirmation, second look and hashes need four; more means that the judge repeats itself."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen, and the entries as the last round judged them: no question is open any more."""

    bench: Bench
    judged: Sequence[Judged]

    @property
    def world(self) -> SpoolWorld:
        return self.bench.world


def observe(sides: OpenSides, state: StateStore, *, policy: SpoolPolicy, progress: Progress = silent) -> Observed:
    """Everything a report needs. Raises `Unreachable` and its kinds when a side cannot be observed at all."""
    world = look(sides, state, policy=policy, progress=progress)
    profile = sides.route.partner.profile
    for _ in range(MOST_ROUNDS):
        bench = Bench(
            world=world,
            policy=policy,
            consumes_on_arrival=profile.consumes_on_arrival,
            case_sensitive=profile.case_sensitive,
        )
        judged = assess(bench)
        questions = questions_of(judged)
        if not questions:
            return Observed(bench=bench, judged=judged)
        world = _answer(world, questions, sides, policy=policy, progress=progress)
    raise AssertionError("the judge kept asking after every question was answered")


def reobserve(
    sides: OpenSides,
    state: StateStore,
    *,
    policy: SpoolPolicy,
    names: Collection[str],
    progress: Progress = silent,
    moved: Callable[[], None] = nothing_moves,
) -> SpoolWorld:
    """What an apply run needs: whole listings, and every fact about the plan's own names, hashes of their sources included.
    `moved` is called with every answer and every block that was read."""
    world = look(sides, state, policy=policy, progress=_both(progress, moved))
    if world.incomplete:
        return world  # the gate refuses it as it is
    wanted = frozenset(names)
    questions = Questions(confirm_source=wanted, confirm_partner=wanted, hash_source=wanted)
    return _answer(world, questions, sides, policy=policy, progress=progress, moved=moved)


def look(sides: OpenSides, state: StateStore, *, policy: SpoolPolicy, progress: Progress = silent) -> SpoolWorld:
    """The three listings, first sightings and the ledger: no question asked by name yet."""
    route = sides.route
    progress("listing the outbound spool", 0, 3)
    outbound = sides.source.list(route.source.directory, limit=policy.listing_limit)
    progress("listing the archive", 1, 3)
    archive = sides.source.list(route.archive, limit=policy.listing_limit)
    progress("listing the partner's inbox", 2, 3)
    partner = sides.partner.list(route.partner.directory, limit=policy.listing_limit)
    progress("listed", 3, 3)
    versions = {_version(entry): entry.name for entry in outbound}
    began_at = state.now()
    first_seen = state.first_seen("spool", route.name, versions)
    return SpoolWorld(
        observed_at=state.now(),
        outbound=outbound,
        archive=archive,
        partner=partner,
        first_seen={name: at for version, name in versions.items() if (at := first_seen[version]) < began_at},
        attempts=attempts(state, route, set(versions.values())),
    )


def _version(entry: Entry) -> str:
    """What is remembered is one version of a feed: many producers use the same name every day, and yesterday's age is not today's."""
    modified = "" if entry.modified_at is None else entry.modified_at.isoformat()
    return f"{entry.name}\n{entry.size_bytes}\n{modified}"


def _answer(
    world: SpoolWorld,
    questions: Questions,
    sides: OpenSides,
    *,
    policy: SpoolPolicy,
    progress: Progress,
    moved: Callable[[], None] = nothing_moves,
) -> SpoolWorld:
    route = sides.route
    told = _both(progress, moved)
    source = {**world.source_confirmed, **_confirm(sides.source, route.source.directory, questions.confirm_source, told)}
    partner = {**world.partner_confirmed, **_confirm(sides.partner, route.partner.directory, questions.confirm_partner, told)}
    second = dict(world.partner_second_look)
    if questions.second_look:
        time.sleep(policy.stable_seconds)
        second |= _confirm(sides.partner, route.partner.directory, questions.second_look, told)
    ceiling = policy.max_file_megabytes * MEGABYTE
    return replace(
        world,
        source_confirmed=source,
        partner_confirmed=partner,
        partner_second_look=second,
        source_sha256={
            **world.source_sha256,
            **_hash(sides.source, route.source.directory, questions.hash_source, ceiling, progress, moved),
        },
        partner_sha256={
            **world.partner_sha256,
            **_hash(sides.partner, route.partner.directory, questions.hash_partner, ceiling, progress, moved),
        },
    )


def _both(progress: Progress, moved: Callable[[], None]) -> Progress:
    def told(what: str, done: int, of: int) -> None:
        progress(what, done, of)
        moved()

    return told


def _confirm(reader: Reader, directory: str, names: Iterable[str], progress: Progress) -> dict[str, Entry | None]:
    asked = sorted(names)
    answers: dict[str, Entry | None] = {}
    for number, name in enumerate(asked, start=1):
        answers[name] = reader.stat(directory, name)
        progress("confirming by name", number, len(asked))
    return answers


def _hash(
    reader: Reader, directory: str, names: Iterable[str], ceiling: int, progress: Progress, moved: Callable[[], None]
) -> dict[str, str]:
    """Name to SHA-256; "" for a feed that vanished or cannot be read, which blocks its own verdict and nobody else's."""
    asked = sorted(names)
    hashes: dict[str, str] = {}
    for number, name in enumerate(asked, start=1):
        try:
            hashes[name] = hash_of(reader, directory, name, ceiling_bytes=ceiling, moved=moved)
        except NotObserved:
            hashes[name] = ""
        progress("hashing", number, len(asked))
    return hashes


def hash_of(
    reader: Reader,
    directory: str,
    name: str,
    *,
    ceiling_bytes: int,
    moved: Callable[[], None] = nothing_moves,
    patience: Patience = PATIENCE,
) -> str:
    """SHA-256 of the bytes as read from the server, never of what the server says about itself. A feed that is cut on the way is read
    again from its first byte; opening it has the session's own attempts."""
    attempt = 1
    while True:
        seen, began = hashlib.sha256(), False
        try:
            for block in reader.read(directory, name, ceiling_bytes=ceiling_bytes):
                began = True
                seen.update(block)
                moved()
            return seen.hexdigest()
        except Transient:
            if not began or attempt >= patience.attempts:
                raise
        time.sleep(patience.pause_after(attempt))
        attempt += 1
