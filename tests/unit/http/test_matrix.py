"""Every route of both servers, with every role and every tenant: who is let in, and what a tenant reads of another.

The routes come from the applications. A route without an entry here fails, so that nobody adds one without saying for whom it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple

import jsonschema
import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.routing import Route

from switchgear.testing import FakeClock, InMemoryFleet, MemoryFollower
from switchgear_api.app import create_app as create_api
from switchgear_api.console.console import Console
from switchgear_gateway.app import create_app as create_gateway
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp_routes import Senders
from switchgear_gateway.publisher import Publisher
from switchgear_gateway.service import parts_of
from switchgear_gateway.shared import Shared
from switchgear_gateway.tenant_tools import TenantTools
from switchgear_http.authenticator import Authenticator
from switchgear_http.principal import Role
from switchgear_http.token_source import FixedTokens
from switchgear_http.tokens import new_token, with_token
from switchgear_http.visibility import CIRCUITS
from switchgear_schemas.circuit import Cause, Circuit, Counts, Lease
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Store
from tests.support.asgi import Answered, request
from tests.support.engine import call, migrated_store, store_calls, store_circuits
from tests.unit.producers.gateway.circuits.test_changes import record

pytestmark = pytest.mark.slow

TENANTS = ("acme", "globex")
HOLDERS = [None, *((role, tenant) for role in Role for tenant in (None, *TENANTS))]
NOW = datetime.now(UTC)


class Access(NamedTuple):
    """Who may use a route.

    Args:
        roles: One of these is needed. None: no login is.
        tenants: Whether a token of one tenant may use it.
    """

    roles: frozenset[Role] | None
    tenants: bool = True


def roles(*names: str, tenants: bool = True) -> Access:
    return Access(frozenset(map(Role, names)), tenants)


PUBLIC = Access(None)
EMIT = roles("emit", "admin")
READ = roles("read", "operate", "admin")
READ_ALL = READ._replace(tenants=False)
OPERATE_ALL = roles("operate", "admin", tenants=False)
ADMIN_ALL = roles("admin", tenants=False)
ANY = roles(*Role)

GATEWAY = {
    "POST /v1/executions": EMIT,
    "GET /v1/circuits": ANY,
    "GET /v1/circuits/stream": ANY,
    "POST /v1/decide": EMIT,
    "POST /v1/outcome": EMIT,
    "POST /v1/hooks/claude-code": EMIT,
    "POST /v1/traces": EMIT,
    "POST /v1/logs": EMIT,
    "POST /v1/metrics": EMIT,
    "GET /v1/sources": ANY,
    "GET /healthz": PUBLIC,
    "GET /readyz": PUBLIC,
    "GET /metrics": READ_ALL,
    "GET /openapi.json": ANY,
}
API = {
    "GET /v1/console/now": READ,
    "GET /v1/console/live": READ,
    "GET /v1/console/tool/{name:path}": READ,
    "GET /v1/console/known": READ_ALL,
    "GET /v1/console/timeline": READ,
    "GET /v1/console/system": READ_ALL,
    "GET /v1/dead-letters": READ_ALL,
    "GET /v1/dead-letters/{identity}": READ_ALL,
    "POST /v1/dead-letters/{identity}/retry": OPERATE_ALL,
    "GET /v1/calls": READ,
    "GET /v1/sessions/{session_id:path}/calls": READ,
    "POST /v1/circuits/{circuit_id:path}/commands": OPERATE_ALL,
    "GET /v1/audit": READ_ALL,
    "POST /v1/audit/{audit_id}/undo": OPERATE_ALL,
    "GET /v1/policies": READ_ALL,
    "POST /v1/policies/replay": READ,
    "PUT /v1/policies/{pattern:path}": OPERATE_ALL,
    "GET /v1/session": ANY,
    "POST /v1/session": PUBLIC,
    "DELETE /v1/session": PUBLIC,
    "GET /login/oidc": PUBLIC,
    "GET /login/oidc/callback": PUBLIC,
    "GET /v1/tools": READ,
    "GET /v1/tools/{name:path}": READ,
    "GET /v1/circuits": READ,
    "GET /v1/circuits/{circuit_id:path}/history": READ_ALL,
    "GET /v1/circuits/{circuit_id:path}": READ,
    "GET /v1/slow": READ,
    "GET /v1/errors": READ,
    "GET /v1/stored": READ_ALL,
    "GET /v1/emitters": READ,
    "POST /v1/sql": READ_ALL,
    "GET /v1/retention": READ_ALL,
    "PUT /v1/retention": ADMIN_ALL,
    "DELETE /v1/retention": ADMIN_ALL,
    "GET /openapi.json": READ,
    "GET /healthz": PUBLIC,
    "GET /readyz": PUBLIC,
    "GET /metrics": READ_ALL,
    "GET /assets/{build}/{name:path}": PUBLIC,
} | {
    f"GET {page}": PUBLIC
    for page in ("/", "/tool/{name:path}", "/timeline", "/lab", "/calls", "/sql", "/dead", "/system", "/audit", "/login")
}  # fmt: skip
VALUES = {"name": "shared", "circuit_id": "shared", "pattern": "shared", "session_id": "s", "identity": "0-1"}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/decide": {"tool": "shared"},
    "/v1/hooks/claude-code": {"hook_event_name": "SessionStart", "session_id": "s"},
    "/v1/policies/replay": {"tool": "shared", "policy": {"consecutive_failures": 3}},
}
STREAMS = {"/v1/circuits/stream": 2, "/v1/console/live": 1}
"""The pieces of an answer that comes at once."""
MORE = [
    "GET /v1/circuits?tool=shared",
    "GET /v1/circuits?tool=*",
    "GET /v1/circuits/stream?tool=shared",
    "GET /v1/circuits/stream?tool=*",
    "GET /v1/circuits/globex-secret?history=0",
]
"""Requests beside the bare routes, for what a tenant reads."""


# -- the servers, with the data of two tenants


def secret(tenant: str) -> Circuit:
    """A circuit of a tool that this tenant alone calls."""
    return shared(f"{tenant}-secret", tenant)


def shared(tool: str, tenant: str) -> Circuit:
    """A circuit with everything that one tenant may not know of another."""
    return Circuit(
        circuit_id=tool,
        tool_name=tool,
        state="forced_open",
        previous_state="half_open",
        version=3,
        generation=2,
        cause=Cause(rule="command", actor=f"{tenant}-operator", reason=f"{tenant} pays late"),
        changed_at=NOW,
        counts=Counts(calls=9),
        leases=(Lease(lease_id="2.1", emitter_id=f"{tenant}@host", expires_at=NOW + timedelta(minutes=5)),),
        last_error=f"of {tenant}",
        fallback=(f"{tenant}-secret",),
    )


def executions(tenant: str) -> list[dict[str, Any]]:
    own: dict[str, Any] = {
        "tenant": tenant,
        "status": "error",
        "error_message": f"of {tenant}",
        "execution_time_ms": 9_000,
        "user_id": f"{tenant}-user",
        "session_id": "s",
        "service": f"{tenant}-service",
        "emitter_id": f"{tenant}@host",
    }
    return [call(tool, **own) for tool in ("shared", f"{tenant}-secret") for _ in range(6)]


@pytest.fixture(scope="module")
def tokens() -> dict[Any, str]:
    """The text of each holder's token, and the document of all as ``file``."""
    document, found = '{"tokens": []}', dict[Any, str]()
    for holder in HOLDERS:
        if holder is not None:
            role, tenant = holder
            token, found[holder] = new_token(f"{role} {tenant}", [role], tenant=tenant)
            document = with_token(document, token)
    return found | {"file": document}


@contextlib.asynccontextmanager
async def gateway(tokens: dict[Any, str]) -> AsyncIterator[Starlette]:
    """A gateway that knows a circuit of each tenant, one of ``globex`` that both call, and the tools that each has named."""
    settings = Settings(gateway_http="0.0.0.0:8622", gateway_ack_s=0.1)
    authenticator, registry = Authenticator([FixedTokens(tokens["file"], "tokens")]), CollectorRegistry()
    memory, follower, tools = InMemoryFleet(), MemoryFollower(FakeClock().monotonic), TenantTools()
    publisher = Publisher(settings, registry)
    fleet: Any = SimpleNamespace(gear=memory.gear("gateway"), follower=follower, ready=True)
    parts = parts_of(
        settings, fleet, publisher, Ingest(), Senders(authenticator, publisher, Shared(tenant_tools=tools)), registry
    )
    known = [shared("shared", "globex"), *map(secret, TENANTS)]
    follower.deliver([record(each.tool_name, place, **each.to_dict()) for place, each in enumerate(known)])
    for each in known:
        memory.open_circuit(each.tool_name, for_s=60, reason="globex pays late")
    for tenant in TENANTS:
        principal = authenticator._sources[0].table.authenticate(tokens[Role.EMIT, tenant])
        tools.note(principal, ["shared", f"{tenant}-secret"])
    follower.loaded = True
    running = [asyncio.create_task(part.run()) for part in parts if hasattr(part, "run")]
    routes: Any = next(part for part in parts if hasattr(part, "loaded"))
    while not routes.loaded:  # noqa: ASYNC110 - its task takes the records
        await asyncio.sleep(0)
    try:
        yield create_gateway(parts, settings, registry=registry, authenticator=authenticator)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        fleet.gear.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with migrated_store(tmp_path_factory.mktemp("clickhouse")) as found:
        asyncio.run(store_calls(found, [each for tenant in TENANTS for each in executions(tenant)]))
        asyncio.run(store_circuits(found, [shared("shared", "globex"), *map(secret, TENANTS)]))
        yield found


@contextlib.asynccontextmanager
async def api(store: Store, tokens: dict[Any, str]) -> AsyncIterator[Starlette]:
    """An API over the rows and circuits of both tenants. Kafka is away."""
    settings = Settings(api_http="0.0.0.0:8620", kafka_bootstrap_servers="127.0.0.1:1", access_tokens=tokens["file"])
    async with Console(store, settings, follow=False) as console:
        yield create_api(store, settings, registry=CollectorRegistry(), console=console)


# -- the matrix


def routes_of(app: Starlette) -> set[str]:
    """Return ``METHOD path`` of each route of an application."""
    assert all(isinstance(each, Route) for each in app.routes), "the matrix knows no mounts"
    return {
        f"{method} {each.path}"
        for each in app.routes
        if isinstance(each, Route)
        for method in (each.methods or set()) - {"HEAD"}
    }


async def answer(app: Starlette, route: str, token: str | None) -> Answered:
    """Send the request of a route. Its body is wrong where the request would change something."""
    method, target = route.split(" ", 1)
    target = re.sub(r"\{(\w+)(?::path)?\}", lambda found: VALUES.get(found[1], "x"), target)
    path = target.partition("?")[0]
    body = json.dumps(BODIES.get(path, {})).encode() if method in {"POST", "PUT"} else b""
    headers = {"content-type": "application/json"}
    return await request(app, method, target, token=token, body=body, headers=headers, pieces=STREAMS.get(path))


def expected(access: Access, holder: tuple[Role, str | None] | None) -> set[int] | None:
    """Return the statuses of a refusal. None: the holder is let in."""
    if access.roles is None:
        return None
    if holder is None:
        return {401}
    role, tenant = holder
    return None if role in access.roles and (tenant is None or access.tenants) else {403}


async def check(app: Starlette, table: dict[str, Access], tokens: dict[Any, str]) -> None:
    assert routes_of(app) == set(table), "say in the table who may use a new route"
    wrong = list[tuple[object, ...]]()
    for route, access in table.items():
        for holder in HOLDERS:
            status, body = await answer(app, route, None if holder is None else tokens[holder])
            wanted = expected(access, holder)
            if status in {401, 403} if wanted is None else status not in wanted:
                wrong.append((route, holder, status, body[:200]))
            if holder is None or holder[1] is None:
                continue
            (other,) = {*TENANTS} - {holder[1]}
            if other.encode() in body:
                wrong.append((route, holder, "reads of the other tenant", body))
    assert wrong == []


async def test_every_route_of_the_gateway_lets_in_whom_the_table_says_and_shows_a_tenant_nothing_of_another(
    tokens: dict[Any, str],
) -> None:
    async with gateway(tokens) as app:
        await check(app, GATEWAY, tokens)


async def test_every_route_of_the_api_lets_in_whom_the_table_says_and_shows_a_tenant_nothing_of_another(
    store: Store, tokens: dict[Any, str]
) -> None:
    async with api(store, tokens) as app:
        await check(app, API, tokens)


async def test_both_servers_show_a_tenant_the_same_circuits(store: Store, tokens: dict[Any, str]) -> None:
    token = tokens[Role.ADMIN, "acme"]
    async with gateway(tokens) as app, api(store, tokens) as other:
        for query, names in (("", {"shared", "acme-secret"}), ("?tool=shared", {"shared"})):
            of_gateway = json.loads((await answer(app, f"GET /v1/circuits{query}", token)).body)["circuits"]
            of_api = json.loads((await answer(other, f"GET /v1/circuits{query}", token)).body)["circuits"]
            assert of_gateway.keys() == of_api.keys() == names
            for name, circuit in of_gateway.items():
                for field in ("state", "cause", "leases", "generation", "version"):
                    assert of_api[name][field] == circuit[field]


async def test_both_servers_answer_for_the_circuits_in_the_form_of_one_schema(
    store: Store, tokens: dict[Any, str]
) -> None:
    async with gateway(tokens) as one, api(store, tokens) as two:
        for server in (one, two):
            for holder in ((Role.READ, None), (Role.READ, "acme")):
                found = json.loads((await answer(server, "GET /v1/circuits", tokens[holder])).body)
                assert found["circuits"]
                jsonschema.validate(found, CIRCUITS)


async def test_a_client_of_all_tenants_sees_what_the_tenants_do_not(store: Store, tokens: dict[Any, str]) -> None:
    async with gateway(tokens) as one, api(store, tokens) as two:
        for server in (one, two):
            _, body = await answer(server, "GET /v1/circuits", tokens[Role.READ, None])
            for each in ("globex pays late", "globex-operator", "globex@host", "of globex", "acme-secret"):
                assert each.encode() in body


async def test_no_question_shows_a_tenant_what_only_another_uses(store: Store, tokens: dict[Any, str]) -> None:
    async with gateway(tokens) as one, api(store, tokens) as two:
        for server in (one, two):
            for route in MORE:
                _, body = await answer(server, route, tokens[Role.ADMIN, "acme"])
                said = body.replace(b"globex-secret", b"") if "globex-secret" in route else body
                assert b"globex" not in said, (route, body)
