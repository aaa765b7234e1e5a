"""Tokens at the HTTP API over the real engine: roles, other tenants' data, tools, and what stays open."""

import asyncio
import ssl
import threading
from contextlib import contextmanager

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_cli.main import run
from switchgear_http.listening import tls_options
from switchgear_http.principal import Role
from switchgear_http.server import make_server
from switchgear_http.sockets import listen, url_of
from switchgear_http.tokens import new_token, with_token
from switchgear_schemas.settings import Settings
from tests.support.certificates import Authority
from tests.support.engine import call, store_calls
from tests.support.limits import ANSWER_S
from tests.support.raw_http import answers, asked
from tests.support.table import table
from tests.support.waiting import until

TOKENS = {
    "reader": {"roles": [Role.READ]},
    "emitter": {"roles": [Role.EMIT]},
    "admin": {"roles": [Role.ADMIN]},
    "acme": {"roles": [Role.ADMIN], "tenant": "acme"},
    "weather": {"roles": [Role.READ], "tools": ["mcp:weather:*"]},
}
SECRET = "globex-only-7341"


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The file of the tokens as ``file``, and each token's text."""
    path, document, found = tmp_path_factory.mktemp("access") / "tokens.toml", "", {}
    for name, rights in TOKENS.items():
        token, found[name] = new_token(
            name, rights["roles"], tenant=rights.get("tenant"), tools=rights.get("tools", ())
        )
        document = with_token(document, token)
    path.write_text(document)
    return found | {"file": path}


@pytest.fixture
def ask(store, texts):
    """Send a request as the holder of a token, from another machine."""
    app = create_app(
        store, Settings(access_tokens_file=texts["file"], api_http="0.0.0.0:0"), registry=CollectorRegistry()
    )

    async def send(holder, method, path, **request):
        login = {"Authorization": f"Bearer {texts[holder]}"} if holder else {}
        transport = httpx.ASGITransport(app=app, client=("10.0.0.9", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://gear.example.com", headers=login) as http:
            return await http.request(method, path, **request)

    return send


@pytest.fixture
async def rows(store):
    await store_calls(
        store,
        [
            call("mcp:weather:get", tenant="acme", status="error", error_message="acme's own", execution_time_ms=9000),
            call("mcp:weather:get", tenant="globex", status="error", error_message=SECRET, execution_time_ms=9000),
            call(SECRET, tenant="globex", status="error", error_message=SECRET, execution_time_ms=9000),
        ],
    )


READS = (
    "/v1/tools?hours=24", "/v1/tools/mcp:weather:get?hours=24", "/v1/slow", "/v1/errors", "/v1/circuits", "/v1/circuits?history=1",
    "/v1/circuits/mcp:weather:get", "/v1/circuits/mcp:weather:get/history", "/v1/stored", "/v1/emitters", "/v1/retention", "/metrics",
)  # fmt: skip


@pytest.mark.parametrize("path", [*READS, "/v1/nothing"])
async def test_route_without_a_token_is_refused_and_with_one_of_another_role_forbidden(ask, path):
    assert (await ask(None, "GET", path)).status_code == 401
    assert (await ask("emitter", "GET", path)).status_code == 403
    assert (await ask("reader", "GET", path)).status_code in {200, 404}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_checks_need_no_token(ask, path):
    assert (await ask(None, "GET", path)).status_code == 200


async def test_only_an_administrator_for_all_tenants_may_change_the_retention(ask):
    for holder in (None, "reader", "emitter", "acme", "weather"):
        for method, request in (("PUT", {"json": {"days": 7, "tenant": "acme"}}), ("DELETE", {})):
            answer = await ask(holder, method, "/v1/retention", **request)
            assert answer.status_code == (401 if holder is None else 403), (holder, answer.text)
    assert (await ask("reader", "GET", "/v1/retention")).json()["tenants"] == {}
    assert (await ask("admin", "PUT", "/v1/retention", json={"days": 7, "tenant": "x"})).json()["tenants"] == {"x": 7}
    assert (await ask("admin", "DELETE", "/v1/retention?tenant=x")).json()["tenants"] == {}


@table("path", READS)
async def test_token_of_a_tenant_never_shows_a_row_of_another(ask, rows, path):
    assert SECRET not in (await ask("acme", "GET", path)).text


async def test_token_of_a_tenant_sees_its_own_rows_without_naming_the_tenant(ask, rows):
    tools = (await ask("acme", "GET", "/v1/tools?hours=24")).json()["tool_reports"]
    assert [each["tool_name"] for each in tools] == ["mcp:weather:get"]
    for path, key in (("/v1/errors", "errors"), ("/v1/slow", "executions")):
        for query in ("", "?tenant=acme"):
            found = (await ask("acme", "GET", path + query)).json()[key]
            assert {each["error_message"] for each in found} == {"acme's own"}
    one = (await ask("acme", "GET", "/v1/tools/mcp:weather:get?hours=24")).json()
    assert (one["stored_calls"], one["last_error"]) == (1, "acme's own")


@pytest.mark.parametrize("path", ["/v1/tools", "/v1/tools/mcp:weather:get", "/v1/slow", "/v1/errors"])
async def test_token_of_a_tenant_may_not_name_another(ask, path):
    for tenant in ("globex", "ACME", "acme ", "%00", "*"):
        answer = await ask("acme", "GET", f"{path}?tenant={tenant}")
        assert answer.status_code == 403
        assert "'acme' only" in answer.json()["detail"]


async def test_tool_that_only_another_tenant_calls_does_not_exist_for_a_tenant(ask, rows):
    assert (await ask("acme", "GET", f"/v1/tools/{SECRET}")).status_code == 404
    assert (await ask("reader", "GET", f"/v1/tools/{SECRET}")).status_code == 200


@pytest.mark.parametrize("holder", ["acme", "weather"])
async def test_restricted_token_may_not_use_sql(ask, holder):
    answer = await ask(holder, "POST", "/v1/sql", json={"query": "SELECT 1"})
    assert (answer.status_code, answer.json()["error"][:3]) == (403, "SQL")
    for path in ("/v1/stored", "/v1/retention"):
        assert (await ask(holder, "GET", path)).status_code == 403


async def test_reader_for_everything_may_use_sql(ask):
    assert (await ask("reader", "POST", "/v1/sql", json={"query": "SELECT 1"})).status_code == 200


async def test_token_of_some_tools_sees_these_alone(ask, rows):
    tools = (await ask("weather", "GET", "/v1/tools?hours=24")).json()
    assert [each["tool_name"] for each in tools["tool_reports"]] == ["mcp:weather:get"]
    assert sum(tools["summary"].values()) == 1
    for path in ("/v1/errors", "/v1/slow", "/v1/circuits?history=1"):
        separator = "&" if "?" in path else "?"
        assert (await ask("weather", "GET", path)).status_code == 403
        assert (await ask("weather", "GET", f"{path}{separator}tool={SECRET}")).status_code == 403
        assert (await ask("weather", "GET", f"{path}{separator}tool=mcp:weather:get")).status_code == 200
    for path in (f"/v1/tools/{SECRET}", f"/v1/circuits/{SECRET}", f"/v1/circuits/{SECRET}|user=a/history"):
        assert (await ask("weather", "GET", path)).status_code == 403


async def test_body_larger_than_the_limit_is_refused_before_it_is_read(ask):
    async def parts():
        for _ in range(30):
            yield b" " * 50_000

    headers = {"content-type": "application/json"}
    for content in (b" " * 1_000_001, parts()):
        answer = await ask("reader", "POST", "/v1/sql", content=content, headers=headers)
        assert answer.status_code == 413


@contextmanager
def served(store, settings):
    """The API in a thread, as the sink serves it."""
    tls = tls_options(settings)
    with listen("127.0.0.1:0", "SWITCHGEAR_API_HTTP") as listening:
        server = make_server(create_app(store, settings, registry=CollectorRegistry()), tls=tls)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
        thread.start()
        until(lambda: server.started)
        yield url_of(listening, "https" if tls else "http")
        server.stop()
        thread.join(ANSWER_S)
        assert not thread.is_alive()


def test_commands_send_the_token_over_tls_and_say_what_is_missing_without_it(
    store, texts, tmp_path, monkeypatch, capsys
):
    authority = Authority(tmp_path)
    certificate, key = authority.sign("server")
    settings = Settings(access_tokens_file=texts["file"], tls_certfile=certificate, tls_keyfile=key)
    with served(store, settings) as url:
        assert url.startswith("https://")
        monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
        monkeypatch.setenv("SWITCHGEAR_API_URL", url)
        assert run(["tools"]) == 1
        assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().err
        monkeypatch.setenv("SWITCHGEAR_API_CAFILE", str(authority.cafile))
        assert run(["tools"]) == 1
        assert "SWITCHGEAR_TOKEN" in capsys.readouterr().err
        monkeypatch.setenv("SWITCHGEAR_TOKEN", texts["emitter"])
        assert run(["tools"]) == 1
        assert "role read" in capsys.readouterr().err
        monkeypatch.setenv("SWITCHGEAR_TOKEN", texts["reader"] + "\n")
        for command in (["tools"], ["circuits"], ["errors"], ["slow"], ["sql", "SELECT 1"], ["retention", "show"]):
            assert run(command) == 0, capsys.readouterr().err


def test_client_that_is_slow_with_its_body_is_answered_408_and_closed(store, texts):
    with served(store, Settings(access_tokens_file=texts["file"])) as url:
        head = f"POST /v1/sql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {texts['reader']}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        assert answers(asked(int(url.rpartition(":")[2]), head.encode())) == [408]


def test_certificate_of_the_server_is_checked_by_its_name(store, texts, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.sign("server")
    with served(store, Settings(tls_certfile=certificate, tls_keyfile=key)) as url:
        context = ssl.create_default_context(cafile=authority.cafile)
        assert httpx.get(f"{url}/healthz", verify=context, timeout=ANSWER_S).status_code == 200
