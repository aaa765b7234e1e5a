"""The console over a real broker, worker and engine, served on a real port: what operators do, and what they see at once."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_api.console.console import Console
from switchgear_http.principal import Role
from switchgear_http.server import make_server
from switchgear_http.sockets import listen, url_of
from switchgear_http.tokens import new_token, with_revoked, with_token
from switchgear_schemas.dead_letter import DeadLetter
from switchgear_stream.inspect import read_circuits
from tests.support.limits import ANSWER_S, HAPPEN_S, READY_S
from tests.support.processes import run, switchgear
from tests.support.sinking import Message, produce
from tests.support.stream import emit, eventually

TOOL = "mcp:weather:get"


@asynccontextmanager
async def served(store, settings, token):
    """Serve the console while the block runs, and yield a client of it that has this token."""
    async with Console(store, settings, follow=True) as console:
        app = create_app(store, settings, registry=CollectorRegistry(), console=console)
        with listen("127.0.0.1:0", "SWITCHGEAR_API_HTTP") as listening:
            server = make_server(app)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                login = {"Authorization": f"Bearer {token}"}
                async with httpx.AsyncClient(base_url=url_of(listening), timeout=HAPPEN_S, headers=login) as http:
                    yield http
            finally:
                console.end_streams()
                server.stop()
                await asyncio.wait_for(serving, ANSWER_S)


class Watcher:
    """A console that is open: it keeps the events that it receives, each with its time."""

    def __init__(self, http):
        self._http = http
        self.events = []
        self.ids = []

    async def run(self, after=None):
        given = {} if after is None else {"after": after}
        async with self._http.stream("GET", "/v1/console/live", params=given) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            event = {}
            async for line in answer.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    event[name] = value
                elif "event" in event:
                    self.events.append((event["event"], json.loads(event["data"]), time.time()))
                    self.ids.append(event["id"])
                    event = {}

    async def circuit(self, state, tool=TOOL):
        async def look():
            return next(
                (
                    each
                    for kind, each, _ in self.events
                    if kind == "circuit" and (each["tool"], each["state"]) == (tool, state)
                ),
                None,
            )

        return await eventually(look, what=f"{tool} {state}")


async def test_operators_command_undo_set_policies_and_repair_dead_letters_while_consoles_follow(
    store, settings, tmp_path
):
    token, text = new_token("ada", [Role.OPERATE])
    (tmp_path / "tokens.toml").write_text(with_token("", token))
    settings = settings.model_copy(update={"access_tokens_file": tmp_path / "tokens.toml"})
    with switchgear("worker", log=tmp_path / "worker.log", settings=settings) as worker:
        worker.wait_for_output("ready  ", timeout_s=READY_S)
        async with served(store, settings, text) as http:
            await fresh(http)
            watcher = Watcher(http)
            watching = asyncio.create_task(watcher.run((await http.get("/v1/console/now")).json()["live_id"]))
            try:
                await sets_a_policy_and_sees_it_decide(http, watcher, settings)
                await forces_open_and_undoes_it(http, watcher, settings)
                await commands_from_the_command_line_need_no_kafka(http, text)
                await refuses_what_is_wrong(http)
                await resumes_the_stream(http, watcher)
                await repairs_a_dead_letter(http, settings)
                await sees_the_system(http, settings)
                await ends_the_stream_of_a_revoked_token(http, tmp_path / "tokens.toml")
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)


async def fresh(http):
    async def look():
        return (await http.get("/v1/console/now")).json()["data"]["circuits_fresh"]

    await eventually(look, what="the circuits from Kafka")


async def sets_a_policy_and_sees_it_decide(http, watcher, settings):
    values = {"consecutive_failures": 2, "minimum_reporters": 1, "wait_duration_in_open_state_s": 600}
    body = {"policy": values, "mode": "metrics_only", "reason": "replayed on a day"}
    tried = (await http.put(f"/v1/policies/{TOOL}", json=body | {"dry_run": True})).json()
    assert (tried["before"]["values"], tried["after"]["policy"]["mode"]) == ({}, "metrics_only")
    assert (await http.get("/v1/policies")).json()["overrides"] == []
    done = (await http.put(f"/v1/policies/{TOOL}", json=body)).json()
    assert done["outcome"] == "applied", done
    second = (
        await http.put(f"/v1/policies/{TOOL}", json={"policy": {}, "mode": "enforce", "reason": "it is right"})
    ).json()
    assert second["before"]["values"] == values | {"mode": "metrics_only"}
    failing = [
        {"tool_name": TOOL, "status": "error", "error_class": "server", "error_message": "boom", "emitter_id": "e1"}
    ]
    await emit(settings, failing * 3)
    shown = await watcher.circuit("open")
    assert shown["why"].startswith("2 calls in a row failed")
    (listed,) = (await http.get("/v1/policies")).json()["overrides"]
    assert (listed["pattern"], listed["values"]) == (TOOL, values | {"mode": "enforce"})
    undone = (await http.post(f"/v1/audit/{second['audit_id']}/undo", json={"reason": "not yet"})).json()
    assert undone["outcome"] in {"applied", "unchanged"}

    async def back():
        found = (await http.get("/v1/policies")).json()["overrides"]
        return found and found[0]["values"]["mode"] == "metrics_only"

    await eventually(back, what="the policy as it was before")
    await http.put(f"/v1/policies/{TOOL}", json={"policy": {}, "mode": "enforce", "reason": "again"})


async def forces_open_and_undoes_it(http, watcher, settings):
    tool, path = "mail", "/v1/circuits/mail/commands"
    body = {"command": "force_open", "reason": "the server moves", "expires_in_s": 600}
    tried = (await http.post(path, json=body | {"dry_run": True})).json()
    assert (tried["before"]["state"], tried["after"]["state"]) == ("closed", "forced_open")
    assert tool not in await read_circuits(settings)
    sent_at = time.time()
    done = (await http.post(path, json=body)).json()
    assert (done["outcome"], done["undoable"]) == ("applied", True)
    shown = await watcher.circuit(done["after"]["state"], tool)
    assert (shown["override"]["actor"], shown["override"]["reason"]) == ("token:ada", "the server moves")
    at = next(at for kind, each, at in watcher.events if kind == "circuit" and each["tool"] == tool)
    assert at - sent_at < 10
    record = (await read_circuits(settings))[tool][-1]
    assert (record.state, record.cause.actor) == (done["after"]["state"], "token:ada")
    first = (await http.get("/v1/audit")).json()["items"][0]
    assert (first["action"], first["subject"], first["reason"], first["outcome"]) == (
        "force_open",
        tool,
        "the server moves",
        "applied",
    )
    assert (first["actor"], first["address"], first["undoable"]) == ("token:ada", "127.0.0.1", True)
    assert first["before"]["state"] == "closed"
    assert first["expires_at"] is not None
    undone = (await http.post(f"/v1/audit/{done['audit_id']}/undo", json={"reason": "the wrong one"})).json()
    assert undone["after"]["state"] in {"closed", "half_open", "open"}
    assert undone["after"]["override"] is None
    items = (await http.get("/v1/audit", params={"subject": tool})).json()["items"]
    assert [(each["action"], each["undoable"]) for each in items] == [("undo", False), ("force_open", False)]
    assert items[0]["undo_of"] == items[1]["audit_id"]
    assert items[1]["undone_by"] == items[0]["audit_id"]
    again = await http.post(f"/v1/audit/{done['audit_id']}/undo", json={"reason": "twice"})
    assert again.status_code == 409


async def commands_from_the_command_line_need_no_kafka(http, token):
    there = {
        "SWITCHGEAR_API_URL": str(http.base_url),
        "SWITCHGEAR_TOKEN": token,
        "SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
    }

    async def command(*words):
        return await asyncio.to_thread(run, *words, extra=there)

    opened = await command("open", "mai?", "--yes", "--for", "10m", "--reason", "storm")
    assert (opened.returncode, opened.stderr) == (0, ""), opened.stderr
    assert opened.stdout.startswith("mail: open until ")
    assert opened.stdout.endswith(", by token:ada: storm.\n")
    unknown = await command("close", "mali")
    assert (unknown.returncode, "did you mean mail" in unknown.stderr) == (2, True)
    assert (await command("auto", "mail", "--json")).returncode == 0
    assert "the policy is set" in (await command("policy", "set", "mail", "minimum_reporters=3")).stdout
    assert "taken back" in (await command("policy", "clear", "mail")).stdout
    actions = [
        (each["action"], each["actor"], each["reason"]) for each in (await http.get("/v1/audit")).json()["items"][:4]
    ]
    assert [each[0] for each in actions] == ["set_policy", "set_policy", "auto", "force_open"]
    assert actions[3] == ("force_open", "token:ada", "storm")


async def refuses_what_is_wrong(http):
    for body in (
        {"command": "force_open"}, {"command": "force_open", "reason": ""}, {"command": "explode", "reason": "x"},
        {"command": "close", "reason": "x", "expires_in_s": 5}, {"command": "reset", "reason": "x" * 1001},
    ):  # fmt: skip
        answer = await http.post("/v1/circuits/mail/commands", json=body)
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), body
    assert (await http.put("/v1/policies/mail", json={"policy": {"colour": "red"}, "reason": "x"})).status_code == 400
    refused = await http.post("/v1/circuits/mail%7Cuser=u1/commands", json={"command": "force_open", "reason": "x"})
    assert (refused.status_code, "scope" in refused.json()["detail"]) == (400, True)
    assert (await http.get("/v1/audit")).json()["items"][0]["outcome"] == "refused"


async def resumes_the_stream(http, watcher):
    epoch, _, number = watcher.ids[-1].partition("-")
    late, lost = Watcher(http), Watcher(http)
    tasks = [asyncio.create_task(late.run(f"{epoch}-{int(number) - 2}")), asyncio.create_task(lost.run("other-3"))]
    try:
        await eventually(lambda: _true(len(late.events) >= 2 and lost.events), what="the missed events")
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert late.ids[:2] == [f"{epoch}-{int(number) - 1}", f"{epoch}-{number}"]
    assert late.events[1][:2] == watcher.events[watcher.ids.index(f"{epoch}-{number}")][:2]
    assert lost.events[0][0] == "reset"


async def _true(value):
    return value


async def repairs_a_dead_letter(http, settings):
    letter = DeadLetter(
        settings.topics.executions, 1, 7, int(time.time() * 1000), value=b'{"tool_name":"search"}', component="sink",
        reason="missing required field `status`", field="status", original_key=b"search",
    )  # fmt: skip
    await produce(settings, [Message(letter.body, letter.key, letter.headers())], topic=settings.topics.dead)
    await asyncio.sleep(5.1)  # what was read is kept for five seconds

    async def found():
        return (await http.get("/v1/dead-letters", params={"reason": "STATUS"})).json()["items"]

    (item,) = await eventually(found, what="the dead letter")
    whole = (await http.get(f"/v1/dead-letters/{item['id']}")).json()
    assert (whole["text"], whole["field"], whole["hex"]) == ('{"tool_name":"search"}', "status", None)
    path = f"/v1/dead-letters/{item['id']}/retry"
    wrong = await http.post(path, json={"value": '{"tool_name":"search","status":"odd"}', "reason": "status"})
    assert (wrong.status_code, "status" in wrong.json()["detail"]) == (400, True)
    sent = (await http.post(path, json={"value": '{"tool_name":"search","status":"error"}', "reason": "status"})).json()
    assert sent["sent_to"] == settings.topics.executions
    assert (await http.get("/v1/dead-letters")).json()["items"][:1] != [item]
    assert (await http.get(f"/v1/dead-letters/{item['id']}")).status_code == 404
    actions = [(each["action"], each["outcome"]) for each in (await http.get("/v1/audit")).json()["items"][:2]]
    assert actions == [("retry_dead_letter", "applied"), ("retry_dead_letter", "refused")]


async def sees_the_system(http, settings):
    found = (await http.get("/v1/console/system")).json()
    assert found["kafka"]["answers"] is True
    groups = {each["group"]: each for each in found["groups"]}
    assert groups[settings.topics.worker_group]["members"] >= 1
    assert {each["topic"] for each in found["topics"]} >= {settings.topics.executions, settings.topics.circuits}
    assert len(found["brokers"]) == 1
    assert any(each["table"] == "operator_actions" and each["rows"] > 0 for each in found["storage"])
    assert found["data"]["circuits_fresh"] is True
    assert found["servers"] == []  # the setting names none


async def ends_the_stream_of_a_revoked_token(http, file):
    token, text = new_token("vi", [Role.READ])
    file.write_text(with_token(file.read_text(), token))
    await asyncio.sleep(1.5)  # the server looks at the file once a second
    login = {"Authorization": f"Bearer {text}"}
    async with httpx.AsyncClient(base_url=http.base_url, timeout=HAPPEN_S, headers=login) as viewer:
        watcher = Watcher(viewer)
        watching = asyncio.create_task(watcher.run())
        await eventually(lambda: _true(watcher.events), what="an event of the stream")
        file.write_text(with_revoked(file.read_text(), token.id, datetime.now(UTC)))
        await asyncio.wait_for(watching, HAPPEN_S)
