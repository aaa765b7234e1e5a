"""Receivers send real requests to a real server: signatures, logins, answers and errors."""

import asyncio
import base64
import contextlib
import json
import logging
import shutil
import socket
import subprocess
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests
from msgspec.structs import replace
from standardwebhooks.webhooks import Webhook

from switchgear_alerts.config import parse
from switchgear_alerts.errors import AlertsFileError, DeliveryError
from switchgear_alerts.receivers import make_receiver
from switchgear_alerts.receivers.base import Context
from switchgear_cli.logs import configure_logging
from switchgear_schemas.settings import load_settings
from tests.support.alert_values import change, facts, message
from tests.support.http_server import served

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WEBHOOK = 'type = "webhook"\nurl = "https://example.com"\nsecrets = ["env:NEW"]'
OLD = "whsec_" + base64.b64encode(b"the secret of last month").decode()


@pytest.fixture
def server():
    """A server that keeps requests and answers as ``answers``, then ``answer`` say: status, headers, body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            found.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status, headers, text = found.answers.pop(0) if found.answers else found.answer
            self.send_response(status)
            for name, value in {"content-length": str(len(text)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.requests, found.answers, found.answer = [], [], (200, {}, b"ok")
    with served(found) as found.url:
        yield found


def receiver(monkeypatch, options, **environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    rules = parse(f'[receivers.it]\n{options}\n[[routes]]\nreceivers = ["it"]', "alerts.toml")
    return make_receiver("it", rules.receivers["it"], Context())


async def sent(one, *messages):
    try:
        return [await one.send(each) for each in messages]
    finally:
        await one.close()


async def test_a_webhook_is_signed_with_the_new_and_the_old_secret(server, monkeypatch):
    one = receiver(
        monkeypatch,
        f'type = "webhook"\nurl = "{server.url}/hook"\nsecrets = ["env:NEW", "env:OLD"]',
        NEW=SECRET,
        OLD=OLD,
    )
    assert await sent(one, message(change())) == ["HTTP 200"]
    ((path, headers, body),) = server.requests
    assert path == "/hook"
    assert headers["webhook-id"] == "search@1:opened"
    for secret in (SECRET, OLD):
        assert Webhook(secret).verify(body, headers)["type"] == "switchgear.incident.opened"


@pytest.mark.slow
@pytest.mark.parametrize("length", [23, 24, 44, 64, 65])
def test_a_webhook_takes_keys_of_24_to_64_bytes_padded_or_not(monkeypatch, length):
    padded = f"whsec_{base64.b64encode(bytes(range(length))).decode()}"
    for secret in (padded, padded.rstrip("="), padded.removeprefix("whsec_")):
        fits = (
            contextlib.nullcontext() if 24 <= length <= 64 else pytest.raises(AlertsFileError, match="24 to 64 bytes")
        )
        with fits:
            receiver(monkeypatch, WEBHOOK, NEW=secret)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_command_of_the_hint_makes_a_secret_that_a_webhook_takes(monkeypatch):
    with pytest.raises(AlertsFileError) as caught:
        receiver(monkeypatch, WEBHOOK, NEW="short")
    command = caught.value.hint.removeprefix("Make one: ").removesuffix(".")
    made = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    receiver(monkeypatch, WEBHOOK, NEW=made)


@pytest.mark.slow
async def test_pagerduty_gets_the_key_in_the_body_only(server, monkeypatch):
    one = receiver(monkeypatch, f'type = "pagerduty"\nurl = "{server.url}"\nrouting_key = "env:KEY"', KEY="the-key")
    await sent(one, message(change()))
    ((path, headers, body),) = server.requests
    assert path == "/v2/enqueue"
    assert json.loads(body)["routing_key"] == "the-key"
    assert "the-key" not in str(headers)


@pytest.mark.slow
async def test_pagerduty_gets_each_event_once_although_it_refuses_many_of_a_message(server, monkeypatch):
    one = receiver(monkeypatch, f'type = "pagerduty"\nurl = "{server.url}"\nrouting_key = "env:KEY"', KEY="the-key")
    many = message(*[change(f"tool-{n}", "resolved") for n in range(50)])
    server.answers = [(202, {}, b""), (429, {}, b"too many events")] * 49
    for _ in range(49):
        with pytest.raises(DeliveryError, match="HTTP 429"):
            await one.send(many)
    assert await sent(one, many) == ["HTTP 200"]
    taken = [json.loads(body)["dedup_key"] for number, (_, _, body) in enumerate(server.requests) if number % 2 == 0]
    assert taken == [f"tool-{n}@1" for n in range(50)]


@pytest.mark.slow
async def test_alertmanager_gets_a_login_and_open_alerts_again(server, monkeypatch):
    options = f'type = "alertmanager"\nurl = "{server.url}/prefix/"\nusername = "ada"\npassword = "env:PASSWORD"'
    one = receiver(monkeypatch, options, PASSWORD="pw")
    assert one.renew_every_s == 60
    await one.renew([change(), change("other")])
    await sent(one, message(change(kind="resolved")))
    assert [path for path, _, _ in server.requests] == ["/prefix/api/v2/alerts"] * 2
    assert server.requests[0][1]["authorization"] == f"Basic {base64.b64encode(b'ada:pw').decode()}"
    assert [len(json.loads(body)) for _, _, body in server.requests] == [2, 1]


@pytest.mark.slow
async def test_cloudevents_are_structured_and_carry_the_token(server, monkeypatch):
    one = receiver(monkeypatch, f'type = "cloudevents"\nurl = "{server.url}"\ntoken = "env:TOKEN"', TOKEN="t")
    await sent(one, message(change()))
    ((_, headers, body),) = server.requests
    assert headers["content-type"].startswith("application/cloudevents+json")
    assert headers["authorization"] == "Bearer t"
    assert json.loads(body)["specversion"] == "1.0"


@pytest.mark.slow
async def test_slack_and_teams_take_their_url_from_a_secret_file(server, monkeypatch, tmp_path):
    (tmp_path / "url").write_text(f"{server.url}/services/T0/B0/secret\n")
    for kind in ("slack", "teams"):
        one = receiver(monkeypatch, f'type = "{kind}"\nurl = "file:{tmp_path / "url"}"')
        assert await sent(one, message(change())) == ["HTTP 200 ok"]
    assert {path for path, _, _ in server.requests} == {"/services/T0/B0/secret"}


@pytest.mark.slow
async def test_apprise_sends_text(server, monkeypatch):
    one = receiver(
        monkeypatch, 'type = "apprise"\nurls = ["env:URL"]', URL=f"json://127.0.0.1:{server.server_port}/hook"
    )
    assert await sent(one, message(change())) == ["taken by Apprise"]
    ((_, _, body),) = server.requests
    assert json.loads(body)["title"] == "Circuit open: search"
    server.answer = (500, {}, b"")
    with pytest.raises(DeliveryError, match="refused"):
        await sent(one, message(change("other")))


HOSTILE = facts("<@U123>", last_error="502 <html> @everyone @here <!channel> <!subteam^S1> & co " + "x" * 450)


@pytest.mark.slow
async def test_apprise_mentions_no_person_or_channel(server, monkeypatch):
    one = receiver(
        monkeypatch, 'type = "apprise"\nurls = ["env:URL"]', URL=f"json://127.0.0.1:{server.server_port}/hook"
    )
    await sent(one, message(change(facts=HOSTILE)))
    body = json.loads(server.requests[0][2])
    for mention in ("@everyone", "@here", "<!", "<@"):
        assert mention not in body["title"] + body["message"]
    assert "@\u200beveryone" in body["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "key", "longest"),
    [
        (f"discord://{'a' * 26}/{'b' * 32}/", "content", 2000),
        (f"tgram://123456789:{'a' * 20}/12315544/", "text", 4096),
        (f"pover://{'u' * 30}@{'a' * 30}", "message", 1024),
    ],
)
async def test_a_long_text_comes_through_apprise_in_a_few_messages_that_the_service_takes(
    monkeypatch, url, key, longest
):
    posted = []

    def post(_session, **given):
        posted.append(given.get("json") or given["data"])
        answer = requests.Response()
        answer.status_code, answer._content = 200, b"{}"
        return answer

    monkeypatch.setattr("requests.Session.request", post)
    monkeypatch.setattr("apprise.NotifyBase.request_rate_per_sec", 0)
    one = receiver(monkeypatch, 'type = "apprise"\nurls = ["env:URL"]', URL=url)
    long = message(
        *[change(f"tool-{n}", facts=replace(HOSTILE, why=f"{'x' * 900} <html> Last line")) for n in range(20)]
    )
    assert await sent(one, long) == ["taken by Apprise"]
    bodies = [(json.loads(each) if isinstance(each, str | bytes) else each)[key] for each in posted]
    assert 1 < len(bodies) <= 6
    assert max(map(len, bodies)) <= longest
    shown = sum(body.count("Last line") for body in bodies)
    assert 1 < shown < 20
    assert bodies[-1].rstrip().endswith(f"… and {20 - shown} more")
    if url.startswith("tgram"):
        assert "&lt;\u200bhtml&gt;" in "".join(bodies)  # it is HTML there


@pytest.mark.slow
def test_apprise_does_not_log_urls_with_their_tokens(server, monkeypatch, capsys):
    level = logging.getLogger("apprise").level
    configure_logging(load_settings(log_level="debug"))
    url = f"json://127.0.0.1:{server.server_port}/hook/verysecrettoken"
    one = receiver(monkeypatch, 'type = "apprise"\nurls = ["env:URL"]', URL=url)
    asyncio.run(sent(one, message(change())))
    logging.getLogger("apprise").setLevel(level)
    assert server.requests
    assert "verysecret" not in capsys.readouterr().err


@pytest.mark.slow
async def test_apprise_does_not_reach_a_private_address_by_a_public_name_unless_the_file_allows_it(server, monkeypatch):
    def resolve(_host, port, *_args, **_named):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    options = 'type = "apprise"\nurls = ["env:URL"]'
    url = f"json://rebound.example.com:{server.server_port}/hook?redirect=yes"
    walled = receiver(monkeypatch, options, URL=url)
    allowed = receiver(monkeypatch, f"{options}\nallow_private = true", URL=url)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(DeliveryError, match=r"env:URL: .*127\.0\.0\.1; allow it by allow_private = true") as caught:
        await sent(walled, message(change()))
    assert caught.value.permanent
    assert server.requests == []
    assert await sent(allowed, message(change())) == ["taken by Apprise"]


@pytest.mark.slow
async def test_apprise_follows_no_redirect_even_if_its_url_asks_for_that(server, monkeypatch):
    server.answer = (302, {"location": f"{server.url}/elsewhere"}, b"")
    url = f"json://127.0.0.1:{server.server_port}/hook?redirect=yes&method=POST"
    one = receiver(monkeypatch, 'type = "apprise"\nurls = ["env:URL"]', URL=url)
    with pytest.raises(DeliveryError, match="refused it"):
        await sent(one, message(change()))
    assert len(server.requests) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("json://10.0.0.7/hook", "private network; allow it by allow_private = true"),
        ("json://[fd00::1]/hook", "private network"),
        ("rsyslog://example.com", "opens connections that can't be checked"),
    ],
)
def test_an_apprise_url_of_a_private_address_or_of_an_unchecked_protocol_is_refused_at_once(monkeypatch, url, said):
    options = 'type = "apprise"\nurls = ["env:URL"]'
    with pytest.raises(AlertsFileError, match=said) as caught:
        receiver(monkeypatch, options, URL=url)
    assert url not in str(caught.value)
    receiver(monkeypatch, f"{options}\nallow_private = true", URL=url)


@pytest.mark.slow
async def test_apprise_tries_again_only_the_services_that_do_not_have_the_message(server, monkeypatch):
    one = receiver(
        monkeypatch,
        'type = "apprise"\nurls = ["env:GOOD", "env:AWAY"]',
        GOOD=f"json://127.0.0.1:{server.server_port}/good",
        AWAY="json://127.0.0.1:9/away",
    )
    for _ in range(3):
        with pytest.raises(DeliveryError, match="env:AWAY") as caught:
            await one.send(message(change()))
        assert "env:GOOD" not in caught.value.message
    with pytest.raises(DeliveryError):
        await one.send(message(change("other")))
    assert [path for path, _, _ in server.requests] == ["/good", "/good"]


@pytest.mark.parametrize(
    ("status", "permanent"),
    [(400, True), (404, True), (301, True), (408, False), (429, False), (500, False), (503, False)],
)
async def test_an_answer_says_whether_to_try_again(server, monkeypatch, status, permanent):
    server.answer = (status, {"retry-after": "7", "location": "http://169.254.169.254/"}, b"no_service <b>")
    one = receiver(monkeypatch, 'type = "slack"\nurl = "env:URL"', URL=f"{server.url}/secret")
    with pytest.raises(DeliveryError) as caught:
        await sent(one, message(change()))
    assert caught.value.permanent is permanent
    assert caught.value.retry_after_s == 7
    assert str(status) in caught.value.message
    assert len(server.requests) == 1  # a redirect is not followed


@pytest.mark.slow
async def test_an_error_never_shows_the_secret_url_even_if_the_receiver_repeats_it(server, monkeypatch):
    url = f"{server.url}/services/T0/B0/verysecret"
    server.answer = (500, {}, f"cannot handle {url}".encode())
    one = receiver(monkeypatch, 'type = "slack"\nurl = "env:URL"', URL=url)
    with pytest.raises(DeliveryError) as caught:
        await sent(one, message(change()))
    assert "verysecret" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "repeated",
    [
        "Cannot POST /services/T0000000/B0000000/verysecret",
        "no hook of the key verysecret?sig=other%2Fsecret&x=1",
        "sig other/secret is wrong",
        r'{"url": "https:\/\/example.com\/services\/T0000000\/B0000000\/verysecret"}',
    ],
)
async def test_an_error_shows_no_part_of_a_secret_url(server, monkeypatch, repeated):
    url = f"{server.url}/services/T0000000/B0000000/verysecret?sig=other%2Fsecret&x=1"
    server.answer = (404, {}, repeated.encode())
    one = receiver(monkeypatch, 'type = "slack"\nurl = "env:URL"', URL=url)
    with pytest.raises(DeliveryError, match="HTTP 404") as caught:
        await sent(one, message(change()))
    for hidden in ("verysecret", "T0000000", "B0000000", "other/secret", "other%2Fsecret"):
        assert hidden not in str(caught.value)


@pytest.mark.slow
async def test_an_error_shows_neither_the_login_nor_the_password_of_a_proxy(server, monkeypatch):
    login = base64.b64encode(b"ada:hunter2hunter2").decode()
    server.answer = (401, {}, f"got Basic {login} by http://eve:pw@127.0.0.1".encode())
    proxy = server.url.replace("http://", "http://eve:pw@")
    options = f'type = "alertmanager"\nurl = "http://127.0.0.1"\nusername = "ada"\npassword = "env:PASSWORD"\nproxy = "{proxy}"'
    one = receiver(monkeypatch, options, PASSWORD="hunter2hunter2")
    with pytest.raises(DeliveryError, match="HTTP 401") as caught:
        await sent(one, message(change()))
    assert login not in str(caught.value)
    assert "eve" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("7.5", 7.5, 7.5),
        ("in 1000 s", 900, 1000),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0, 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600, 3600),
        ("99999999999999999999", 3600, 3600),
        ("-1", 0, 0),
        ("nan", 0, 0),
        ("soon", None, None),
        ("Fri, 99 Dec 2026 23:59:59 GMT", None, None),
    ],
)
async def test_a_receiver_may_ask_for_a_wait_in_seconds_or_until_a_date_of_at_most_an_hour(
    server, monkeypatch, said, least, most
):
    if said == "in 1000 s":
        said = format_datetime(datetime.now(UTC) + timedelta(seconds=1000), usegmt=True)
    server.answer = (503, {"retry-after": said}, b"")
    one = receiver(monkeypatch, 'type = "slack"\nurl = "env:URL"', URL=server.url)
    with pytest.raises(DeliveryError) as caught:
        await sent(one, message(change()))
    asked = caught.value.retry_after_s
    assert asked is None if least is None else least <= asked <= most


@pytest.mark.slow
async def test_a_token_file_with_a_byte_order_mark_is_read_without_it(server, monkeypatch, tmp_path):
    (tmp_path / "token").write_bytes("\ufefftoken-of-alertmanager\r\n".encode())
    one = receiver(monkeypatch, f'type = "alertmanager"\nurl = "{server.url}"\ntoken = "file:{tmp_path / "token"}"')
    await sent(one, message(change()))
    assert server.requests[0][1]["authorization"] == "Bearer token-of-alertmanager"


@pytest.mark.slow
async def test_a_receiver_that_is_away_is_tried_again(monkeypatch):
    one = receiver(monkeypatch, 'type = "slack"\nurl = "env:URL"', URL="http://127.0.0.1:9/verysecret")
    with pytest.raises(DeliveryError) as caught:
        await sent(one, message(change()))
    assert not caught.value.permanent
    assert "verysecret" not in str(caught.value)


class Smtp:
    """An SMTP server of a few lines: it takes one mail a connection, and refuses every recipient, or those of ``refused``."""

    def __init__(self, refuse=b""):
        self.refuse, self.refused, self.mails, self.taken = refuse, {}, [], []

    async def serve(self, reader, writer):
        writer.write(b"220 ready\r\n")
        while line := await reader.readline():
            verb = line[:4].upper()
            if verb == b"DATA":
                writer.write(b"354 go\r\n")
                self.mails.append(await reader.readuntil(b"\r\n.\r\n"))
                writer.write(b"250 queued as 17\r\n")
            elif verb == b"RCPT":
                address = line.partition(b"<")[2].partition(b">")[0].decode()
                answer = self.refuse or self.refused.get(address, b"250 ok")
                self.taken += [address] if answer.startswith(b"250") else []
                writer.write(answer + b"\r\n")
            elif verb == b"QUIT":
                writer.write(b"221 bye\r\n")
                break
            else:
                writer.write(b"250 ok\r\n")
            await writer.drain()
        writer.close()


@pytest.mark.parametrize(("refuse", "permanent"), [(b"", None), (b"550 no such user", True), (b"451 try later", False)])
async def test_an_email_is_taken_by_an_smtp_server_or_its_refusal_is_told_apart(monkeypatch, refuse, permanent):
    smtp = Smtp(refuse)
    server = await asyncio.start_server(smtp.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        one = receiver(
            monkeypatch,
            f'type = "email"\nhost = "127.0.0.1"\nport = {port}\nsecurity = "none"\nfrom = "a@example.com"\nto = ["b@example.com"]',
        )
        if permanent is None:
            assert await sent(one, message(change())) == ["queued as 17"]
            assert b"Subject: [error] Circuit open: search" in smtp.mails[0]
            return
        with pytest.raises(DeliveryError) as caught:
            await sent(one, message(change()))
        assert caught.value.permanent is permanent


async def test_an_email_is_tried_again_only_for_recipients_who_may_still_take_it_and_refusals_are_an_error(monkeypatch):
    smtp = Smtp()
    smtp.refused = {"gone@example.com": b"550 no such user", "busy@example.com": b"451 try later"}
    server = await asyncio.start_server(smtp.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        one = receiver(
            monkeypatch,
            f'type = "email"\nhost = "127.0.0.1"\nport = {port}\nsecurity = "none"\nfrom = "a@example.com"\n'
            'to = ["gone@example.com", "b@example.com", "busy@example.com"]',
        )
        for _ in range(2):
            with pytest.raises(
                DeliveryError, match=r"refused 2 of 3.*busy@example.com: 451 .*gone@example.com: 550"
            ) as caught:
                await one.send(message(change()))
            assert not caught.value.permanent
        del smtp.refused["busy@example.com"]
        for _ in range(2):  # also if the dead-letter file can't be written at first
            with pytest.raises(DeliveryError, match=r"refused 1 of 3 recipients: gone@example.com: 550") as caught:
                await one.send(message(change()))
            assert caught.value.permanent
    assert smtp.taken == ["b@example.com", "busy@example.com"]
    assert len(smtp.mails) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('type = "slack"\nurl = "env:MISSING"', "The variable MISSING is not set"),
        ('type = "slack"\nurl = "file:/does/not/exist"', "can't be read"),
        ('type = "slack"\nurl = "env:PLAIN"', "must begin with https://"),
        ('type = "slack"\nurl = "env:INNER"', "private network"),
        ('type = "webhook"\nurl = "https://example.com"\nsecrets = ["env:PLAIN"]', "is not base64 of 24 to 64 bytes"),
        ('type = "apprise"\nurls = ["env:PLAIN2"]', "can't read the URL in env:PLAIN2"),
        (
            'type = "alertmanager"\nurl = "https://example.com"\ntoken = "env:LINES"',
            "Key token: the secret in env:LINES",
        ),
        ('type = "alertmanager"\nurl = "https://example.com"\ntoken = "env:ACCENT"', "Key token: .* ASCII"),
        ('type = "cloudevents"\nurl = "https://example.com"\ntoken = "env:LINES"', "Key token: .* ASCII"),
        ('type = "pagerduty"\nrouting_key = "env:LINES"', "Key routing_key: .* ASCII"),
        (
            'type = "alertmanager"\nurl = "https://example.com"\nusername = "ada"\npassword = "env:LINES"',
            "Key password: the secret in env:LINES is not one line",
        ),
        (
            'type = "email"\nhost = "h"\nfrom = "a@x.org"\nto = ["b@x.org"]\nusername = "ada"\npassword = "env:LINES"',
            "Key password: the secret in env:LINES is not one line",
        ),
    ],
)
def test_a_secret_that_can_not_be_used_is_named_by_its_reference_only(monkeypatch, options, said):
    monkeypatch.delenv("MISSING", raising=False)
    with pytest.raises(AlertsFileError, match=said) as caught:
        receiver(
            monkeypatch,
            options,
            PLAIN="http://example.com/verysecret",
            PLAIN2="verysecret",
            INNER="https://10.0.0.1/verysecret",
            LINES="verysecret\nverysecret",
            ACCENT="verysecrét",
        )
    assert "verysecret" not in str(caught.value)
    assert "[receivers.it]" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        *[
            (f'type = "email"\nhost = "h"\nfrom = "a@x.org"\nto = ["b@x.org", "{wrong}"]', "to")
            for wrong in (
                "ops",
                "a@x.org, c@x.org",
                "x@x.org\\nBcc: y@x.org",
                "Ops <ops@x.org>",
                "",
                "=?utf-8?q?a?=@x.org",
            )
        ],
        ('type = "email"\nhost = "h"\nfrom = "=?utf-8?q?a?=@x.org"\nto = ["b@x.org"]', "from"),
        *[
            (f'type = "cloudevents"\nurl = "https://example.com"\nsource = "{wrong}"', "source")
            for wrong in ("", " ", "has space", "a\\nb", "ü", "50%")
        ],
        *[
            (f'type = "alertmanager"\nurl = "https://example.com"\nlabels = {{ "{wrong}" = "eu" }}', "labels")
            for wrong in ("", "my-cluster", "1st", "a\\n")
        ],
        ('type = "alertmanager"\nurl = "https://example.com"\nusername = "a:b"\npassword = "env:X"', "username"),
        (
            'type = "email"\nhost = "h"\nfrom = "a@x.org"\nto = ["b@x.org"]\nusername = "a\\nb"\npassword = "env:X"',
            "username",
        ),
    ],
)
def test_the_file_can_not_name_an_address_a_source_or_a_label_that_is_none(monkeypatch, options, key):
    with pytest.raises(AlertsFileError, match=key):
        receiver(monkeypatch, options)


@pytest.mark.parametrize("source", ["/switchgear", "https://example.com/sw?a=b#c", "urn:x:y", "a%20b"])
def test_the_source_of_cloudevents_is_a_uri_reference(monkeypatch, source):
    receiver(monkeypatch, f'type = "cloudevents"\nurl = "https://example.com"\nsource = "{source}"')
