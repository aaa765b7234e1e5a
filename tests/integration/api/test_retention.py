"""`/v1/retention` over the real engine: who may change it, and what is changed."""

import asyncio
import time

import httpx
import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_schemas.settings import Settings
from tests.support.engine import call, store_calls
from tests.support.limits import HAPPEN_S
from tests.support.table import table

HERE = ("127.0.0.1", 50_000)
DAYS = "SELECT default_expression FROM system.columns WHERE table = 'tool_metrics' AND name = 'retention_days'"


def asking(store, *, client=HERE, host="localhost", **settings):
    app = create_app(store, Settings(**settings), registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=client)
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}:8620")


@pytest.fixture
async def api(store):
    async with asking(store) as client:
        yield client
        rules = (await client.get("/v1/retention")).json()
        for tenant in rules["tenants"]:
            await client.delete("/v1/retention", params={"tenant": tenant})
        await client.delete("/v1/retention")


async def value(store, query):
    return (await store.query(query)).result_rows[0][0]


async def until(store, query, wanted):
    deadline = time.monotonic() + HAPPEN_S
    while (found := await value(store, query)) != wanted:
        assert time.monotonic() < deadline, f"{query}: {found}, not {wanted}"
        await asyncio.sleep(0.05)


async def test_the_days_are_changed_in_the_store_and_named_in_the_answer(api, store):
    before = (await api.get("/v1/retention")).json()
    assert before == {
        "default_days": 30,
        "default_from": "the setting retention_days",
        "tenants": {},
        "store": str(store.location),
    }
    answer = await api.put("/v1/retention", json={"days": 90})
    assert answer.status_code == 200, answer.text
    assert answer.json() == before | {"default_days": 90, "default_from": "retention set"}
    assert await value(store, DAYS) == "90"
    answer = await api.put("/v1/retention", json={"days": 7, "tenant": "it's", "new_rows_only": True})
    assert answer.json()["tenants"] == {"it's": 7}
    assert (await api.get("/v1/retention")).json() == answer.json()
    answer = await api.delete("/v1/retention", params={"tenant": "it's", "new_rows_only": "1"})
    assert answer.json()["tenants"] == {}
    assert (await api.delete("/v1/retention")).json() == before
    assert await value(store, DAYS) == "30"


async def test_stored_rows_are_changed_too_unless_only_new_ones_are_meant(api, store):
    await store_calls(store, [call("a", tenant="acme"), call("a", tenant="acme", status="error"), call("a")])
    acme = "SELECT groupUniqArray(retention_days) FROM {} WHERE tenant = 'acme'"
    for days in (5, 6):  # the second comes while the first is still being applied
        assert (await api.put("/v1/retention", json={"days": days, "tenant": "acme"})).status_code == 200
    for name in ("tool_metrics", "tool_errors"):
        await until(store, acme.format(name), [6])
    assert await value(store, "SELECT groupUniqArray(retention_days) FROM tool_metrics WHERE tenant = ''") == [30]
    await api.put("/v1/retention", json={"days": 8, "tenant": "acme", "new_rows_only": True})
    await store_calls(store, [call("a", tenant="acme")])
    assert await value(
        store, "SELECT arraySort(groupUniqArray(retention_days)) FROM tool_metrics WHERE tenant = 'acme'"
    ) == [6, 8]


async def test_rows_without_a_tenant_have_a_rule_of_their_own(api):
    assert (await api.put("/v1/retention", json={"days": 9, "tenant": ""})).json()["tenants"] == {"": 9}
    assert (await api.delete("/v1/retention")).json()["tenants"] == {"": 9}
    assert (await api.delete("/v1/retention?tenant=")).json()["tenants"] == {}


async def test_changes_at_once_are_all_kept(api, store):
    answers = await asyncio.gather(
        *(api.put("/v1/retention", json={"days": 10 + number, "tenant": f"t{number}"}) for number in range(4))
    )
    assert {answer.status_code for answer in answers} == {200}
    assert (await api.get("/v1/retention")).json()["tenants"] == {f"t{number}": 10 + number for number in range(4)}
    assert "['t0', 't1', 't2', 't3'], [10, 11, 12, 13]" in await value(store, DAYS)


@table(
    ("body", "word"),
    [
        ({"days": 0}, "from 1 to 3650 days, got 0"),
        ({"days": 3651}, "got 3651"),
        ({"days": "7"}, "`$.days`"),
        ({"days": None}, "`$.days`"),
        ({"days": 1e30}, "`$.days`"),
        ({"days": 7, "tenant": 5}, "`$.tenant`"),
        ({"days": 7, "tenant": "x" * 1000}, "tenant"),
        ({"days": 7, "tenants": "acme"}, "tenants"),
        ({}, "days"),
        ([], "object"),
    ],
)
async def test_invalid_body_of_a_retention_change_names_the_field(api, store, body, word):
    answer = await api.put("/v1/retention", json=body)
    assert answer.status_code == 400
    assert word in answer.json()["error"]
    assert await value(store, DAYS) == "30"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_body_that_a_web_page_may_send_to_another_site_is_refused(api, store, kind):
    answer = await api.put("/v1/retention", content=b'{"days": 1}', headers={"content-type": kind})
    assert answer.status_code == 400
    assert "application/json" in answer.json()["error"]
    assert await value(store, DAYS) == "30"


async def test_no_web_page_of_another_site_gets_consent(api):
    preflight = {"origin": "http://evil.example", "access-control-request-method": "PUT"}
    answer = await api.options("/v1/retention", headers=preflight)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]
    answer = await api.get("/v1/retention", headers={"origin": "http://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


@table(
    ("client", "host", "allowed"),
    [
        (("127.0.0.1", 1), "localhost", True),
        (("::1", 1), "[::1]", True),
        (("::ffff:127.0.0.1", 1), "127.0.0.1", True),
        (("10.0.0.9", 1), "10.0.0.5", False),
        (("10.0.0.9", 1), "localhost", False),
        (("127.0.0.1", 1), "evil.example", False),
        (("127.0.0.1", 1), "api.example", False),
    ],
)
async def test_without_tokens_only_the_apis_own_machine_may_change_the_retention(store, client, host, allowed):
    async with asking(store, client=client, host=host, api_http="0.0.0.0:8620") as api:
        assert (await api.get("/v1/retention")).status_code == (200 if client[0] != "10.0.0.9" else 403)
        for answer in (await api.put("/v1/retention", json={"days": 30}), await api.delete("/v1/retention")):
            assert answer.status_code == (200 if allowed else 403), answer.text
            if not allowed:
                assert "--clickhouse" in answer.json()["hint"] or client[0] == "10.0.0.9"


async def test_retention_change_under_a_read_only_clickhouse_user_is_forbidden_with_a_hint(api, store, monkeypatch):
    monkeypatch.setattr(store, "_write", store.client_pool("reader", 1, {"readonly": 1}))
    answer = await api.put("/v1/retention", json={"days": 3})
    assert answer.status_code == 403
    assert "may not change tables" in answer.json()["error"]
    assert "--clickhouse" in answer.json()["hint"]
    monkeypatch.undo()
    assert (await api.get("/v1/retention")).json()["default_days"] == 30


async def test_unknown_parameters_and_methods_of_the_retention_route_are_named(api):
    assert "days" in (await api.delete("/v1/retention?days=3")).json()["error"]
    assert (await api.get("/v1/retention?tenant=a")).status_code == 400
    assert (await api.post("/v1/retention", json={})).status_code == 405


async def test_changes_are_recorded_with_who_made_them_and_what_came_of_them(api):
    assert (await api.put("/v1/retention", json={"days": 7, "tenant": "acme"})).status_code == 200
    assert (await api.put("/v1/retention", json={"days": 0})).status_code == 400
    assert (await api.delete("/v1/retention?tenant=acme")).status_code == 200
    items = (await api.get("/v1/audit")).json()["items"]
    assert [(each["action"], each["actor"], each["subject"], each["outcome"]) for each in items] == [
        ("set_retention", "local", "retention of acme", "applied"),
        ("set_retention", "local", "retention", "failed"),
        ("set_retention", "local", "retention of acme", "applied"),
    ]
    assert [each["after"] and each["after"]["tenants"] for each in items] == [{}, None, {"acme": 7}]
    assert not any(each["undoable"] for each in items)


@pytest.mark.parametrize("path", ["/v1/retention", "/v1/retention%0A"])
async def test_token_of_an_operator_can_not_change_the_retention_however_the_path_is_written(store, tmp_path, path):
    token, text = new_token("ann", [Role.OPERATE])
    (tmp_path / "tokens.toml").write_text(with_token("", token))
    async with asking(store, access_tokens_file=tmp_path / "tokens.toml") as api:
        headers = {"authorization": f"Bearer {text}"}
        for method in ("PUT", "DELETE"):
            assert (await api.request(method, path, json={"days": 1}, headers=headers)).status_code == 403
