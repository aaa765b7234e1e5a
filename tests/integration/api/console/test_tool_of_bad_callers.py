"""The pages about a tool whose callers send wrong arguments, and what a client of one tenant sees of it."""

import asyncio
import json
import shutil
import subprocess
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_api.console.pages import ASSETS
from switchgear_http.authenticator import Authenticator
from switchgear_http.principal import Role
from switchgear_http.token_source import FixedTokens
from switchgear_http.tokens import new_token, with_token
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Database
from tests.support.engine import call, emptied, store_calls

TOOL, QUIET = "mail", "mail-of-yesterday"


def rows_of(now):
    at = now - timedelta(minutes=5)
    some = {"at": at, "service": "planner", "emitter_id": "host-1", "tenant": "acme"}
    wrong = [call(TOOL, "error", error_class="invalid_input", **some) for _ in range(90)]
    failed = [call(TOOL, "error", error_class="server", **some) for _ in range(5)]
    cancelled = [call(TOOL, "cancelled", **some) for _ in range(3)]
    quiet = [call(QUIET, "success", **(some | {"at": now - timedelta(hours=3)}))]
    return [*wrong, *failed, *cancelled, *quiet, *(call(TOOL, "success", **some) for _ in range(5))]


@pytest.fixture(scope="module")
def stored(engine):
    store = emptied(engine)
    asyncio.run(store_calls(store, rows_of(datetime.now(UTC))))
    return store


def client_of(stored, token=None, text=None):
    authenticator = None if token is None else Authenticator([FixedTokens(with_token("", token), "x")])
    app = create_app(stored, Settings(), registry=CollectorRegistry(), authenticator=authenticator)
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    headers = {} if text is None else {"Authorization": f"Bearer {text}"}
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)


@pytest.mark.parametrize("hours", [6, 48])
async def test_error_rate_of_the_charts_is_of_the_calls_that_say_how_the_tool_is(stored, hours):
    async with client_of(stored) as http:
        series = (await http.get(f"/v1/console/tool/{TOOL}", params={"hours": hours})).json()["series"]
        fleet = (await http.get("/v1/console/timeline", params={"hours": hours})).json()["series"]
        now = (await http.get("/v1/console/now")).json()
    assert (sum(series["calls"]), sum(series["judged"]), sum(series["errors"])) == (103, 10, 5)
    assert (sum(fleet["judged"]), sum(fleet["errors"])) == (11, 5)
    (row,) = [each for each in now["tools"] if each["tool"] == TOOL]
    assert row["stats"]["error_rate"] == 0.5


async def test_errors_of_a_caller_are_those_of_the_tool(stored):
    async with client_of(stored) as http:
        (caller,) = (await http.get(f"/v1/console/tool/{TOOL}")).json()["callers"]
    assert (caller["calls"], caller["errors"]) == (103, 5)


async def test_state_of_a_tool_is_unknown_to_a_client_of_one_tenant(stored):
    token, text = new_token("acme", [Role.READ], tenant="acme")
    async with client_of(stored, token, text) as http:
        found = [(await http.get(f"/v1/console/tool/{name}")).json()["tool"]["state"] for name in (TOOL, QUIET)]
    assert found == ["unknown", "unknown"]


async def test_replay_of_a_glob_reads_only_the_tools_of_the_token(stored):
    token, text = new_token("one", [Role.READ], tools=["mai?"])
    async with client_of(stored, token, text) as http:
        body = {"pattern": "mai*", "policy": {"consecutive_failures": 1}, "hours": 24}
        answer = (await http.post("/v1/policies/replay", json=body)).json()
    assert answer["calls"] == 103


async def test_time_before_the_year_2000_is_an_error_that_names_the_parameter(stored):
    async with client_of(stored) as http:
        answer = await http.get("/v1/calls", params={"until": "0001-01-01"})
    assert (answer.status_code, "until must lie between" in answer.json()["detail"]) == (400, True)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
async def test_every_example_of_the_sql_page_runs(stored):
    code = f"import {{ EXAMPLES }} from {json.dumps(str(ASSETS / 'js' / 'sql-examples.js'))}; console.log(JSON.stringify(EXAMPLES))"
    done = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True, check=True)  # noqa: ASYNC221 - short
    examples = dict(json.loads(done.stdout))
    found = {title: await Database(stored).rows(query) for title, query in examples.items()}
    assert [row["tool_name"] for row in found["Slowest tools"]] == [TOOL]
    assert {row["error_class"]: row["errors"] for row in found["Errors by class"]} == {"invalid_input": 90, "server": 5}
    assert len(found["Tables"]) > 5
