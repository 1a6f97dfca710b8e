"""Bad settings are refused whole, before anything is contacted: which file, which key, what is allowed.

The incident: a misspelt `sla_minuts` was ignored for a month, and feeds that were merely young were re-sent every night.
"""

from pathlib import Path

import pytest

from tests.unit.settings.build import ACME, load, problems, watch

pytestmark = pytest.mark.fast

FTP = '"ftp://feeds@handoff.example/outbound"'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lease_second = 60", "lease_second: unknown key; did you mean lease_seconds?"),
        ("lease_seconds = 14", "lease_seconds: must be a whole number from 15 to 3600"),
        ("lease_seconds = 3601", "lease_seconds: must be a whole number from 15 to 3600"),
        ('lease_seconds = "60"', "lease_seconds: must be a whole number from 15 to 3600"),
        ("lease_seconds = true", "lease_seconds: must be a whole number from 15 to 3600"),
        ("retention_days = 0", "retention_days: must be a whole number from 1 to 36500"),
        ('approve_in_ui = "no"', "approve_in_ui: must be true or false"),
        ('owners = "team:x"', "owners: must be a list"),
        ('owners = ["nobody"]', "owners: each owner must be"),
        ('ui_url = "ftp://x"', "ui_url: must be http://host or https://host"),
        ("home = 3", "home: must be the path of a directory"),
        ('slack = "x"', "slack: must be a table"),
        ('[slack]\nchanel = "#x"', "slack.chanel: unknown key; did you mean channel?"),
        ('[slack]\ntoken = "xoxb-canary"', "slack.token: a secret does not belong in this file"),
        ('[slack]\nbase_url = "http://slack.example/"', "slack.base_url: must be https://"),
        ('[slack]\nchannel = "<!here>"', "slack.channel: must be a channel"),
        ("[watch]\nguard = 'spool'", "watch: each watch is a block that begins with the line [[watch]]"),
        ("x = ", "not TOML"),
    ],
)
def test_a_bad_top_level_key_says_file_key_and_what_is_allowed(tmp_path: Path, text: str, said: str) -> None:
    found = problems(tmp_path, text)

    assert len(found) == 1
    assert found[0].startswith(f"{tmp_path / 'opsguard.toml'}: ")
    assert said in found[0]
    assert "canary" not in found[0]


@pytest.mark.parametrize("key", ["lease_seconds", "ui_url", "home"])
def test_a_key_of_the_whole_file_below_a_watch_says_where_it_belongs(tmp_path: Path, key: str) -> None:
    """Added at the end of the file it became a key of the last watch, and "unknown key" sent people looking for a misspelling."""
    assert problems(tmp_path, watch() + f"{key} = 60") == [
        f"{tmp_path / 'opsguard.toml'}: watch acme: {key}: this key belongs above the first [[watch]]"
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"guard": '"spol"'}, "guard: must name a guard; did you mean spool?"),
        ({"guard": "-"}, "guard: must name a guard; one of spool"),
        ({"name": '"Acme"'}, "name: must be lower-case letters"),
        ({"name": f'"a{"b" * 31}"'}, "name: must be lower-case letters"),
        ({"name": '"acme\\n"'}, "name: must be lower-case letters"),
        ({"name": "-"}, "name: this key is missing"),
        ({"sorce": '"x"'}, "sorce: unknown key; did you mean source?"),
        ({"source": "-"}, "source: this key is missing"),
        ({"source": "3"}, "source: must be text between quotes"),
        ({"source": '"sftp://feeds:canary@handoff.example/outbound"'}, "source: a password in a URL is refused"),
        ({"source_password": '"canary"'}, "set OPSGUARD_SPOOL_ACME_SOURCE_PASSWORD in the environment"),
        ({"source_password_env": '"canary-password!"'}, "must be the name of an environment variable"),
        ({"source": FTP}, "source: plain ftp sends password and feeds readable"),
        ({"source_known_hosts": "-"}, "source: sftp needs source_known_hosts (a file) or source_host_key"),
        ({"source_host_key": '"ssh-dss"'}, "source_host_key: must be a public key"),
        ({"partner_host_key": '"SHA256:short"'}, "partner_host_key: must be a public key"),
        ({"archive": '"/outbound"'}, "archive: must not be the source's own directory"),
        ({"archive": '"/outbound/"'}, "archive: must not be the source's own directory"),
        ({"archive": '"outbound-archive"'}, "archive: a directory must be absolute"),
        ({"archive": '"/a/../b"'}, "archive: a directory must not hold . or .."),
        ({"archive": '"/a\\u0000b"'}, "archive: a directory must not hold control characters"),
        ({"archive": '"sftp://feeds@other.example/archive"'}, "archive: spool and archive are on one server"),
        ({"partner": '"sftp://acme@handoff.example/outbound-archive"'}, "archive: must not be the partner's inbox"),
        ({"partner": '"sftp://acme@handoff.example/outbound"'}, "partner: must not be the source's own directory"),
        ({"partner_profile": "{rename_supported = false}"}, "accept that with partner_profile.allow_inplace = true"),
        ({"partner_profile": '{rename_supported = "no"}'}, "accept that with partner_profile.allow_inplace = true"),
        ({"source_profile": "{rename_supported = false}"}, "the source must be able to rename"),
        ({"partner_profile": '{rename_supported = "never"}'}, 'must be one of "probe", "yes", "no", true, false'),
        ({"partner_profile": "{consumes_on_arival = true}"}, "did you mean consumes_on_arrival?"),
        ({"partner_profile": '{time_zone = "Mars/Olympus"}'}, "partner_profile.time_zone: unknown time zone"),
        ({"partner_profile": '{temp_name = "x"}'}, "partner_profile.temp_name: must hold {name} and {run8}"),
        ({"partner_profile": "3"}, "partner_profile: must be a table"),
        ({"policy": "{sla_minuts = 3}"}, "policy.sla_minuts: unknown key; did you mean sla_minutes?"),
        ({"policy": "{sla_minutes = -1}"}, "policy.sla_minutes: must be a whole number from 0 to 525600"),
        ({"policy": '{sla_minutes = "60"}'}, "policy.sla_minutes: must be a whole number from 0 to 525600"),
        ({"policy": "{sla_minutes = 1.5}"}, "policy.sla_minutes: must be a whole number from 0 to 525600"),
        ({"policy": "{max_files_per_run = 0}"}, "policy.max_files_per_run: must be a whole number from 1 to 1000"),
        ({"policy": "{max_parallel_files = 5}"}, "policy.max_parallel_files: must be a whole number from 1 to 4"),
        ({"policy": '{verify_delivered = "md5"}'}, 'policy.verify_delivered: must be one of "size", "checksum"'),
        ({"policy": "{in_progress_suffixes = []}"}, "policy.in_progress_suffixes: give one or more endings"),
        ({"policy": '{in_progress_suffixes = [""]}'}, "policy.in_progress_suffixes: give one or more endings"),
        ({"policy": '{deliverable_pattern = "["}'}, "policy.deliverable_pattern: not a regular expression"),
        ({"nightly_cron": '"60 5 * * *"'}, "nightly_cron: minute must be"),
        ({"nightly_cron": '"daily"'}, "nightly_cron: give five cron fields"),
        ({"owners": '["x y"]'}, "owners: each owner must be"),
    ],
)
def test_a_bad_watch_says_watch_key_and_what_is_allowed(tmp_path: Path, changed: dict[str, str], said: str) -> None:
    found = problems(tmp_path, watch(**changed))

    assert [problem for problem in found if said in problem], found
    assert all(problem.startswith(f"{tmp_path / 'opsguard.toml'}: watch ") for problem in found)
    assert "canary" not in "".join(found)


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    """The incident: nine corrections, nine starts, each finding the next mistake, at three in the morning."""
    found = problems(tmp_path, "lease_seconds = 1\nretension_days = 9\n" + watch(archive='"x"', policy="{sla_minutes = -1}"))

    assert len(found) == 4


def test_two_watches_of_one_name_are_refused(tmp_path: Path) -> None:
    assert "watch acme: name: 2 watches of guard spool have this name" in problems(tmp_path, watch() + watch())[0]


def test_a_second_guard_block_needs_only_another_name(tmp_path: Path) -> None:
    settings = load(tmp_path, watch() + watch(name='"zenith"'))

    assert [made.name for made in settings.watches] == ["acme", "zenith"]


@pytest.mark.parametrize("value", ["59 23 31 12 7", "*/15 * * * *", "0 5 * * mon-fri", "5,35 1-3 * jan,jul *", "0 0 * * 0"])
def test_usual_schedules_are_accepted(tmp_path: Path, value: str) -> None:
    assert load(tmp_path, watch(nightly_cron=f'"{value}"')).watches[0].nightly_cron == value


@pytest.mark.parametrize(
    "value", ["*/0 * * * *", "5-1 * * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "*-3 * * * *", "x * * * *", "1,,2 * * * *"]
)
def test_impossible_schedules_are_refused(tmp_path: Path, value: str) -> None:
    assert "nightly_cron" in problems(tmp_path, watch(nightly_cron=f'"{value}"'))[0]


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "opsguard.toml"
    path.write_bytes(b"home = '\xff'")
    from opsguard_defs.settings import load_settings
    from resources.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match="not UTF-8"):
        load_settings(path, {})


def test_the_documented_block_is_accepted_as_it_stands(tmp_path: Path) -> None:
    route = load(tmp_path, ACME).watches[0].route()

    assert (route.name, route.source.shown, route.archive) == (
        "acme",
        "sftp://feeds@handoff.example:22/outbound",
        "/outbound-archive",
    )
    assert route.partner.shown == "ftps://acme@ftp.acme.example:21/inbox"
    assert route.source.known_hosts == tmp_path / "known_hosts"
