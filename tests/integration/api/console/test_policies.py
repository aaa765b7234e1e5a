"""Policies over the real engine, without a broker: what the workers know is that of the test."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear.fleet.rows import Row
from switchgear_api.app import create_app
from switchgear_api.console import actions
from switchgear_api.console.policies import EffectivePolicies
from switchgear_api.operate.command_result import CommandResult
from switchgear_api.operate.known_state import KnownState
from switchgear_schemas.settings import Settings
from tests.support.deep import some
from tests.support.engine import call, store_calls

WRONG = "[default]\nconsecutive_failuresx = 3\n"
DOES_NOT_FIT = b'{"slow_call_duration_threshold_ms": 500}'


class Api:
    """Asks the API with a policy file, and with the values that operators have set for tools."""

    def __init__(self, store, folder, monkeypatch):
        self._store, self._file = store, folder / "policies.toml"
        self._file.write_text("")
        self._monkeypatch = monkeypatch
        self.sent = []

        async def send(_settings, commands, *, wait_s):
            self.sent.extend(commands)
            return [CommandResult(each, "applied") for each in commands]

        monkeypatch.setattr(actions, "send_command", send)

    def file(self, text):
        self._file.write_text(text)

    def known(self, **policies):
        rows = {name: Row(circuit_id=name, tool_name=name, policy=values) for name, values in policies.items()}

        async def known(_self, *, fresh=False):
            return KnownState(rows, {})

        self._monkeypatch.setattr(EffectivePolicies, "known", known)

    async def __call__(self, method, path, body=None):
        app = create_app(self._store, Settings(policy_file=self._file), registry=CollectorRegistry())
        transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            return await http.request(method, path, json=body)


@pytest.fixture
async def api(store, tmp_path, monkeypatch):
    now = datetime.now(UTC)
    failed = [
        call("mail", "error", at=now - timedelta(seconds=60 - number), error_class="server") for number in range(6)
    ]
    await store_calls(store, failed)
    return Api(store, tmp_path, monkeypatch)


async def test_page_of_a_tool_says_what_is_wrong_with_the_policy_and_shows_the_rest(api):
    found = (await api("GET", "/v1/console/tool/mail")).json()
    assert (found["policy_error"], bool(found["policy"])) == (None, True)
    api.file(WRONG)
    found = (await api("GET", "/v1/console/tool/mail")).json()
    assert "unknown key consecutive_failuresx" in found["policy_error"]
    assert (found["policy"], len(found["recent"])) == ([], 6)
    api.file("")
    api.known(mail=DOES_NOT_FIT)
    found = (await api("GET", "/v1/console/tool/mail")).json()
    assert "slow_call_rate_threshold" in found["policy_error"]


async def test_wrong_policy_file_is_the_answer_to_a_replay_a_dry_run_and_the_list(api):
    api.file(WRONG)
    for method, path, body in (
        ("POST", "/v1/policies/replay", {"tool": "mail", "policy": {"jitter": 0.5}}),
        ("PUT", "/v1/policies/mail", {"policy": {"jitter": 0.5}, "reason": "calm", "dry_run": True}),
    ):
        answer = await api(method, path, body)
        assert (answer.status_code, "consecutive_failuresx" in answer.json()["detail"]) == (503, True)
    api.file("= =")
    answer = await api("GET", "/v1/policies")
    assert (answer.status_code, "not valid TOML" in answer.json()["detail"]) == (503, True)


async def test_values_that_no_longer_fit_over_the_file_can_be_seen_and_removed(api):
    api.known(mail=DOES_NOT_FIT)
    replayed = await api("POST", "/v1/policies/replay", {"tool": "mail", "policy": {"jitter": 0.5}})
    assert (replayed.status_code, "slow_call_rate_threshold" in replayed.json()["detail"]) == (503, True)
    body = {"reason": "calm", "dry_run": True}
    added = await api("PUT", "/v1/policies/mail", body | {"policy": {"jitter": 0.5}})
    assert (added.status_code, "slow_call_rate_threshold" in added.json()["detail"]) == (400, True)
    removed = (await api("PUT", "/v1/policies/mail", body | {"policy": {}})).json()
    assert removed["before"]["values"] == {"slow_call_duration_threshold_ms": 500}
    assert removed["before"]["policy"] == removed["after"]["policy"]
    assert removed["after"]["values"] == {}


@pytest.mark.parametrize("file", ["", WRONG, '[tools."mail"]\nmode = "metrics_only"\n'])
async def test_end_of_a_command_is_shown_and_sent_whatever_the_policy_file_has(api, monkeypatch, file):
    async def commanded(_self, circuit_id):
        override = {"command": "force_open", "actor": "ann", "reason": "x", "at": None}
        return {
            "circuit_id": circuit_id,
            "state": "forced_open",
            "override": override,
            "expires_at": None,
            "next_probe_at": None,
        }

    monkeypatch.setattr(actions.Actions, "present", commanded)
    api.file(file)
    answer = await api("POST", "/v1/circuits/mail/commands", {"command": "auto", "reason": "recovered"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["after"]["state"] == ("metrics_only" if "metrics_only" in file else "closed")
    assert [each.verb for each in api.sent] == ["auto"]


async def test_replay_of_a_glob_leaves_what_is_set_for_a_tool_as_applying_it_does(api):
    body = {"pattern": "ma*", "policy": {"consecutive_failures": 2, "minimum_reporters": 1}}
    assert (await api("POST", "/v1/policies/replay", body)).json()["proposed"]["opens"] == 1
    api.known(mail=b'{"consecutive_failures": 100, "failure_rate_threshold": null}')
    found = (await api("POST", "/v1/policies/replay", body)).json()
    assert (found["present"]["opens"], found["proposed"]["opens"]) == (0, 0)
    of_tool = {"tool": "mail", "policy": body["policy"]}
    assert (await api("POST", "/v1/policies/replay", of_tool)).json()["proposed"]["opens"] == 1
    wrong = await api(
        "POST", "/v1/policies/replay", {"pattern": "ma*", "policy": {"slow_call_duration_threshold_ms": 500}}
    )
    assert (wrong.status_code, "slow_call_rate_threshold" in wrong.json()["detail"]) == (400, True)


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("name", "policy", "said"),
    [
        ("mail", {"fallback": ["mail"]}, "its own fallback"),
        ("n" * 257, {"jitter": 0.5}, "tool_name: Expected `str` of length <= 256"),
        ("", {"jitter": 0.5}, "tool_name: Expected `str` of length >= 1"),
    ],
    ids=["its own fallback", "a long name", "no name"],
)
async def test_dry_run_of_a_policy_refuses_what_a_change_refuses(api, name, policy, said, dry_run):
    answer = await api("PUT", f"/v1/policies/{name}", {"policy": policy, "reason": "calm", "dry_run": dry_run})
    assert (answer.status_code, said in answer.json()["detail"], api.sent) == (400, True, [])


@pytest.mark.parametrize("name", some(["a\nb", "a\r\nb", "ends in a line\n", "a/b\nhistory"], 1))
async def test_tool_whose_name_has_a_line_feed_has_a_page_and_takes_commands(api, store, name):
    await store_calls(store, [call(name, "error", session_id=name)])
    path = quote(name, safe="")
    assert (await api("GET", f"/v1/tools/{path}")).json()["report"]["tool_name"] == name
    assert (await api("GET", f"/v1/console/tool/{path}")).json()["tool"]["tool"] == name
    assert len((await api("GET", f"/v1/sessions/{path}/calls")).json()["items"]) == 1
    command = {"command": "force_open", "reason": "drill"}
    assert (await api("POST", f"/v1/circuits/{path}/commands", command)).status_code == 200
    assert (await api("PUT", f"/v1/policies/{path}", {"policy": {"jitter": 0.5}, "reason": "calm"})).status_code == 200
    assert [each.tool_name for each in api.sent] == [name, name]
    for where in (f"/v1/circuits/{path}", f"/v1/circuits/{path}/history"):
        assert (
            (await api("GET", where)).json()["detail"].endswith("does not exist.")
        )  # it is the circuit that was looked for
