"""A mail server that lies, with a real ledger around it: before the last dot nothing can have been taken, after it anything."""

import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from guards.delivery.refusal import LedgerCode, LedgerRefused
from guards.delivery.reservation import ReservationState as S
from resources.ledger.memory import Kept, MemoryLedger
from resources.providers.interface import Accepted, Ambiguous, Answer, Message, Rejected
from resources.providers.settings import ProviderSettings, SmtpEndpoint
from tests.contract.providers.worlds import (
    BODY,
    KEY,
    Clock,
    World,
    attempted,
    fitting,
    granted,
    open_one,
    outcome_of,
    send,
    tried_again,
)
from tests.integration.test_slack_client import self_signed
from tests.patience import PATIENCE_SECONDS
from tests.servers.smtp import PASSWORD, USER, Fault, LyingSmtp, lying_smtp


def made_for(server: LyingSmtp, *, timeout_seconds: float = PATIENCE_SECONDS, **setting: Any) -> World:
    given = {"tls": server.tls, "port": server.port, "timeout_seconds": timeout_seconds, **setting}
    provider = open_one(ProviderSettings(smtp=SmtpEndpoint("127.0.0.1", "ops@guard.example", **given)))
    return World(provider, Message("kim@acme.example", BODY, subject="Morning"), lambda: list(server.accepted))


BEFORE = ("connect", "EHLO", "MAIL", "RCPT", "DATA", "content")


@pytest.mark.parametrize("step", BEFORE)
@pytest.mark.parametrize("fault", [Fault.DROP, Fault.HANG, Fault.DRIP, Fault.GARBAGE, "451 4.3.0 later", "554 5.7.1 no"])
def test_what_fails_before_the_last_dot_was_provably_not_taken(step: str, fault: str) -> None:
    seconds = 1 if fault in (Fault.HANG, Fault.DRIP) else PATIENCE_SECONDS
    with lying_smtp({step: fault}) as server:
        ledger = MemoryLedger()
        told = attempted(ledger, made_for(server, timeout_seconds=seconds))
        if step == "content":  # a small mail and its dot may be on their way before it is seen
            assert not isinstance(told.answer, Accepted)
        else:
            assert isinstance(told.answer, Rejected), told.answer
        if isinstance(told.answer, Rejected):
            assert server.accepted == []
        held, grant = tried_again(ledger)
        assert held.state is (S.KNOWN_FAILURE if isinstance(told.answer, Rejected) else S.UNKNOWN)  # type: ignore[union-attr]
        assert isinstance(grant, LedgerRefused)


@pytest.mark.parametrize(
    ("said", "takes", "proves"),
    [
        ("250 2.0.0 Ok: queued", True, Accepted),
        ("200 whatever", True, Accepted),
        ("550 5.7.1 spam", False, Rejected),
        ("451 4.7.1 greylisted", False, Rejected),
        ("421 4.4.2 connection lost", True, Ambiguous),
        ("421 4.4.2 connection lost", False, Ambiguous),
        ("354 go on", True, Ambiguous),
        ("999 what", True, Ambiguous),
        (Fault.GARBAGE, True, Ambiguous),
        (Fault.DROP, True, Ambiguous),
        (Fault.DROP, False, Ambiguous),
        (Fault.HANG, True, Ambiguous),
        (Fault.DRIP, True, Ambiguous),
    ],
)
def test_every_answer_to_the_last_dot_proves_something(said: str, takes: bool, proves: type) -> None:
    commands: list[str] = []

    def answer(seconds: float) -> Answer:
        nonlocal commands
        with lying_smtp({"dot": said}, takes=takes) as server:
            ledger = MemoryLedger()
            told = attempted(ledger, made_for(server, timeout_seconds=seconds))
            if isinstance(told.answer, Rejected):
                assert server.accepted == []
            if isinstance(told.answer, Accepted):
                assert server.accepted == [KEY]
            assert isinstance(tried_again(ledger)[1], LedgerRefused)
            commands = server.commands
        return told.answer

    told = fitting(answer) if said in (Fault.HANG, Fault.DRIP) else answer(PATIENCE_SECONDS)  # all before the dot has to fit
    assert isinstance(told, proves), told
    assert commands.count("DATA") == 1


@pytest.mark.parametrize(("early", "takes"), [("554 5.7.1 too soon", True), ("250 2.0.0 too soon", False)])
def test_a_reply_too_many_is_never_taken_for_the_answer_to_the_last_dot(
    early: str, takes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter spoke while the mail was arriving, and the server behind it answered after the end: one reply behind, both wrong."""
    monkeypatch.setattr("resources.providers.smtp.GOODBYE_SECONDS", PATIENCE_SECONDS)
    with lying_smtp({"early": early, "dot": "250 2.0.0 taken" if takes else "554 5.7.1 not taken"}, takes=takes) as server:
        answer = attempted(MemoryLedger(), made_for(server)).answer
        assert isinstance(answer, Ambiguous), answer
        assert server.accepted == [KEY] * takes


def test_a_server_that_is_lost_at_goodbye_has_taken_it() -> None:
    for fault in (Fault.DROP, Fault.HANG, Fault.GARBAGE):
        with lying_smtp({"QUIT": fault}) as server:
            assert isinstance(attempted(MemoryLedger(), made_for(server)).answer, Accepted)
            assert server.accepted == [KEY]


def test_an_answer_after_the_lease_ended_is_kept_as_late_evidence() -> None:
    kept, clock = Kept(), Clock()
    sender, sensor = MemoryLedger(kept, clock=clock), MemoryLedger(kept, clock=clock)
    answers: list[Answer] = []
    with lying_smtp({"dot": Fault.LATE}) as server:
        made = made_for(server, timeout_seconds=PATIENCE_SECONDS)
        grant = granted(sender)
        calling = threading.Thread(target=lambda: answers.append(send(made.provider, made.message, key=KEY)))
        calling.start()
        assert server.has_taken.wait(PATIENCE_SECONDS)
        clock.pass_by(3600)
        assert not isinstance(sensor.expire(KEY), LedgerRefused)
        server.release.set()
        calling.join(PATIENCE_SECONDS)
    (answer,) = answers
    assert isinstance(answer, Accepted)
    refused = sender.settle(grant, outcome_of(answer))
    assert isinstance(refused, LedgerRefused)
    assert refused.code is LedgerCode.STALE_GRANT
    held = sensor.get(KEY)
    assert held is not None
    assert [late["receipt"] for late in held.late] == [answer.receipt]


def test_a_closed_port_and_an_unknown_name_provably_took_nothing() -> None:
    for host, port in (("127.0.0.1", 1), ("mail.invalid", 25)):
        endpoint = SmtpEndpoint(host, "ops@guard.example", tls="none", port=port, allow_cleartext=True)
        answer = send(open_one(ProviderSettings(smtp=endpoint)), Message("kim@acme.example", BODY), key=KEY)
        assert isinstance(answer, Rejected)
        assert answer.code == "unreachable"


@pytest.mark.parametrize("tls", ["implicit", "starttls"])
def test_who_logs_in_does_so_over_verified_tls(tls: Any, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    secret: dict[str, Any] = {"user": USER, "password": SecretStr(PASSWORD)}
    with lying_smtp(tls=tls, certificate=certificate) as server:
        stranger = attempted(MemoryLedger(), made_for(server, **secret))
        assert isinstance(stranger.answer, Rejected)
        assert stranger.answer.code in {"untrusted_certificate", "smtp_broke_off"}
        assert "AUTH" not in server.commands
        told = attempted(MemoryLedger(), made_for(server, ca_file=certificate, **secret))
        assert isinstance(told.answer, Accepted), told.answer
        assert server.accepted == [KEY]


def test_a_server_without_starttls_gets_nothing() -> None:
    """Stripping STARTTLS from EHLO is what somebody between does first."""
    with lying_smtp() as server:
        told = attempted(MemoryLedger(), made_for(server, tls="starttls"))
        assert isinstance(told.answer, Rejected)
        assert told.answer.code == "tls_failed"
        assert [command.split(" ")[0].upper() for command in server.commands] in (["EHLO"], ["EHLO", "QUIT"])


def test_a_wrong_password_is_a_refusal_that_does_not_repeat_it(tmp_path: Path) -> None:
    """Some servers answer a failed login with what they were sent."""
    certificate = self_signed(tmp_path)
    with lying_smtp(tls="implicit", certificate=certificate) as server:
        made = made_for(server, ca_file=certificate, user=USER, password=SecretStr("wrong-canary"))
        told = attempted(MemoryLedger(), made)
    assert told.answer == Rejected(
        "smtp_broke_off",
        "the mail server refused user or password (535) before the end of the mail was sent: it was not taken",
    )


def test_the_servers_last_words_are_kept_without_the_password(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    secret: dict[str, Any] = {"user": USER, "password": SecretStr(PASSWORD), "ca_file": certificate}
    for said, kept in (("250 2.0.0 Ok: queued as 4FxYz1", "2.0.0 Ok: queued as 4FxYz1"), (f"250 {PASSWORD} to you", "")):
        with lying_smtp({"dot": said}, tls="implicit", certificate=certificate) as server:
            told = attempted(MemoryLedger(), made_for(server, **secret))
            assert isinstance(told.answer, Accepted)
            assert told.answer.receipt["said"] == kept


def test_the_mail_is_addressed_by_the_envelope_and_carries_the_key_twice() -> None:
    """Some services replace the Message-ID; the header of our own stays to search for."""
    with lying_smtp() as server:
        attempted(MemoryLedger(), made_for(server, message_id_domain="ledger.example"))
        (mail,) = server.mails
        assert server.envelopes == [("ops@guard.example", "kim@acme.example")]
        assert mail["Message-ID"] == f"<{KEY}@ledger.example>"
        assert mail["X-OpsGuard-Reservation"] == KEY
        assert (mail["Subject"], mail["To"], mail["From"]) == ("Morning", "kim@acme.example", "ops@guard.example")
        assert mail["Auto-Submitted"] == "auto-generated"


@pytest.mark.parametrize(
    "subject",
    [
        "=?utf-8?q?Hi=0D=0ABcc=3A_victim=40evil.example=0D=0AX-Evil=3A_1=0D=0A=0D=0ANot_what_was_approved?=",
        "=?utf-8?q?Hi=0ABcc=3A_victim=40evil.example?=",
        "Hi =?utf-8?b?DQpCY2M6IHZpY3RpbUBldmlsLmV4YW1wbGU=?= there",
        "Total =?utf-8?q?approved=3F_No=2C_pay_9000?=",
        "=?",
        "plain",
        "한" * 120,
        "\N{GRINNING FACE}" * 120,
        "x" * 200,
    ],
)
def test_a_subject_arrives_as_it_was_approved_and_adds_no_header(subject: str) -> None:
    """A heading that was an encoded word became a Bcc, a blank line and another text than the one that was approved."""
    with lying_smtp() as server:
        made = made_for(server)
        answer = send(made.provider, Message("kim@acme.example", BODY, subject=subject), key=KEY)
        assert isinstance(answer, Accepted), answer
        (mail,) = server.mails
    assert str(mail["Subject"]) == subject
    usual = ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "X-OpsGuard-Reservation", "MIME-Version"]
    assert mail.keys() == [*usual, "Content-Type", "Content-Transfer-Encoding"]
    assert mail.get_content().replace("\r\n", "\n") == BODY


@pytest.mark.parametrize("name", ["sender", "destination"])
@pytest.mark.parametrize(
    "address", ["a..b@x.example", ".a@x.example", "a.@x.example", "a@b..c", "a@-b.c", "=?utf-8?q?a?=@x.example"]
)
def test_an_address_that_no_mail_can_carry_is_refused_before_anybody_is_contacted(name: str, address: str) -> None:
    """The registry took them, and the provider raised: a message that was never sent was left in doubt."""
    with lying_smtp() as server:
        if name == "sender":
            with pytest.raises(ValueError, match="sender"):
                SmtpEndpoint("127.0.0.1", address, tls="none", port=server.port)
        else:
            answer = send(made_for(server).provider, Message(address, BODY), key=KEY)
            assert isinstance(answer, Rejected)
            assert answer.code == "invalid_destination"
        assert server.commands == []
