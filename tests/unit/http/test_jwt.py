"""JWTs of an issuer: what is accepted, what is refused, and how often its keys are fetched."""

import asyncio
import base64
import hmac
import http.server
import json
import time

import jwt as pyjwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from structlog.testing import capture_logs

from switchgear_http.errors import InvalidCredentialsError, KeysUnavailableError
from switchgear_http.jwt import JwtVerifier, KeySet, claim, fetch_json, is_protected
from switchgear_http.principal import Role
from tests.support.clock import Clock
from tests.support.http_server import served
from tests.support.limits import ANSWER_S

ISSUER = "https://login.example.com/realm"
AUDIENCE = "switchgear"
ALGORITHMS = ("RS256", "ES256")
RSA_KEYS = {name: rsa.generate_private_key(65537, 2048) for name in ("one", "two")}
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def jwk(key, kid, algorithm="RS256", **fields):
    of = pyjwt.algorithms.RSAAlgorithm if algorithm.startswith(("RS", "PS")) else pyjwt.algorithms.ECAlgorithm
    return {**of.to_jwk(key.public_key(), as_dict=True), "kid": kid, "alg": algorithm, "use": "sig", **fields}


def signed(key=RSA_KEYS["one"], kid="one", algorithm="RS256", **claims):
    now = time.time()
    given = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": now + 300, "iat": now, "roles": ["read"]} | claims
    headers = {} if kid is None else {"kid": kid}
    return pyjwt.encode({name: value for name, value in given.items() if value is not None}, key, algorithm, headers)


class Issuer:
    """Answers as an issuer does, and counts what it is asked."""

    def __init__(self, *keys):
        self.keys = list(keys)
        self.asked = []
        self.fails = False
        self.configuration = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}

    async def fetch(self, url):
        self.asked.append(url)
        await asyncio.sleep(0)
        if self.fails:
            raise OSError("away")
        return {"keys": self.keys} if url.endswith("/keys") else self.configuration


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def issuer():
    return Issuer(jwk(RSA_KEYS["one"], "one"))


@pytest.fixture
def verifier(issuer, clock):
    return made(issuer, clock)


def made(issuer, clock, **options):
    keys = KeySet(ISSUER, ALGORITHMS, fetch=issuer.fetch, clock=clock)
    return JwtVerifier(keys, issuer=ISSUER, audience=AUDIENCE, algorithms=ALGORITHMS, **options)


async def refused(verifier, text, word):
    with pytest.raises(InvalidCredentialsError, match=word) as caught:
        await verifier.authenticate(text)
    assert not text or text not in str(caught.value)


async def test_jwt_of_the_issuer_is_a_client_with_the_roles_of_its_claim(verifier, issuer):
    client = await verifier.authenticate(signed(roles=["switchgear:operate", "emit", "unknown", 7]))
    assert (client.name, client.roles, client.tenant) == ("ada", frozenset({Role.OPERATE, Role.EMIT}), None)
    assert client.actor == f"jwt:{ISSUER.removeprefix('https://').partition('/')[0]}:ada"
    assert issuer.asked == [f"{ISSUER}/.well-known/openid-configuration", f"{ISSUER}/keys"]


@pytest.mark.parametrize(
    ("claims", "word"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "no claim exp"),
        ({"nbf": 1e10}, "not valid yet"),
        ({"aud": "other"}, "another audience"),
        ({"aud": None}, "no claim aud"),
        ({"iss": "https://login.example.com"}, "another issuer"),
        ({"iss": None}, "no claim iss"),
        ({"sub": None}, "no claim sub"),
    ],
)
async def test_jwt_with_a_wrong_claim_is_refused_with_its_name(verifier, claims, word):
    await refused(verifier, signed(**claims), word)


async def test_clocks_may_differ_by_half_a_minute(verifier):
    now = time.time()
    assert await verifier.authenticate(signed(exp=now - 20, nbf=now + 20))
    await refused(verifier, signed(exp=now - 60), "expired")


async def test_jwt_for_several_audiences_is_accepted_if_this_is_one(verifier):
    assert await verifier.authenticate(signed(aud=["other", AUDIENCE]))


def unsigned(header, claims=None):
    parts = [header, claims or {"sub": "ada"}]
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts), ""]
    )


def forged(public):
    """A JWT that is signed by HMAC with the public key as its secret, which PyJWT itself refuses to make."""
    text = unsigned({"alg": "HS256", "kid": "one"})
    signature = hmac.digest(public, text[:-1].encode(), "sha256")
    return text + base64.urlsafe_b64encode(signature).rstrip(b"=").decode()


async def test_signature_by_another_key_or_algorithm_is_refused(verifier, issuer):
    public = (
        RSA_KEYS["one"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    await refused(verifier, signed(RSA_KEYS["two"]), "not valid")
    await refused(verifier, forged(public), "algorithm")
    await refused(verifier, signed(algorithm="RS512"), "algorithm")
    await refused(verifier, unsigned({"alg": "none", "kid": "one"}), "algorithm")
    await refused(verifier, signed(EC_KEY, algorithm="ES256"), "not valid")  # the key with this id is for RS256
    valid = signed()
    await refused(verifier, valid[:-4] + "AAAA", "not valid")
    await refused(verifier, valid + ".x", "neither")


async def test_text_that_is_no_jwt_is_refused_without_asking_the_issuer(verifier, issuer):
    for text in ("", "a~b", "a.b.c", "." * 20, unsigned([]), "a" * 20_000):
        await refused(verifier, text, "neither|too long")
    assert issuer.asked == []


async def test_new_key_of_the_issuer_is_fetched_when_a_jwt_names_it(verifier, issuer, clock):
    await verifier.authenticate(signed())
    issuer.keys = [jwk(RSA_KEYS["two"], "two"), jwk(EC_KEY, "ec", "ES256")]
    clock.now += 11
    assert (await verifier.authenticate(signed(RSA_KEYS["two"], "two"))).name == "ada"
    assert (await verifier.authenticate(signed(EC_KEY, "ec", "ES256"))).name == "ada"
    await refused(verifier, signed(), "no key")  # the issuer has withdrawn it


@pytest.mark.slow
async def test_unknown_ids_of_keys_lead_to_one_fetch_in_ten_seconds(verifier, issuer, clock):
    await verifier.authenticate(signed())
    for number in range(200):
        await refused(verifier, signed(kid=f"k{number}"), "no key")
        clock.now += 0.1
    assert len(issuer.asked) <= 2 * 3


@pytest.mark.slow
async def test_requests_at_the_same_time_share_one_fetch(verifier, issuer):
    clients = await asyncio.gather(*(verifier.authenticate(signed()) for _ in range(50)))
    assert {each.name for each in clients} == {"ada"}
    assert len(issuer.asked) == 2


async def test_issuer_that_is_away_makes_logins_unavailable_only_while_no_keys_are_known(verifier, issuer, clock):
    issuer.fails = True
    with capture_logs() as logs:
        for _ in range(5):
            with pytest.raises(KeysUnavailableError):
                await verifier.authenticate(signed())
    assert (len(issuer.asked), len(logs)) == (1, 1)
    issuer.fails = False
    clock.now += 11
    assert await verifier.authenticate(signed())
    issuer.fails = True
    clock.now += 3601  # the keys are due, and stay in use
    assert await verifier.authenticate(signed())
    clock.now += 24 * 3600
    with pytest.raises(KeysUnavailableError):
        await verifier.authenticate(signed())


@pytest.mark.parametrize(
    "configuration",
    [
        {"issuer": "https://evil.example", "jwks_uri": f"{ISSUER}/keys"},
        {"issuer": ISSUER, "jwks_uri": "http://login.example.com/keys"},
        {"issuer": ISSUER},
        [],
    ],
)
async def test_configuration_of_another_issuer_or_without_https_gives_no_keys(verifier, issuer, configuration):
    issuer.configuration = configuration
    with pytest.raises(KeysUnavailableError):
        await verifier.authenticate(signed())


@pytest.mark.parametrize(
    "keys",
    [
        [],
        ["one"],
        [{"kty": "RSA"}],
        [{"kty": "oct", "k": "c2VjcmV0", "kid": "one", "alg": "HS256"}],
        [jwk(RSA_KEYS["one"], "one", use="enc")],
        [jwk(RSA_KEYS["one"], "one", "RS512")],
    ],
)
async def test_document_without_a_usable_key_gives_no_keys(verifier, issuer, keys):
    issuer.keys = keys
    with pytest.raises(KeysUnavailableError):
        await verifier.authenticate(signed())


async def test_jwt_without_a_key_id_needs_an_issuer_with_one_key(verifier, issuer, clock):
    assert await verifier.authenticate(signed(kid=None))
    issuer.keys.append(jwk(RSA_KEYS["two"], "two"))
    clock.now += 3601
    await refused(verifier, signed(kid=None), "no key")


async def test_tenant_comes_from_its_claim_and_a_jwt_without_it_is_refused(issuer, clock):
    verifier = made(issuer, clock, tenant_claim="org.name", roles_claim="realm.roles")
    text = signed(roles=None, realm={"roles": "read emit"}, org={"name": "acme"})
    client = await verifier.authenticate(text)
    assert (client.tenant, client.roles) == ("acme", frozenset({Role.READ, Role.EMIT}))
    for org in (None, {}, {"name": ""}, {"name": 7}, "acme"):
        await refused(verifier, signed(org=org), "no tenant")


async def test_jwt_is_one_reporter_by_its_subject_unless_its_roles_mark_a_collector(verifier):
    found = [
        (await verifier.authenticate(signed(roles=roles))).reporter for roles in (["emit"], "emit switchgear:collector")
    ]
    assert found == ["jwt login.example.com:ada", None]


async def test_jwt_without_roles_is_a_client_that_may_do_nothing(verifier):
    for roles in (None, [], {}, 7, "admins"):
        assert not (await verifier.authenticate(signed(roles=roles))).roles


def test_claim_with_dots_in_its_name_is_found():
    name = "https://example.com/roles"
    assert claim({name: ["read"]}, name) == ["read"]
    assert claim({"a": {"b": 1}}, "a.b") == 1
    assert claim({"a": 1}, "a.b") is None


def test_addresses_that_others_may_change_on_the_way_are_not_protected():
    assert all(
        map(is_protected, ("https://a.example/x", "http://127.0.0.1:80/x", "http://[::1]/x", "http://localhost"))
    )
    assert not any(
        map(is_protected, ("http://a.example", "ftp://a.example", "", "https://", "file:///etc/passwd", "https://["))
    )


@pytest.fixture
def web():
    """A server whose answers a test sets."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = self.server.answer
            self.send_response(status)
            self.send_header("location", "/elsewhere")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            """Not to standard error."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with served(server) as url:
        server.url = f"{url}/keys"
        yield server


@pytest.mark.slow
async def test_keys_are_fetched_over_http_and_other_answers_are_errors(web):
    web.answer = (200, b'{"keys": []}')
    assert await fetch_json(web.url) == {"keys": []}
    for answer in ((302, b"{}"), (500, b"{}"), (200, b"<html>"), (200, b" " * 1_100_000)):
        web.answer = answer
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own message
            await fetch_json(web.url)


async def test_issuer_that_does_not_answer_costs_its_time_limit_only(monkeypatch, clock):
    monkeypatch.setattr("switchgear_http.jwt.FETCH_LIMIT_S", 0.1)

    async def never(_url):
        await asyncio.Event().wait()

    with pytest.raises(KeysUnavailableError):
        await asyncio.wait_for(KeySet(ISSUER, ALGORITHMS, fetch=never, clock=clock).find("one"), ANSWER_S)
