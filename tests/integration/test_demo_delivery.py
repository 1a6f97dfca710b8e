"""The demo of messages, played twice in one home: what it says is what the providers recorded, and nothing goes out twice."""

import json
from collections import Counter
from pathlib import Path

from opsguard_defs.sandbox import Sandbox
from opsguard_defs.sandbox.places import customer_places
from tests.integration.command import Command

STEPS = list("abcdefghijklmnop")
TAKEN = {"file": 1, "dies": 1, "slow": 1, "rejects": 0}


def keys_taken(home: Path) -> Counter[str]:
    places = customer_places(Sandbox(home).layout)
    files = [json.loads(path.read_text())["key"] for path in places.sent.glob("*/*.json")]
    return Counter([*files, *(json.loads(line)["key"] for line in places.webhooks.read_text().splitlines())])


def test_the_demo_sends_each_message_once_keeps_the_doubt_and_survives_kill_9(tmp_path: Path) -> None:
    opsguard = Command(tmp_path, {"OPSGUARD_HOME": str(tmp_path / "home")})
    for _ in range(2):
        done = opsguard("demo", "--guard", "delivery", "--json")
        assert done.code == 0, done.err
        (played,) = done.objects
        assert [step["step"] for step in played["steps"]] == STEPS
        sent = [one for one in played["messages"] if one["was"] == "due"]
        assert {one["route"]: one["times_taken"] for one in sent} == TAKEN
        assert {one["became"] for one in sent} == {"delivered", "known_failure", "resolved_sent"}
    taken = keys_taken(tmp_path / "home")
    assert len(taken) == 2 * 7
    assert set(taken.values()) == {1}, "a provider took a message twice"
    assert opsguard("sandbox", "status").code == 5, "the demo leaves no server behind"
