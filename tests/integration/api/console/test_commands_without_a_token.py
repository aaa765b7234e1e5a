"""The command line without a token, against a real worker and the API of a real system: what it does is recorded."""

import asyncio
import json
import time

from switchgear_api.operate.send_command import this_person
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_stream.inspect import read_circuits, read_rows
from tests.integration.api.console.test_operating import served
from tests.support.limits import READY_S
from tests.support.processes import run, settings_environment, switchgear
from tests.support.stream import emit, eventually

TOOL, SERVER, CIRCUIT = "mcp:mail:send", "mcp:mail", "mcp:mail|family"
PERSON = this_person()


def of_api(http, **more):
    """Variables that name the API. Nothing listens at the Kafka that they name."""
    there = {"SWITCHGEAR_API_URL": str(http.base_url), "SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    return there | {f"SWITCHGEAR_{name}": value for name, value in more.items()}


async def command(http, *words, code=0):
    """Run one command, and return what it printed."""
    done = await asyncio.to_thread(run, *words, extra=of_api(http))
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


async def audit(http, count=1):
    return (await http.get("/v1/audit", params={"limit": count})).json()["items"]


async def test_commands_of_a_person_without_a_token_are_in_the_audit_and_can_be_undone(store, settings, tmp_path):
    with switchgear("worker", log=tmp_path / "worker.log", settings=settings) as worker:
        worker.wait_for_output("ready  ", timeout_s=READY_S)
        async with served(store, settings, "none") as http:
            await emit(settings, [{"tool_name": TOOL, "status": "success", "user_id": "u1"}])

            async def there():
                return {TOOL, CIRCUIT} <= set(await read_rows(settings))

            await eventually(there, what="rows of the tool and its family")
            await a_tool_is_opened_and_given_back_from_the_console(http, settings)
            await a_name_that_nothing_knows_is_not_commanded(http)
            await a_familys_values_are_set_undone_and_cleared(http)
            await what_no_family_can_have_is_refused(http)
            await without_a_token_the_caller_says_who_it_is(http)


async def a_tool_is_opened_and_given_back_from_the_console(http, settings):
    shown = await command(http, "open", "mcp:*", "--yes", "--for", "10m", "--reason", "storm", "--json")
    answer = json.loads(shown)
    assert (answer["tool_name"], answer["outcome"], answer["circuit"]["state"]) == (TOOL, "applied", "open")
    (first,) = await audit(http)
    assert answer["audit_id"] == first["audit_id"]
    assert (first["action"], first["actor"], first["reason"]) == ("force_open", PERSON, "storm")
    assert first["address"] == "127.0.0.1"
    assert (await read_circuits(settings))[TOOL][-1].cause.actor == PERSON
    undone = await http.post(f"/v1/audit/{first['audit_id']}/undo", json={"reason": "it is over"})
    assert undone.json()["outcome"] == "applied", undone.text
    assert [(each["action"], each["actor"]) for each in await audit(http, 2)] == [
        ("undo", "local"),
        ("force_open", PERSON),
    ]
    assert (await read_circuits(settings))[TOOL][-1].state != "forced_open"
    await command(http, "auto", TOOL, "--actor", "ada")
    assert [each["actor"] for each in await audit(http)] == ["ada"]


async def a_name_that_nothing_knows_is_not_commanded(http):
    before = len(await audit(http, 50))
    assert f"did you mean {TOOL}?" in await command(http, "open", "mcp:mail:snd", code=2)
    assert "Nothing is set for" in await command(http, "policy", "clear", TOOL, code=1)
    assert len(await audit(http, 50)) == before


async def a_familys_values_are_set_undone_and_cleared(http):
    path = f"/v1/policies/{SERVER}"
    body = {"policy": {"minimum_tools": 3}, "family": True, "reason": "calm"}
    tried = (await http.put(path, json=body | {"dry_run": True})).json()
    assert (tried["before"]["values"], tried["after"]["policy"]["minimum_tools"]) == ({}, 3)
    shown = await command(http, "policy", "set", SERVER, "minimum_tools=3", "--family", "--reason", "calm")
    assert shown == f"{CIRCUIT}: the policy is set.\n"
    assert await overrides(http) == {CIRCUIT: {"minimum_tools": 3}}
    await command(http, "policy", "set", SERVER, "minimum_tools=4", "--family")
    (second,) = await audit(http)
    assert (second["subject"], second["actor"], second["undoable"]) == (CIRCUIT, PERSON, True)
    assert second["before"]["values"] == {"minimum_tools": 3}
    assert second["after"]["values"] == {"minimum_tools": 4}
    undone = (await http.post(f"/v1/audit/{second['audit_id']}/undo", json={"reason": "too calm"})).json()
    assert undone["outcome"] in {"applied", "unchanged"}

    async def back():
        return await overrides(http) == {CIRCUIT: {"minimum_tools": 3}}

    await eventually(back, what="the values as they were before")
    assert "taken back" in await command(http, "policy", "clear", SERVER, "--family")

    async def gone():
        waiting = (await http.get("/v1/console/known")).json()["commands_wait"]
        return not waiting and await overrides(http) == {}

    await eventually(gone, what="no values, and no command that the worker has still to read")
    assert "Nothing is set for" in await command(http, "policy", "clear", SERVER, "--family", code=1)


async def overrides(http):
    found = (await http.get("/v1/policies")).json()["overrides"]
    return {each["pattern"]: each["values"] for each in found}


async def what_no_family_can_have_is_refused(http):
    for name, policy, said in (
        ("mcp:*", {"jitter": 0.5}, "family: 'mcp:*' is a glob"),
        ("mail", {"jitter": 0.5}, "family: 'mail' is not the name of a family"),
        (SERVER, {"fallback": ["x"]}, "policy.fallback: a family has no fallback"),
        (SERVER, {"scope": "user"}, "policy.scope: a family has one circuit"),
    ):
        body = {"policy": policy, "family": True, "reason": "calm", "dry_run": True}
        answer = await http.put(f"/v1/policies/{name}", json=body)
        assert (answer.status_code, said in answer.json()["detail"]) == (400, True), answer.text


async def without_a_token_the_caller_says_who_it_is(http):
    body = {"policy": {"jitter": 0.5}, "reason": "calm", "actor": "ada@ops-1"}
    assert (await http.put(f"/v1/policies/{TOOL}", json=body)).json()["outcome"] == "applied"
    assert [each["actor"] for each in await audit(http)] == ["ada@ops-1"]
    for actor in ("", "a" * 257, "token:ada", "jwt:x:ada"):
        assert (await http.put(f"/v1/policies/{TOOL}", json=body | {"actor": actor})).status_code == 400


async def test_an_api_that_wants_a_token_is_an_error_and_nothing_goes_to_kafka(store, settings, tmp_path):
    token, text = new_token("ada", [Role.OPERATE])
    (tmp_path / "tokens.toml").write_text(with_token("", token))
    guarded = settings.model_copy(update={"access_tokens_file": tmp_path / "tokens.toml"})
    async with served(store, guarded, text) as http:
        environment = {"SWITCHGEAR_API_URL": str(http.base_url)}
        for words in (["open", TOOL, "--create"], ["policy", "set", "mcp:*", "jitter=0.5"]):
            done = await asyncio.to_thread(run, *words, settings=settings, extra=environment)
            assert (done.returncode, done.stdout) == (1, ""), done.stderr
            assert "This server needs a token. Nothing was sent. Set SWITCHGEAR_TOKEN" in done.stderr
            assert "--bootstrap-servers" in done.stderr
        assert await audit(http) == []
        for method, path, body in (
            ("POST", f"/v1/circuits/{TOOL}/commands", {"command": "force_open"}),
            ("PUT", f"/v1/policies/{TOOL}", {"policy": {"jitter": 0.5}}),
        ):
            answer = await http.request(method, path, json=body | {"reason": "x", "actor": "bob"})
            assert answer.status_code == 400
            assert answer.json()["detail"].startswith("actor: the actor of this request is the one that has logged in")
            assert answer.json()["hint"] == "Leave out actor."
        assert await audit(http) == []


async def test_the_timeout_bounds_the_wait_for_the_api(store, settings):
    async with served(store, settings, "none") as http:
        began = time.monotonic()
        shown = await command(http, "open", TOOL, "--create", "--timeout", "0.5", code=1)
        assert f"{TOOL}: not confirmed: no worker runs" in shown
        assert time.monotonic() - began < 9
        assert [(each["actor"], each["outcome"]) for each in await audit(http)] == [(PERSON, "unconfirmed")]


async def test_where_kafka_alone_is_named_the_command_goes_to_kafka(store, settings, tmp_path):
    kafka_alone = {
        name: value for name, value in settings_environment(settings).items() if not name.endswith("API_HTTP")
    }
    with switchgear("worker", log=tmp_path / "worker.log", settings=settings) as worker:
        worker.wait_for_output("ready  ", timeout_s=READY_S)
        async with served(store, settings, "none") as http:
            words = ["open", TOOL, "--create", "--timeout", "30", "--json"]
            done = await asyncio.to_thread(run, *words, extra=kafka_alone)
            assert (done.returncode, done.stderr) == (0, "")
            answer = json.loads(done.stdout)
            assert (answer["circuit"]["state"], answer["circuit"]["cause"]["actor"]) == ("forced_open", PERSON)
            assert await audit(http) == []
