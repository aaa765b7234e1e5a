"""The questions at the real API in this process, with each role and each tenant."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from switchgear_http.principal import Role
from switchgear_mcp.ask.api import Api
from switchgear_mcp.ask.callers import Callers
from switchgear_mcp.ask.questions import Questions
from switchgear_mcp.ask.server import URI, AskServer
from tests.support.ask_api import connected, text_of
from tests.support.deep import some
from tests.unit.http.test_matrix import HOLDERS, TENANTS, api, store, tokens

__all__ = ["store", "tokens"]
pytestmark = pytest.mark.slow

READERS = {Role.READ, Role.OPERATE, Role.ADMIN}


def asked(tenant: str | None) -> list[tuple[str, dict[str, Any]]]:
    """Every question, about the tools that a tenant knows."""
    mine = ["shared", "shared" if tenant is None else f"{tenant}-secret"]
    return [
        ("tools_down", {}),
        *((name, {"tool": tool}) for name in ("tool_status", "why", "alternatives", "recent_errors") for tool in mine),
        ("plan_check", {"tools": mine}),
        ("recent_errors", {}),
    ]


@contextlib.asynccontextmanager
async def client(app: Starlette, token: str | None) -> AsyncIterator[Any]:
    """The official client of a server that asks with a token."""
    transport = httpx.ASGITransport(app, client=("10.0.0.9", 1))
    asking = Api("http://gear.example.com", transport=transport)
    server = AskServer(asking, Callers(asking), Questions(asking, "mcp:*:*"), lambda _ctx: token)
    async with connected(server) as found:
        yield found
    await asking.close()


async def everything(mcp: Any, role: Role | None, tenant: str | None) -> str:
    """Return all that a holder of a token reads."""
    listed = [each.name for each in (await mcp.list_tools()).tools]
    assert ("operate" in listed) is (role in {Role.OPERATE, Role.ADMIN} and tenant is None)
    read = []
    for question, arguments in asked(tenant):
        found = await mcp.call_tool(question, arguments)
        assert found.is_error is (role not in READERS), (question, text_of(found))
        read += [text_of(found), str(found.structured_content)]
    if role in READERS:
        read.append((await mcp.read_resource(URI)).contents[0].text)
    return "\n".join(read)


@pytest.mark.parametrize(
    "holders",
    some([[None, (Role.EMIT, None), (Role.OPERATE, None), (Role.READ, "acme")], HOLDERS], 1),
    ids=["four", "all"],
)
async def test_each_role_and_tenant_gets_its_answers_and_nothing_of_another_tenant(holders, store, tokens):
    async with api(store, tokens) as app:
        for holder in holders:
            role, tenant = holder or (None, None)
            async with client(app, tokens.get(holder)) as mcp:
                read = await everything(mcp, role, tenant)
            others = {*TENANTS} - {tenant} if tenant is not None else ()
            assert not [other for other in others if other in read]


async def test_the_answers_are_those_of_the_stored_rows(store, tokens):
    async with api(store, tokens) as app, client(app, tokens[Role.READ, None]) as mcp:
        down = await mcp.call_tool("tools_down", {})
        status = await mcp.call_tool("tool_status", {"tool": "shared"})
        errors = await mcp.call_tool("recent_errors", {"tool": "acme-secret", "limit": 2})
        plan = await mcp.call_tool("plan_check", {"tools": ["shared", "unheard-of"]})
    assert sorted(each["tool"] for each in down.structured_content["down"]) == [
        "acme-secret",
        "globex-secret",
        "shared",
    ]
    assert "an operator stopped the calls" in text_of(down)
    assert "pays late" not in text_of(down)
    assert "In the last hour: 12 calls, 0 % succeeded, p50 9.0 s" in text_of(status)
    assert [each["said"] for each in errors.structured_content["errors"]] == ['"of acme"'] * 2
    assert text_of(plan).startswith("1 of 2 tools can be called now.")


async def test_a_tenant_that_names_a_tool_learns_its_state_and_no_number_of_others(store, tokens):
    async with api(store, tokens) as app, client(app, tokens[Role.READ, "acme"]) as mcp:
        found = await mcp.call_tool("why", {"tool": "globex-secret"})
        status = await mcp.call_tool("tool_status", {"tool": "globex-secret"})
    assert text_of(found).startswith("globex-secret is unavailable since")
    assert "pays late" not in text_of(found)
    assert text_of(status).endswith("In the last hour: no calls.")


async def test_a_command_is_tried_first_and_sent_only_after_the_agreement(store, tokens):
    given = {"tool": "shared", "command": "close", "reason": "it works again"}
    async with api(store, tokens) as app, client(app, tokens[Role.OPERATE, None]) as mcp:
        first = await mcp.call_tool("operate", given)
        assert "The circuit is forced open now." in text_of(first)
        second = await mcp.call_tool("operate", given | {"confirm": first.structured_content["confirm"]})
    assert second.is_error, "Kafka is away"
    assert text_of(second).startswith("The API can't answer now")


@pytest.mark.parametrize("tenant", [None, "acme"])
async def test_refusing_circuits_are_a_part_of_all(tenant, store, tokens):
    headers = {"Authorization": f"Bearer {tokens[Role.READ, tenant]}"}
    async with api(store, tokens) as app:
        transport = httpx.ASGITransport(app, client=("10.0.0.9", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://gear.example.com", headers=headers) as http:
            everything = (await http.get("/v1/circuits")).json()["circuits"]
            refusing = (await http.get("/v1/circuits?refusing=1")).json()["circuits"]
            wrong = await http.get("/v1/circuits?refusing=yep")
    assert refusing == {name: each for name, each in everything.items() if each["state"] != "closed"} != {}
    assert wrong.status_code == 400
