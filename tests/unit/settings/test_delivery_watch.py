"""The `[[watch]]` block of guard delivery. The incident: a webhook's token in the settings file went out with a support bundle."""

from pathlib import Path

import pytest

from opsguard_defs.settings import DeliveryWatch, Settings
from resources.delivery.route import CheckInFile, CheckInTable, DeliveryRoute
from tests.unit.settings.build import delivery, load, problems, watch

pytestmark = pytest.mark.fast

CANARY = "canary-6ab34c"
HOOK = '[watch.webhooks.accept]\nurl = "https://hooks.example/accept"'
MAIL = '[watch.smtp]\nhost = "mail.example"\nsender = "ops@example.com"'


def only(settings: Settings) -> DeliveryWatch:
    (made,) = settings.watches
    assert isinstance(made, DeliveryWatch)
    return made


def route(directory: Path, text: str, **environ: str) -> DeliveryRoute:
    return only(load(directory, text, **environ)).route()


def test_the_shortest_block_sends_nothing_by_itself_and_keeps_its_ledger_in_the_home(tmp_path: Path) -> None:
    made = route(tmp_path, 'home = "state"\n' + delivery())

    assert made.registry == tmp_path / "customers.yaml"
    assert (made.templates, made.outbox) == (tmp_path / "templates", tmp_path / "outbox")
    assert (made.ledger, made.ledger_dir) == ("file", tmp_path / "state" / "ledger")
    assert (made.auto_send, made.check_ins, made.schedule_cron) == (False, None, "*/10 * * * *")
    assert (made.providers.slack, made.providers.smtp, dict(made.providers.webhooks)) == (None, None, {})
    assert made.owners == ("team:data-platform",)


def test_every_provider_and_both_kinds_of_check_ins_can_be_configured(tmp_path: Path) -> None:
    tables = (HOOK, MAIL + '\nuser = "ops"', '[watch.slack]\nbase_url = "http://127.0.0.1:9/api/"')
    secrets = {
        "OPSGUARD_DELIVERY_CUSTOMERS_WEBHOOK_ACCEPT_TOKEN": "t1",
        "OPSGUARD_DELIVERY_CUSTOMERS_SMTP_PASSWORD": "t2",
        "OPSGUARD_DELIVERY_CUSTOMERS_SLACK_TOKEN": "t3",
        "OPSGUARD_DELIVERY_CUSTOMERS_CHECK_INS_PASSWORD": "t4",
    }
    table = '{postgres = "postgresql://reader@db.example/ops", table = "public.check_ins"}'
    made = route(tmp_path, delivery(*tables, check_ins=table, file_provider_dir='"sent"'), **secrets)

    assert made.providers.webhooks["accept"].token.get_secret_value() == "t1"
    assert made.providers.smtp is not None
    assert made.providers.smtp.password.get_secret_value() == "t2"
    assert made.providers.slack is not None
    assert made.providers.slack.token.get_secret_value() == "t3"
    assert isinstance(made.check_ins, CheckInTable)
    assert (made.check_ins.table, made.check_ins.password.get_secret_value()) == ("public.check_ins", "t4")
    assert made.providers.file_provider_dir == tmp_path / "sent"
    assert route(tmp_path, delivery(check_ins='"arrived.jsonl"')).check_ins == CheckInFile(tmp_path / "arrived.jsonl")


def test_secrets_come_from_variables_of_ones_own_too_and_are_never_shown(tmp_path: Path) -> None:
    """A webhook's address often is its password: that may come from the environment as well."""
    hook = '[watch.webhooks.accept]\nurl_env = "HOOK_URL"\ntoken_env = "HOOK_TOKEN"'
    settings = load(tmp_path, delivery(hook), HOOK_URL=f"https://hooks.example/{CANARY}", HOOK_TOKEN=CANARY)
    made = only(settings).route()

    assert made.providers.webhooks["accept"].url.endswith(CANARY)
    assert CANARY not in f"{settings!r} {settings} {made!r} {made}"


def test_what_is_missing_is_named_and_its_provider_is_not_there(tmp_path: Path) -> None:
    """The UI must come up without the secrets; a run of a provider without its token must not."""
    hook = '[watch.webhooks.accept]\nurl_env = "HOOK_URL"\ntoken_env = "HOOK_TOKEN"'
    made = only(load(tmp_path, delivery(hook, MAIL + '\nuser = "ops"\nca_file = "ca.pem"', "[watch.slack]")))

    assert made.missing() == (
        f"registry: there is no file {tmp_path / 'customers.yaml'}",
        "webhooks.accept.url: set HOOK_URL in the environment",
        "webhooks.accept.token: set HOOK_TOKEN in the environment",
        "smtp.password: set OPSGUARD_DELIVERY_CUSTOMERS_SMTP_PASSWORD in the environment",
        f"smtp.ca_file: there is no file {tmp_path / 'ca.pem'}",
        "slack.token: set OPSGUARD_DELIVERY_CUSTOMERS_SLACK_TOKEN in the environment",
    )
    providers = made.route().providers
    assert (dict(providers.webhooks), providers.smtp, providers.slack) == ({}, None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (delivery(registry="-"), "registry: this key is missing"),
        (delivery(registry='""'), "registry: must be a path"),
        (delivery(outbox='"templates"'), "outbox: must not be the directory of templates"),
        (delivery(file_provider_dir='"outbox"'), "file_provider_dir: must not be the directory of outbox"),
        (delivery(ledger='"sqlite"'), 'ledger: must be one of "file", "postgres"'),
        (delivery(auto_sent="true"), "auto_sent: unknown key; did you mean auto_send?"),
        (delivery(auto_send='"yes"'), "auto_send: must be true or false"),
        (delivery(schedule_cron='"every day"'), "schedule_cron: give five cron fields"),
        (delivery(policy="{look_back_days = 32}"), "policy.look_back_days: must be a whole number from 0 to 31"),
        (delivery(policy="{look_bak_days = 1}"), "policy.look_bak_days: unknown key; did you mean look_back_days?"),
        (delivery(policy='{known_failure_kinds = ["hourly"]}'), "policy.known_failure_kinds"),
        (delivery(check_ins="3"), "check_ins: must be a table"),
        (delivery(check_ins="{}"), "check_ins: give the path of a JSON lines file"),
        (delivery(check_ins='{postgres = "mysql://u@h/d", table = "t"}'), "postgres: must be postgresql://"),
        (delivery(check_ins=f'{{postgres = "postgresql://u:{CANARY}@h/d", table = "t"}}'), "a password in a URL is refused"),
        (
            delivery(check_ins=f'{{postgres = "postgresql://h/d?password={CANARY}", table = "t"}}'),
            "a password in a URL is refused",
        ),
        (delivery(check_ins='{postgres = "postgresql://u@h/d", table = "t; DROP"}'), "table: must be name or schema.name"),
        (delivery(webhooks="3"), "webhooks: must be a table"),
        (delivery('[watch.webhooks."../x"]\nurl = "https://h/"'), "webhooks: a webhook's name is 1 to 64"),
        (delivery("[watch.webhooks.accept]"), "webhooks.accept: url: this key is missing"),
        (delivery(f'{HOOK}\ntoken = "{CANARY}"'), "set OPSGUARD_DELIVERY_CUSTOMERS_WEBHOOK_ACCEPT_TOKEN in the environment"),
        (delivery(f'{HOOK}\ntoken_env = "{CANARY}!"'), "webhooks.accept.token_env: must be the name of an environment variable"),
        (delivery(f'{HOOK}\nurl_env = "X"'), "webhooks.accept.url: stands in the file and is named by url_env as well"),
        (delivery(f"{HOOK}\nloookup_url = 1"), "webhooks.accept.loookup_url: unknown key; did you mean lookup_url?"),
        (delivery(f"{HOOK}\nrejecting_statuses = [200]"), "webhooks.accept: rejecting_statuses are HTTP statuses from 300"),
        (delivery(f"{HOOK}\ntimeout_seconds = 0"), "webhooks.accept.timeout_seconds: must be a whole number from 1 to 300"),
        (delivery('[watch.webhooks.a]\nurl = "http://h/"'), "webhooks.a: url is http:// to another machine"),
        (delivery('[watch.smtp]\nhost = "mail.example"'), "smtp.sender: this key is missing"),
        (delivery(f'{MAIL}\npassword = "{CANARY}"'), "set OPSGUARD_DELIVERY_CUSTOMERS_SMTP_PASSWORD in the environment"),
        (delivery(f'{MAIL}\ntls = "none"'), 'smtp: smtp tls = "none" lets anybody between read every message'),
        (delivery(f'[watch.slack]\ntoken = "{CANARY}"'), "set OPSGUARD_DELIVERY_CUSTOMERS_SLACK_TOKEN in the environment"),
    ],
)
def test_a_bad_block_is_refused_with_its_key_and_what_is_allowed(tmp_path: Path, text: str, said: str) -> None:
    found = problems(tmp_path, text)

    assert [problem for problem in found if said in problem], found
    assert CANARY not in "".join(found)


def test_a_line_break_in_a_token_is_refused(tmp_path: Path) -> None:
    """It would be a header of its own."""
    variable = "OPSGUARD_DELIVERY_CUSTOMERS_WEBHOOK_ACCEPT_TOKEN"
    found = problems(tmp_path, delivery(HOOK), **{variable: f"{CANARY}\r\nX-Evil: 1"})

    assert f"{variable} holds a control character" in found[0]
    assert CANARY not in found[0]


def test_two_guards_may_have_a_watch_of_one_name(tmp_path: Path) -> None:
    settings = load(tmp_path, watch(name='"acme"') + delivery(name='"acme"'))

    assert [(made.guard, made.name) for made in settings.watches] == [("spool", "acme"), ("delivery", "acme")]
    assert settings.watch("delivery", "acme").guard == "delivery"
