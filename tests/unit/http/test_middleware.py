"""Who gets through, with which role, and what the others are answered."""

import asyncio
import json
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import httpx
import msgspec
import pytest
from structlog.testing import capture_logs

from switchgear_http.authenticator import Authenticator
from switchgear_http.cors import Origins
from switchgear_http.errors import KeysUnavailableError
from switchgear_http.hosts import KnownHosts
from switchgear_http.limits import Limits
from switchgear_http.middleware import AccessControl, principal_of
from switchgear_http.principal import Principal, Role
from switchgear_http.sessions import Sessions
from switchgear_http.token_source import FixedTokens
from switchgear_http.tokens import new_token, with_token

PAGE = "https://console.example.com"


class App:
    """Answers with the name of the client, after its ``gate`` if the path is /slow."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.running = 0

    async def __call__(self, scope, receive, send):
        self.running += 1
        if scope["path"] == "/slow":
            await self.gate.wait()
        self.running -= 1
        name = "nobody" if scope["path"] == "/healthz" else principal_of(scope).name
        await send({"type": "http.response.start", "status": 200, "headers": [(b"vary", b"Accept")]})
        await send({"type": "http.response.body", "body": name.encode()})


def role_of(scope):
    if scope["path"] == "/healthz":
        return None
    return Role.ADMIN if scope["method"] == "PUT" else Role.READ


def made(*, tokens=None, jwt=None, limits=None, origins=None, app=None, address="127.0.0.1:8620", **more):
    text = ""
    for token in tokens or ():
        text = with_token(text, token)
    sources = [] if tokens is None else [FixedTokens(text, "x")]
    return AccessControl(
        app or App(),
        authenticator=Authenticator(sources, jwt),
        hosts=KnownHosts(None, address, "SWITCHGEAR_X"),
        limits=limits or Limits(),
        origins=Origins(origins),
        **{"role_of": role_of} | more,
    )


def client(access, *, address="10.0.0.9", token=None, host="localhost"):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(app=access, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)


@pytest.fixture
def reader():
    return new_token("planner", [Role.READ])


async def test_without_tokens_this_machine_is_the_local_client_with_every_role():
    for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        async with client(made(), address=address) as http:
            assert (await http.get("/")).text == "local"
            assert (await http.put("/")).text == "local"


@pytest.mark.parametrize("address", ["10.0.0.9", "", "2001:db8::1", "0.0.0.0"])
async def test_without_tokens_other_machines_are_refused_with_what_to_do(address):
    async with client(made(address="0.0.0.0:1"), address=address, token="sgt_abcd_x") as http:
        answer = await http.get("/")
    assert answer.status_code == 403
    assert "SWITCHGEAR_ACCESS_TOKENS_FILE" in answer.json()["hint"]


async def test_valid_token_gets_through_with_its_client(reader):
    token, text = reader
    async with client(made(tokens=[token]), token=text) as http:
        assert (await http.get("/")).text == "planner"


async def test_scheme_of_the_token_may_have_any_case(reader):
    token, text = reader
    async with client(made(tokens=[token])) as http:
        assert (await http.get("/", headers={"authorization": f"bearer  {text}"})).text == "planner"


@pytest.mark.parametrize("address", ["10.0.0.9", "127.0.0.1"])
async def test_request_without_a_token_is_refused_where_tokens_are_configured(reader, address):
    async with client(made(tokens=[reader[0]]), address=address) as http:
        answer = await http.get("/")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="switchgear"'
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Unauthorized",
        "status": 401,
        "detail": "This server needs a token.",
        "hint": answer.json()["hint"],
    }


async def test_empty_list_of_tokens_lets_nobody_in():
    async with client(made(tokens=[]), address="127.0.0.1") as http:
        assert (await http.get("/")).status_code == 401


async def test_wrong_expired_and_revoked_tokens_are_refused_and_never_logged(reader):
    token, text = reader
    past = datetime.now(UTC) - timedelta(seconds=1)
    wrong = text[:-1] + ("a" if text[-1] != "a" else "b")
    with capture_logs() as logs:
        for stored, given in (
            (token, wrong),
            (token, "sgt_" + "a" * 60),
            (token, ""),
            (token, "a.b.c"),
            (token, "\xe4\xf6"),
            (msgspec.structs.replace(token, expires_at=past), text),
            (msgspec.structs.replace(token, revoked_at=past), text),
        ):
            async with client(made(tokens=[stored])) as http:
                answer = await http.get("/", headers=[(b"authorization", f"Bearer {given}".encode("latin-1"))])
            assert answer.status_code == 401, given
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
            assert text not in answer.text
    assert len(logs) == 7
    assert not any(text[16:] in str(each) or wrong[16:] in str(each) for each in logs)


@pytest.mark.parametrize(
    "given", [["Basic YTpi"], ["Bearer"], ["{valid}"], ["Bearer {valid}", "Bearer {valid}"], ["Bearer {valid} x"]]
)
async def test_header_that_is_not_one_bearer_token_is_refused(reader, given):
    token, text = reader
    headers = [("authorization", each.replace("{valid}", text)) for each in given]
    async with client(made(tokens=[token])) as http:
        assert (await http.get("/", headers=headers)).status_code == 401


async def test_token_without_the_needed_role_is_refused_with_the_role(reader):
    token, text = reader
    async with client(made(tokens=[token]), token=text) as http:
        answer = await http.put("/")
    assert answer.status_code == 403
    assert answer.json()["detail"] == "This needs the role admin. The token has: read."


async def test_line_feed_at_the_end_of_a_path_which_routes_let_through_changes_no_role(reader):
    token, text = reader
    roles = {"/admin": Role.ADMIN}
    access = made(tokens=[token], role_of=lambda scope: roles.get(scope["path"], Role.READ))
    async with client(access, token=text) as http:
        for path in ("/admin", "/admin%0A"):
            assert (await http.get(path)).status_code == 403
        assert (await http.get("/%0A")).status_code == 200


@pytest.mark.parametrize(("event", "renewed"), [("end", False), ("replace", False), (None, True)])
async def test_late_answer_brings_no_cookie_back_after_a_logout_or_another_login(reader, event, renewed):
    token, _ = reader
    moment = [1000.0]
    sessions, app = Sessions(clock=lambda: moment[0]), App()
    session = sessions.begin(token.principal(), "token")
    cookie = sessions.cookie(session, secure=False).partition(";")[0]
    moment[0] += 61
    async with client(made(tokens=[token], app=app, sessions=sessions)) as http, asyncio.TaskGroup() as tasks:
        slow = tasks.create_task(http.get("/slow", headers={"cookie": cookie}))
        while not app.running:  # noqa: ASYNC110 - a counter of the application
            await asyncio.sleep(0.001)
        if event is not None:
            getattr(sessions, event)(session)
        app.gate.set()
    assert slow.result().status_code == 200
    assert ("set-cookie" in slow.result().headers) is renewed


async def test_health_check_needs_no_token_and_has_no_client(reader):
    async with client(made(tokens=[reader[0]])) as http:
        assert (await http.get("/healthz")).text == "nobody"


@pytest.mark.slow
async def test_twenty_thousand_wrong_tokens_change_nothing_and_slow_nobody_else(reader):
    token, text = reader
    access = made(tokens=[token])
    statuses: dict[int, int] = {}
    headers = [[b"host", b"localhost"], [b"authorization", b""]]

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            statuses[message["status"]] = statuses.get(message["status"], 0) + 1

    with capture_logs() as logs:
        for number in range(20_000):
            headers[1][1] = f"Bearer sgt_abcdefghij_{number:043d}".encode()
            scope = {
                "type": "http", "method": "GET", "path": "/", "headers": headers,
                "client": (f"10.0.{number >> 8 & 255}.{number & 255}", 1),
            }  # fmt: skip
            await access(scope, receive, send)
    assert sum(statuses.values()) == 20_000
    assert set(statuses) <= {401, 429}
    assert len(access._failed) <= 4096
    assert len(logs) < 1000
    assert len(access._by_address) == len(access._by_token) == 0
    assert not any("0000000000" in str(each) for each in logs)
    async with client(access, token=text) as http:
        assert (await http.get("/")).status_code == 200


async def test_failed_logins_of_an_address_are_slowed_down_but_a_valid_token_from_there_is_not(reader):
    token, text = reader
    access = made(tokens=[token], limits=Limits(failed_logins=3, login_every_s=60))
    async with client(access, token="sgt_abcd_" + "x" * 43) as http:
        answers = [await http.get("/") for _ in range(5)]
    assert [each.status_code for each in answers] == [401, 401, 401, 429, 429]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60
    async with client(access, token=text) as http:
        assert (await http.get("/")).status_code == 200
    async with client(access, token="sgt_abcd_" + "x" * 43, address="10.0.0.10") as http:
        assert (await http.get("/")).status_code == 401


@pytest.mark.parametrize(
    ("limits", "other"), [(Limits(requests_per_token=2), 200), (Limits(requests_per_address=2), 429)]
)
async def test_requests_in_progress_are_limited_by_token_and_by_address(reader, limits, other):
    token, text = reader
    second, another = new_token("b", [Role.READ])
    app = App()
    access = made(tokens=[token, second], limits=limits, app=app)
    async with client(access, token=text) as http, asyncio.TaskGroup() as tasks:
        for _ in range(2):
            tasks.create_task(http.get("/slow"))
        while app.running < 2:  # noqa: ASYNC110 - a counter of the application
            await asyncio.sleep(0.001)
        refused = await http.get("/")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert (await http.get("/", headers={"authorization": f"Bearer {another}"})).status_code == other
        assert (await http.get("/healthz")).status_code == 200
        app.gate.set()
    async with client(access, token=text) as http:
        assert (await http.get("/")).status_code == 200


async def test_local_client_has_no_limit_of_its_own():
    app = App()
    access = made(limits=Limits(1, 1), app=app)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        http = await stack.enter_async_context(client(access, address="127.0.0.1"))
        for _ in range(3):
            tasks.create_task(http.get("/slow"))
        while app.running < 3:  # noqa: ASYNC110 - a counter of the application
            await asyncio.sleep(0.001)
        app.gate.set()


async def test_unknown_host_name_is_refused_before_the_login(reader):
    token, text = reader
    access = made(tokens=[token])
    async with client(access, host="rebound.example", address="127.0.0.1", token=text) as http:
        for path in ("/", "/healthz"):
            answer = await http.get(path)
            assert answer.status_code == 421
            assert "SWITCHGEAR_X" in answer.json()["hint"]


async def test_no_page_may_read_answers_unless_its_origin_is_named(reader):
    token, text = reader
    preflight = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization",
    }
    async with client(made(tokens=[token]), token=text) as http:
        for answer in (await http.get("/", headers={"Origin": PAGE}), await http.options("/", headers=preflight)):
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_page_of_a_named_origin_may_ask_and_read_without_more_rights(reader):
    token, text = reader
    access = made(tokens=[token], origins=f"{PAGE}, http://localhost:3000")
    preflight = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
    async with client(access) as http:
        answer = await http.options("/", headers=preflight)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (204, PAGE)
        assert "Authorization" in answer.headers["access-control-allow-headers"]
        assert "PUT" not in answer.headers["access-control-allow-methods"]
        assert "access-control-allow-credentials" not in answer.headers
        refused = await http.get("/", headers={"Origin": PAGE})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)
        answer = await http.get("/", headers={"Origin": PAGE, "Authorization": f"Bearer {text}"})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, PAGE)
        assert answer.headers["vary"] == "Accept, Origin"


@pytest.mark.parametrize(
    "origin",
    ["https://console.example.com.evil.example", "http://console.example.com", "null", PAGE.upper(), PAGE + ":444", ""],
)
async def test_page_of_another_origin_gets_no_permission_beside_a_named_one(reader, origin):
    async with client(made(tokens=[reader[0]], origins=PAGE)) as http:
        for answer in (
            await http.options("/", headers={"Origin": origin, "Access-Control-Request-Method": "GET"}),
            await http.get("/", headers={"Origin": origin}),
        ):
            assert answer.status_code == 401
            assert "access-control-allow-origin" not in answer.headers
            assert answer.headers["vary"] == "Origin"


async def test_jwt_is_accepted_beside_tokens_and_its_issuer_may_be_away(reader):
    token, text = reader

    async def jwt(credential):
        if credential == "later":
            raise KeysUnavailableError("The keys can't be read now.")
        return Principal("ada", frozenset({Role.READ}))

    access = made(tokens=[token], jwt=jwt)
    for given, name in ((text, "planner"), ("a.b.c", "ada")):
        async with client(access, token=given) as http:
            assert (await http.get("/")).text == name
    async with client(access, token="later") as http:
        answer = await http.get("/")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")


async def test_error_of_the_application_is_not_hidden(reader):
    async def broken(scope, receive, send):
        raise ZeroDivisionError

    async with client(made(app=broken), address="127.0.0.1") as http:
        with pytest.raises(ZeroDivisionError):
            await http.get("/")


async def test_websocket_is_closed():
    sent = []

    async def send(message):
        sent.append(message)

    await made()({"type": "websocket", "path": "/", "headers": []}, None, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_control_characters_of_a_name_are_escaped_in_an_answer():
    async with client(made(), address="127.0.0.1") as http:
        answer = await http.get("/", headers=[(b"host", b"a\xc2\x9b31m.example")])
    assert answer.status_code == 421
    assert answer.text.isprintable()
    assert "31m.example" in json.loads(answer.content)["detail"]


async def test_one_tokens_streams_have_a_limit_and_leave_those_of_others():
    (acme, acme_text), (globex, globex_text) = (new_token(name, [Role.READ]) for name in ("acme", "globex"))
    app = App()
    is_stream, limits = (lambda scope: scope["path"] == "/slow"), Limits(streams_per_token=2)
    access = made(tokens=[acme, globex], app=app, limits=limits, is_stream=is_stream)
    async with client(access, token=acme_text) as one, client(access, token=globex_text) as other:
        streams = [asyncio.create_task(each.get("/slow")) for each in (one, one, other, other)]
        while app.running < 4:  # noqa: ASYNC110 - the tasks run in this loop
            await asyncio.sleep(0)
        refused = await one.get("/slow")
        assert (refused.status_code, refused.json()["detail"]) == (429, "This token has 2 streams.")
        assert (await one.get("/")).status_code == 200, "streams are no requests in progress"
        app.gate.set()
        assert {(await each).status_code for each in streams} == {200}
