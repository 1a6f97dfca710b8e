"""How a played demo is printed: the tables at its end, and its JSON."""

from typing import TYPE_CHECKING, Any

from opsguard_defs.cli.output import line, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opsguard_defs.demo import Played
    from opsguard_defs.demo_delivery import PlayedMessages
    from opsguard_defs.demo_play import Step

_COLUMNS = 100


def summary(feeds: "Sequence[Played]", messages: "Sequence[PlayedMessages]") -> None:
    line()
    if feeds:
        _feeds(feeds)
    for played in messages:
        rows = [(one.slot, one.route, one.was, one.became, one.taken) for one in played.messages]
        columns = ("message", "route", "was", "is now", "times taken")
        table(columns, rows, title="What happened, by the providers' own records", right=("times taken",), most_columns=_COLUMNS)


def _feeds(feeds: "Sequence[Played]") -> None:
    rows = [(f"spool/{one.watch}", feed.name, feed.verdict, f"{feed.size_bytes:,}", "yes") for one in feeds for feed in one.feeds]
    columns = ("watch", "feed", "was", "bytes", "re-sent, proven, archived")
    table(columns, rows, title="What happened", right=("bytes",), most_columns=_COLUMNS)
    sides = [
        (one.watch, feed.name, side, digest)
        for one in feeds
        for feed in one.feeds
        for side, digest in (("archive", feed.archive_sha256), ("partner", feed.partner_sha256))
    ]
    title = "The same bytes on both sides"
    table(("watch", "feed", "side", "SHA-256 of the bytes on disk"), sides, title=title, most_columns=_COLUMNS + 20)


def feeds_json(one: "Played") -> dict[str, Any]:
    return {
        "guard": "spool",
        "watch": one.watch,
        "plan_digest": one.plan_digest,
        "run_id": one.run_id,
        "steps": _steps(one.steps),
        "feeds": [
            {
                "name": feed.name,
                "verdict": feed.verdict,
                "size_bytes": feed.size_bytes,
                "archive_sha256": feed.archive_sha256,
                "partner_sha256": feed.partner_sha256,
            }
            for feed in one.feeds
        ],
    }


def messages_json(one: "PlayedMessages") -> dict[str, Any]:
    return {
        "guard": "delivery",
        "watch": one.watch,
        "plan_digest": one.plan_digest,
        "run_id": one.run_id,
        "steps": _steps(one.steps),
        "messages": [
            {"slot": m.slot, "route": m.route, "was": m.was, "became": m.became, "times_taken": m.taken} for m in one.messages
        ],
    }


def _steps(steps: "Iterable[Step]") -> list[dict[str, str]]:
    return [{"step": s.letter, "title": s.title, "command": s.command, "seen": s.seen} for s in steps]
