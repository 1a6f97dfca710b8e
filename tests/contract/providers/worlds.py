"""One world per provider: the provider, the other side it talks to, and what that side itself recorded as taken.

And the ledger around one attempt, as an apply run drives it: reserve, grant, one call, settle.
"""

import html
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, assert_never

from pydantic import SecretStr

from guards.delivery.entry import Reservation
from guards.delivery.outcome import Outcome, Reason, delivered, known_failure, unknown
from guards.delivery.pins import Pins
from guards.delivery.refusal import LedgerRefused
from guards.delivery.slot import Grant, Slot
from opsguard_defs.sandbox.servers.slack_sink import SlackSink
from resources.ledger.interface import Ledger
from resources.providers.chosen import open_providers
from resources.providers.interface import Accepted, Ambiguous, Answer, Message, Provider, Rejected
from resources.providers.settings import ProviderSettings, SlackEndpoint, SmtpEndpoint, WebhookEndpoint
from tests.patience import PATIENCE_SECONDS
from tests.servers.authorization import authorized
from tests.servers.slack import CANARY
from tests.servers.smtp import lying_smtp
from tests.servers.webhook import lying_webhook

KINDS: Final = ("slack", "webhook", "smtp", "file")
BODY: Final = "Good morning,\n\n.a line that begins with a dot\n<!channel> & 50 % done \N{SNOWMAN}\n"
SLOT: Final = Slot("acme-1", "2026-11-30", "reminder")
"""Of a kind whose proven failures are believed."""
SCOPE: Final = "spool/acme"
"""Of the tests' authorization."""
KEY: Final = SLOT.reservation_id(1)
EARLIER: Final = datetime.now(UTC) - timedelta(days=1)
LATER: Final = EARLIER + timedelta(days=2)
"""Around all of a test run: this is read when it begins, and the last test may come hours later."""


@dataclass
class World:
    provider: Provider
    message: Message
    taken: Callable[[], list[str]]
    """Keys in the other side's own record, one for each time that it took a message."""
    contacts: Callable[[], int] = lambda: 0
    """How often the other side heard of us at all."""
    body: Callable[[], str] = str
    """Of the message that was taken last, as its reader sees it."""


@dataclass
class Clock:
    """A ledger's clock, moved by hand."""

    at: datetime = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class Told:
    """One attempt: what the provider answered, and what the ledger made of it."""

    answer: Answer
    settled: Reservation | LedgerRefused
    grant: Grant
    others: list[LedgerRefused | Grant] = field(default_factory=list)


@contextmanager
def world(kind: str, directory: Path) -> Iterator[World]:
    """An honest one."""
    match kind:
        case "slack":
            with slack_world() as (_, made):
                yield made
        case "webhook":
            with lying_webhook() as server:
                endpoint = WebhookEndpoint(
                    server.url + "/in", lookup_url=server.url + "/in", token=SecretStr(CANARY), timeout_seconds=PATIENCE_SECONDS
                )
                yield World(
                    open_one(ProviderSettings(webhooks={"acme": endpoint})),
                    Message("acme", BODY, subject="Morning", display="Acme"),
                    lambda: list(server.accepted),
                    lambda: server.connections,
                    lambda: str(server.bodies[KEY]["body"]),
                )
        case "smtp":
            with lying_smtp() as mail:
                settings = SmtpEndpoint("127.0.0.1", "ops@guard.example", tls="none", port=mail.port)
                yield World(
                    open_one(ProviderSettings(smtp=settings)),
                    Message("kim@acme.example", BODY, subject="Morning \N{SNOWMAN}", display="Acme"),
                    lambda: list(mail.accepted),
                    lambda: len(mail.commands),
                    lambda: str(mail.mails[-1].get_content()),
                )
        case _:
            yield file_world(directory / "sent")


@contextmanager
def slack_world(*, timeout_seconds: int = PATIENCE_SECONDS) -> Iterator[tuple[SlackSink, World]]:
    sink = SlackSink().start()
    try:
        yield (
            sink,
            World(
                slack_at(sink, timeout_seconds=timeout_seconds),
                Message("C0123456", BODY, subject="Morning", display="Acme"),
                lambda: [message["body"]["metadata"]["event_payload"]["key"] for message in sink.messages],
                lambda: len(sink.messages),
                lambda: html.unescape(sink.messages[-1]["body"]["text"]),
            ),
        )
    finally:
        sink.close()


def slack_at(sink: SlackSink, *, timeout_seconds: int = PATIENCE_SECONDS) -> Provider:
    endpoint = SlackEndpoint(SecretStr(CANARY), f"{sink.url}/api/", timeout_seconds)
    return open_one(ProviderSettings(slack=endpoint))


def file_world(root: Path) -> World:
    return World(
        open_one(ProviderSettings(file_provider_dir=root)),
        Message("acme", BODY, subject="Morning", display="Acme"),
        lambda: published(root),
        lambda: len(list(root.rglob("*"))),
        lambda: str(json.loads((root / "acme" / f"{KEY}.json").read_text("ascii"))["body"]),
    )


def published(root: Path) -> list[str]:
    """What a program that takes the files would take: whole ones, by their own content."""
    return [str(json.loads(path.read_text("ascii"))["key"]) for path in sorted(root.glob("*/[!.]*.json"))]


def open_one(settings: ProviderSettings) -> Provider:
    (opened,) = open_providers(settings).values()
    return opened


def outcome_of(answer: Answer) -> Outcome:
    match answer:
        case Accepted(receipt):
            return delivered(receipt)
        case Rejected(code, why):
            return known_failure(Reason.REJECTED, f"{code}: {why}")
        case Ambiguous(why):
            return unknown(Reason.NO_ANSWER, why)
        case _:
            assert_never(answer)


def send(provider: Provider, message: Message, *, key: str) -> Answer:
    """One attempt, as an authorised run makes it."""
    return provider.writer(authorized(), scope=SCOPE).send(message, key=key)


def fitting(answer: Callable[[float], Answer]) -> Answer:
    """The answer to a call that is given this many seconds. On a busy machine what comes before the lie may not fit into a few, and such
    a call was provably not taken; then it is made once more, with all our patience."""
    told = answer(5)
    return answer(PATIENCE_SECONDS) if isinstance(told, Rejected) else told


def granted(ledger: Ledger, slot: Slot = SLOT, facts: Mapping[str, str] | None = None) -> Grant:
    held = ledger.reserve(slot, Pins(dict(facts or {"body": BODY})), key="run-1")
    assert isinstance(held, Reservation), held
    grant = ledger.grant(held.reservation_id, holder="run-1")
    assert isinstance(grant, Grant), grant
    return grant


def attempted(ledger: Ledger, made: World) -> Told:
    grant = granted(ledger)
    answer = send(made.provider, made.message, key=grant.reservation_id)
    return Told(answer, ledger.settle(grant, outcome_of(answer)), grant)


def tried_again(ledger: Ledger) -> list[Reservation | LedgerRefused | Grant]:
    """What a second run gets: the stored reservation, and no right to call anybody."""
    held = ledger.reserve(SLOT, Pins({"body": BODY}), key="run-2")
    assert isinstance(held, Reservation), held
    return [held, ledger.grant(held.reservation_id, holder="run-2")]
