"""Logins of browsers: by token and with a real OpenID Connect provider, and what an attacker tries with them."""

import asyncio
import hashlib
import json
import secrets
import socket
import threading
import time
from base64 import urlsafe_b64encode
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route

from switchgear_api.app import create_app
from switchgear_http.principal import Role
from switchgear_http.sessions import Sessions
from switchgear_http.tokens import new_token, with_revoked, with_token
from switchgear_schemas.settings import Settings
from tests.support.engine import emptied
from tests.support.limits import ANSWER_S
from tests.support.waiting import until

HOST = "http://gear.example.com"


class Provider:
    """An OpenID Connect provider: discovery, keys, authorization code with PKCE, signed id tokens."""

    def __init__(self):
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.codes, self.claims, self.url, self.nonce = {}, {"sub": "ada", "roles": ["operate"]}, "", None
        self.status = None
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        self.jwks = {"keys": [public | {"kid": "k1", "use": "sig", "alg": "RS256"}]}

    async def configuration(self, _request):
        return JSONResponse({"issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token",
                             "jwks_uri": f"{self.url}/jwks"})  # fmt: skip

    async def keys(self, _request):
        return JSONResponse(self.jwks)

    async def authorize(self, request):
        given = request.query_params
        assert (given["response_type"], given["client_id"], given["code_challenge_method"]) == (
            "code",
            "console",
            "S256",
        )
        assert "openid" in given["scope"]
        code = secrets.token_urlsafe(8)
        self.codes[code] = dict(given)
        return RedirectResponse(f"{given['redirect_uri']}?code={code}&state={given['state']}", 303)

    async def token(self, request):
        if self.status is not None:
            return JSONResponse({}, self.status)
        given = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        asked = self.codes.pop(given["code"], None)
        challenge = urlsafe_b64encode(hashlib.sha256(given["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if asked is None or challenge != asked["code_challenge"] or given["redirect_uri"] != asked["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": "console",
            "iat": now,
            "exp": now + 300,
            "nonce": self.nonce or asked["nonce"],
        } | self.claims
        token = jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": "k1"})
        return JSONResponse({"access_token": "unused", "token_type": "Bearer", "id_token": token})


@pytest.fixture(scope="module")
def provider():
    found = Provider()
    routes = [
        Route("/.well-known/openid-configuration", found.configuration), Route("/jwks", found.keys),
        Route("/authorize", found.authorize), Route("/token", found.token, methods=["POST"]),
    ]  # fmt: skip
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        found.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
        thread.start()
        until(lambda: server.started)
        yield found
        server.should_exit = True
        thread.join(ANSWER_S)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    path, document, texts = tmp_path_factory.mktemp("login") / "tokens.toml", "", {}
    for name, role in {
        "viewer": Role.READ,
        "operator": Role.OPERATE,
        "leaver": Role.OPERATE,
        "emitter": Role.EMIT,
    }.items():
        token, texts[name] = new_token(name, [role])
        texts[f"{name} id"] = token.id
        document = with_token(document, token)
    path.write_text(document)
    return texts | {"file": path}


@pytest.fixture(scope="module")
def app(engine, tokens, provider):
    settings = Settings(
        access_tokens_file=tokens["file"],
        api_http="0.0.0.0:0",
        access_jwt_issuer=provider.url,
        access_oidc_client_id="console",
        access_session_secret="s" * 40,
    )
    return create_app(emptied(engine), settings, registry=CollectorRegistry())


@pytest.fixture
async def browser(app):
    """A client with cookies, on another machine."""
    transport = httpx.ASGITransport(app=app, client=("10.0.0.9", 1))
    async with httpx.AsyncClient(transport=transport, base_url=HOST) as found:
        yield found


async def log_in(browser, tokens, who="operator"):
    answer = await browser.post("/v1/session", json={"token": tokens[who]})
    assert answer.status_code == 200, answer.text
    return answer.json()


COMMAND = {"command": "force_open", "reason": "drill", "dry_run": True}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/console/now", "/v1/console/live", "/v1/console/tool/x", "/v1/console/timeline", "/v1/console/system", "/v1/calls",
        "/v1/console/known",
        "/v1/sessions/s/calls", "/v1/audit", "/v1/policies", "/v1/dead-letters", "/v1/dead-letters/0-1", "/v1/session", "/openapi.json",
    ],
)  # fmt: skip
async def test_every_read_of_the_console_needs_a_login(browser, path):
    answer = await browser.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")


async def test_login_by_token_sets_a_cookie_that_scripts_cannot_read_and_other_sites_do_not_send(browser, tokens):
    answer = await browser.post("/v1/session", json={"token": tokens["operator"]})
    cookie = answer.headers["set-cookie"]
    assert all(part in cookie for part in ("switchgear_session=", "HttpOnly", "SameSite=Lax", "Path=/"))
    assert tokens["operator"] not in cookie
    assert answer.json()["roles"] == ["operate", "read"] or set(answer.json()["roles"]) == {"operate", "read"}
    who = (await browser.get("/v1/session")).json()
    assert (who["name"], who["login"], who["csrf"]) == ("operator", "token", answer.json()["csrf"])
    assert (await browser.get("/v1/audit")).status_code == 200


async def test_over_tls_the_cookie_belongs_to_this_host_alone(app, tokens):
    transport = httpx.ASGITransport(app=app, client=("10.0.0.9", 1))
    async with httpx.AsyncClient(transport=transport, base_url="https://gear.example.com") as http:
        cookie = (await http.post("/v1/session", json={"token": tokens["viewer"]})).headers["set-cookie"]
        assert cookie.startswith("__Host-switchgear=")
        assert "; Secure" in cookie
        assert (await http.get("/v1/session")).json()["name"] == "viewer"


async def test_wrong_token_gives_no_session_and_many_are_slowed_down(app):
    transport = httpx.ASGITransport(app=app, client=("10.9.9.9", 1))
    async with httpx.AsyncClient(transport=transport, base_url=HOST) as http:
        answers = [await http.post("/v1/session", json={"token": "sgt_wrong"}) for _ in range(30)]
    assert answers[0].status_code == 401
    assert answers[-1].status_code == 429
    assert not any("set-cookie" in each.headers for each in answers)


async def test_viewer_cannot_act_and_an_emitter_cannot_look(browser, tokens):
    csrf = (await log_in(browser, tokens, "viewer"))["csrf"]
    headers = {"x-csrf-token": csrf}
    for method, path, body in (
        ("POST", "/v1/circuits/x/commands", COMMAND), ("PUT", "/v1/policies/x", {"policy": {}, "reason": "x"}),
        ("POST", "/v1/dead-letters/0-1/retry", {}), ("POST", "/v1/audit/x/undo", {"reason": "x"}),
    ):  # fmt: skip
        answer = await browser.request(method, path, json=body, headers=headers)
        assert answer.status_code == 403, (path, answer.text)
        assert "operate" in answer.json()["detail"]
    await log_in(browser, tokens, "emitter")
    assert (await browser.get("/v1/console/now")).status_code == 403


async def test_cookie_alone_changes_nothing_without_the_csrf_token(browser, tokens):
    csrf = (await log_in(browser, tokens))["csrf"]
    path = "/v1/circuits/x/commands"
    assert (await browser.post(path, json=COMMAND)).status_code == 403
    assert (await browser.post(path, json=COMMAND, headers={"x-csrf-token": "guess"})).status_code == 403
    assert (await browser.request("DELETE", "/v1/session")).status_code == 403
    assert (await browser.post(path, json=COMMAND, headers={"x-csrf-token": csrf})).status_code == 200


async def test_bearer_token_needs_no_csrf_token(browser, tokens):
    headers = {"authorization": f"Bearer {tokens['operator']}"}
    assert (await browser.post("/v1/circuits/x/commands", json=COMMAND, headers=headers)).status_code == 200


async def test_every_login_has_a_new_session_so_a_planted_cookie_gains_nothing(browser, tokens):
    first = await log_in(browser, tokens, "viewer")
    planted = browser.cookies["switchgear_session"]
    second = await log_in(browser, tokens, "operator")
    assert browser.cookies["switchgear_session"] != planted
    assert first["csrf"] != second["csrf"]
    browser.cookies.clear()
    browser.cookies.set("switchgear_session", planted)
    assert (await browser.get("/v1/session")).json()["name"] == "viewer"


async def test_cookie_that_was_changed_or_signed_elsewhere_is_no_login(browser, tokens):
    await log_in(browser, tokens)
    good = browser.cookies["switchgear_session"]
    for bad in (good[:-2] + ("AA" if good[-2:] != "AA" else "BB"), "x" + good, good + "x" * 5000):
        browser.cookies.clear()
        assert (await browser.get("/v1/audit", headers={"cookie": f"switchgear_session={bad}"})).status_code == 401


async def test_logout_ends_the_session_also_for_a_copy_of_its_cookie(browser, tokens):
    csrf = (await log_in(browser, tokens))["csrf"]
    copy = browser.cookies["switchgear_session"]
    assert (await browser.request("DELETE", "/v1/session", headers={"x-csrf-token": csrf})).status_code == 204
    assert (await browser.get("/v1/audit")).status_code == 401
    assert (await browser.get("/v1/audit", headers={"cookie": f"switchgear_session={copy}"})).status_code == 401


async def test_revoked_token_ends_the_sessions_that_it_began(browser, tokens, monkeypatch):
    await log_in(browser, tokens, "leaver")
    assert (await browser.get("/v1/audit")).status_code == 200
    from datetime import UTC, datetime  # noqa: PLC0415

    file = tokens["file"]
    new = file.with_suffix(".new")
    new.write_text(with_revoked(file.read_text(), tokens["leaver id"], datetime.now(UTC)))
    new.replace(file)
    for _ in range(100):
        if (await browser.get("/v1/audit")).status_code == 401:
            return
        await asyncio.sleep(0.1)
    pytest.fail("the session outlived its token")


async def test_login_with_an_issuer_comes_back_to_the_page_as_the_issuers_subject(browser, provider):
    begun = await browser.get("/login/oidc?next=/tool/mcp:x%3Fhours=6")
    assert begun.status_code == 303
    asked = parse_qs(urlsplit(begun.headers["location"]).query)
    assert asked["redirect_uri"] == [f"{HOST}/login/oidc/callback"]
    assert len(asked["code_challenge"][0]) == 43
    async with httpx.AsyncClient() as outside:
        back = (await outside.get(begun.headers["location"])).headers["location"]
    ended = await browser.get(back)
    assert (ended.status_code, ended.headers["location"]) == (303, "/tool/mcp:x?hours=6")
    who = (await browser.get("/v1/session")).json()
    assert (who["name"], who["login"]) == ("ada", "oidc")
    assert set(who["roles"]) == {"read", "operate"}


async def round_trip(browser, next_path="/"):
    begun = await browser.get("/login/oidc", params={"next": next_path})
    async with httpx.AsyncClient() as outside:
        return (await outside.get(begun.headers["location"])).headers["location"]


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", "javascript:alert(1)", "evil", "/login/oidc"]
)  # fmt: skip
async def test_login_never_sends_a_browser_to_another_site(browser, provider, elsewhere):
    ended = await browser.get(await round_trip(browser, elsewhere))
    assert (ended.status_code, ended.headers["location"]) == (303, "/")


async def test_answer_of_an_issuer_for_another_browser_is_refused(app, browser, provider):
    back = await round_trip(browser)
    transport = httpx.ASGITransport(app=app, client=("10.0.0.8", 1))
    async with httpx.AsyncClient(transport=transport, base_url=HOST) as victim:
        assert (await victim.get(back)).status_code == 400  # no login is under way there
        await victim.get("/login/oidc")
        assert (await victim.get(back)).status_code == 401  # another state
        assert "switchgear_session" not in victim.cookies


async def test_code_works_once_and_only_with_the_right_nonce(browser, provider):
    back = await round_trip(browser)
    assert (await browser.get(back)).status_code == 303
    assert (await browser.get(back)).status_code in {400, 401}
    provider.nonce = "of another login"
    try:
        answer = await browser.get(await round_trip(browser))
    finally:
        provider.nonce = None
    assert (answer.status_code, answer.json()["detail"]) == (401, "The JWT is not of this login.")


async def test_subject_without_a_role_learns_which_claim_is_missing(browser, provider):
    provider.claims = {"sub": "guest"}
    try:
        answer = await browser.get(await round_trip(browser))
    finally:
        provider.claims = {"sub": "ada", "roles": ["operate"]}
    assert answer.status_code == 403
    assert "access_jwt_roles_claim" in answer.json()["hint"]


@pytest.mark.parametrize("path", ["/", "/v1/session", "/healthz", "/v1/console/now"])
async def test_no_page_may_be_framed_or_run_foreign_scripts(browser, path):
    headers = (await browser.get(path)).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]


async def test_session_ends_an_hour_after_its_last_request_and_eight_hours_after_the_login(engine, tokens):
    sessions, moment = Sessions("s" * 40), [time.time()]
    sessions._clock = lambda: moment[0]
    settings = Settings(access_tokens_file=tokens["file"], api_http="0.0.0.0:0", access_session_secret="s" * 40)
    app = create_app(engine, settings, registry=CollectorRegistry(), sessions=sessions)
    transport = httpx.ASGITransport(app=app, client=("10.0.0.9", 1))
    async with httpx.AsyncClient(transport=transport, base_url=HOST) as http:
        await log_in(http, tokens)
        for _ in range(9):  # 50 minutes apart, each request renews the cookie
            moment[0] += 3000
            answer = await http.get("/v1/audit")
            assert answer.status_code == 200
            assert "set-cookie" in answer.headers
        moment[0] += 3000  # 8 h 20 min after the login
        assert (await http.get("/v1/audit")).status_code == 401
        await log_in(http, tokens)
        moment[0] += 3601
        assert (await http.get("/v1/audit")).status_code == 401


async def test_late_answer_to_the_user_before_does_not_bring_back_that_users_session(engine, tokens, monkeypatch):
    moment, gate, asked = [time.time()], asyncio.Event(), asyncio.Event()
    settings = Settings(access_tokens_file=tokens["file"], api_http="0.0.0.0:0", access_session_secret="s" * 40)
    sessions = Sessions("s" * 40, clock=lambda: moment[0])
    app = create_app(engine, settings, registry=CollectorRegistry(), sessions=sessions)
    really = type(engine).query

    async def slow(self, *given, **more):
        asked.set()
        await gate.wait()
        return await really(self, *given, **more)

    transport = httpx.ASGITransport(app=app, client=("10.0.0.9", 1))
    async with httpx.AsyncClient(transport=transport, base_url=HOST) as http:
        await log_in(http, tokens, "viewer")
        moment[0] += 61
        monkeypatch.setattr(type(engine), "query", slow)
        late = asyncio.create_task(http.get("/v1/stored"))
        await asked.wait()
        csrf = (await log_in(http, tokens, "operator"))["csrf"]
        gate.set()
        assert "set-cookie" not in (await late).headers
        assert (await http.get("/v1/session")).json()["name"] == "operator"
        gate.clear()
        asked.clear()
        moment[0] += 61
        late = asyncio.create_task(http.get("/v1/stored"))
        await asked.wait()
        assert (await http.request("DELETE", "/v1/session", headers={"x-csrf-token": csrf})).status_code == 204
        gate.set()
        assert "set-cookie" not in (await late).headers
        assert "switchgear_session" not in http.cookies


@pytest.mark.parametrize("status", [500, 503])
async def test_issuer_that_fails_at_the_end_of_a_login_is_unavailable(app, browser, provider, status, monkeypatch):
    back = await round_trip(browser)
    provider.status = status
    try:
        answer = await browser.get(back)
    finally:
        provider.status = None
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert answer.json()["detail"] == "The issuer does not answer."


async def test_token_for_two_hundred_tools_stays_logged_in(engine, tmp_path):
    tools = [f"mcp:{secrets.token_hex(6)}:{secrets.token_hex(6)}" for _ in range(200)]
    token, text = new_token("many", [Role.OPERATE], tools=tools)
    (tmp_path / "tokens.toml").write_text(with_token("", token))
    settings = Settings(access_tokens_file=tmp_path / "tokens.toml", api_http="0.0.0.0:0")
    app = create_app(engine, settings, registry=CollectorRegistry())
    transport = httpx.ASGITransport(app=app, client=("10.0.0.9", 1))
    async with httpx.AsyncClient(transport=transport, base_url=HOST) as http:
        answer = await http.post("/v1/session", json={"token": text})
        assert len(answer.headers["set-cookie"]) < 1000
        assert (await http.get("/v1/session")).json()["tools"] == tools
