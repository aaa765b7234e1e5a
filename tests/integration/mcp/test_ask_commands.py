"""An agent's command in a whole system: asked for over MCP, agreed to, carried out by the worker, recorded with the token's name."""

from __future__ import annotations

import asyncio

import mcp_types as types
import pytest

from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_mcp.ask.api import Api
from switchgear_mcp.ask.server import URI
from tests.integration.mcp.conftest import over_http
from tests.integration.mcp.test_ask import client_of, over_stdio
from tests.support.ask_api import text_of
from tests.support.up import Up

pytestmark = pytest.mark.deep
STORED_S = 30


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """A running system, and the token of an operator."""
    folder = tmp_path_factory.mktemp("system")
    token, text = new_token("planner", [Role.OPERATE])
    tokens = folder / "tokens.toml"
    tokens.write_text(with_token("", token))
    tokens.chmod(0o600)
    with Up(folder / "data", extra={"SWITCHGEAR_ACCESS_TOKENS_FILE": str(tokens)}) as up:
        yield up.record()["api_url"], text


async def shown(client, tool, *, down):
    """Wait until the sink has stored the circuit, and the questions show it."""
    async with asyncio.timeout(STORED_S):
        while True:
            plan = await client.call_tool("plan_check", {"tools": [tool]})
            resource = (await client.read_resource(URI)).contents[0].text
            if plan.structured_content["go"] is not down and (tool in resource) is down:
                return
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_command_that_a_person_agrees_to_holds_in_the_whole_fleet(system, tmp_path, mode):
    url, token = system
    asked = []

    async def agrees(_context, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"confirm": True})

    tool = f"mcp:weather:{mode}"
    given = {"tool": tool, "command": "force_open", "reason": "it is being moved", "minutes": 5}
    with over_http(url, tmp_path) as (address, _):
        async with client_of(address, token, mode, elicitation_callback=agrees) as client:
            done = await client.call_tool("operate", given)
            assert text_of(done).startswith("Done (applied)"), text_of(done)
            await shown(client, tool, down=True)
    assert len(asked) == 1
    async with over_stdio(url, token, mode) as client:
        first = await client.call_tool("operate", {"tool": tool, "command": "auto", "reason": "moved"})
        assert "The circuit is forced open now." in text_of(first) or "The circuit is open now." in text_of(first)
        confirm = first.structured_content["confirm"]
        back = await client.call_tool(
            "operate", {"tool": tool, "command": "auto", "reason": "moved", "confirm": confirm}
        )
        assert text_of(back).startswith("Done ("), text_of(back)
        await shown(client, tool, down=False)
    api = Api(url)
    audit = await api.get("/v1/audit", token, subject=tool)
    await api.close()
    assert [(each["action"], each["actor"]) for each in audit["items"]] == [
        ("auto", "token:planner"),
        ("force_open", "token:planner"),
    ]
