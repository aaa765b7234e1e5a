"""The alerts file: what it may hold, and what an error says."""

import re

import pytest

from switchgear_alerts import config
from switchgear_alerts.config import load, parse
from switchgear_alerts.errors import AlertsFileError
from switchgear_alerts.grouping import Grouping
from switchgear_alerts.quiet import QuietHours
from switchgear_alerts.receivers import OPTIONS
from switchgear_alerts.routes import Route
from tests.support.alert_values import ONE_HOOK
from tests.support.snippets import REPOSITORY
from tests.support.table import table

ROUTE = '[[routes]]\nreceivers = ["hook"]\n'


def refusal(text):
    with pytest.raises(AlertsFileError) as caught:
        parse(text, "alerts.toml")
    return str(caught.value)


def test_the_defaults_send_every_circuit_of_tools_and_families():
    rules = parse(f"{ROUTE}{ONE_HOOK}", "alerts.toml")
    (route,) = rules.routes
    assert (route.tools, route.scopes, route.severity, route.lasting) == (("*",), ("tool", "family"), "error", 0)
    assert (rules.grouping.wait, rules.flapping.opens, rules.retry.give_up_after) == (5, 3, 21_600)


@table(
    ("text", "said"),
    [
        ("route = 1", "alerts.toml: the top level: unknown key route. Did you mean routes? Known: receivers, routes,"),
        ("", "alerts.toml has no receiver."),
        (ONE_HOOK, "alerts.toml sends nothing."),
        ("[receivers.x]\nurl = 'https://e.com'", "[receivers.x]: type is missing. Write one of alertmanager, apprise,"),
        ("[receivers.x]\ntype = 'slak'", "[receivers.x]: type is 'slak'. Write one of alertmanager,"),
        ("[receivers.x]\ntype = 'slack'", "[receivers.x]: the key url is missing."),
        ("[receivers.x]\ntype = 'slack'\nurl = 'env:U'\nurll = 1", "[receivers.x]: unknown key urll. Did you mean url? Known: "),
        ("[receivers.x]\ntype = 'webhook'\nurl = 'http://example.com'\nsecrets = ['env:S']", "[receivers.x]: url must begin with https://"),
        ("[receivers.x]\ntype = 'webhook'\nurl = 'https://10.1.2.3'\nsecrets = ['env:S']", "url is an address of a private network"),
        ("[receivers.x]\ntype = 'webhook'\nurl = 'https://a:b@e.com'\nsecrets = ['env:S']", "must not have a user name"),
        ("[receivers.x]\ntype = 'alertmanager'\nurl = 'http://a..b:9093'\nallow_private = true", "[receivers.x]: url must have a host name"),
        ("[receivers.x]\ntype = 'alertmanager'\nurl = 'http://localhost:99999'", "[receivers.x]: url must have a port from 1 to 65535"),
        (f"{ROUTE}severity = 'high'\n{ONE_HOOK}", "[[routes]] number 1, key severity: must be 'critical', 'error', 'warning' or 'info' (got 'high')."),
        (f"{ROUTE}for = '5'\n{ONE_HOOK}", '[[routes]] number 1, key for: must be a duration with its unit, such as "90s"'),
        (f"{ROUTE}tool = ['x']\n{ONE_HOOK}", "[[routes]] number 1: unknown key tool. Did you mean tools?"),
        (f"{ROUTE}quiet = [{{ until = '07:00' }}]\n{ONE_HOOK}", "[[routes]] number 1, quiet number 1: unknown key until. Known: days, from, to."),
        (f"{ROUTE}quiet = [{{ to = '25:00' }}]\n{ONE_HOOK}", 'key to: must be a time of the day, such as "07:30" (got \'25:00\').'),
        (f"{ROUTE}quiet = [{{}}]\n{ONE_HOOK}", "covers the whole week, so the route would never send anything"),
        (f"{ROUTE}tools = []\n{ONE_HOOK}", "[[routes]] number 1, key tools: matches nothing. Leave it out for all tools, or write globs such as"),
        (f"{ROUTE}tools = ['']\n{ONE_HOOK}", "[[routes]] number 1, key tools: matches nothing. Leave it out for all tools"),
        (f"{ROUTE}families = [' ']\n{ONE_HOOK}", "[[routes]] number 1, key families: has an empty glob. Leave it out for all families"),
        (f"{ROUTE}scopes = []\n{ONE_HOOK}", "[[routes]] number 1, key scopes: matches nothing. Leave it out for tools and families, or name"),
        (f"{ROUTE}states = []\n{ONE_HOOK}", "[[routes]] number 1, key states: matches nothing. Leave it out for both, or name"),
        (f"[[routes]]\nreceivers = ['hok']\n{ONE_HOOK}", "[[routes]] number 1, key receivers: there is no receiver 'hok'. Known: hook."),
        (f"timezone = 'Mars'\n{ROUTE}{ONE_HOOK}", 'timezone must be a time zone such as "UTC"'),
        ("[digest]\nat = '09:00'\nreceivers = ['pd']\n[receivers.pd]\ntype = 'pagerduty'\nrouting_key = 'env:K'", "[digest], key receivers: pd is for incidents only"),
        (f"[routes]\nreceivers = ['hook']\n{ONE_HOOK}", "routes is not a list of tables. Write [[routes]], with two brackets."),
        ("[receivers.x\n", "alerts.toml is not valid TOML"),
    ],
)  # fmt: skip
def test_an_error_names_the_table_and_the_key_and_says_what_is_allowed(text, said):
    assert said in refusal(text)


@table(
    "options",
    [
        "type = 'slack'\nurl = 'https://hooks.slack.com/services/verysecret'",
        "type = 'pagerduty'\nrouting_key = 'verysecret'",
        "type = 'webhook'\nurl = 'https://e.com'\nsecrets = ['verysecret']",
        "type = 'apprise'\nurls = ['tgram://verysecret']",
        "type = 'email'\nhost = 'h'\nfrom = 'a@e.com'\nto = ['b@e.com']\nusername = 'u'\npassword = 'verysecret'",
        "type = 'slack'\nurl = 'file://verysecret'",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(options):
    said = refusal(f"[receivers.x]\n{options}")
    assert 'write where it is, "env:NAME" or "file:/path"' in said
    assert "verysecret" not in said


def test_a_password_in_a_wrong_proxy_is_not_repeated():
    said = refusal("[receivers.x]\ntype = 'slack'\nurl = 'env:U'\nproxy = 'user:hunter2@proxy:3128'")
    assert "[receivers.x], key proxy: must begin with http:// or https://" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("http://hunter2@proxy.corp:port", "must be a URL such as http://proxy.example.com:3128"),
        ("http://hunter2@proxy.corp:99999", "must have a port from 1 to 65535"),
        ("http://hunter2@proxy..corp:3128", "must have a host name"),
        ("https://hunter2@[::1", "must be a URL such as"),
    ],
)
def test_a_proxy_that_can_not_be_is_refused_with_its_key_and_not_repeated(proxy, said):
    found = refusal(f"[receivers.x]\ntype = 'slack'\nurl = 'env:U'\nproxy = '{proxy}'")
    assert f"[receivers.x], key proxy: {said}" in found
    assert "hunter2" not in found


def test_a_plain_url_in_the_file_may_be_of_this_machine_or_private_where_that_is_allowed():
    for url, more in (
        ("http://localhost:9093", ""),
        ("http://127.0.0.1:9093", ""),
        ("http://alertmanager:9093", "allow_private = true"),
    ):
        parse(f'[receivers.am]\ntype = "alertmanager"\nurl = "{url}"\n{more}\n[[routes]]\nreceivers = ["am"]', "f")


def test_a_missing_file_is_named():
    with pytest.raises(AlertsFileError, match=r"The alerts file /does/not\.toml can't be read: No such file"):
        load(REPOSITORY.__class__("/does/not.toml"))


@pytest.mark.parametrize("page", ["guide/alerts.md", "reference/alerts-file.md"])
def test_every_file_of_the_documentation_is_valid(page):
    text = (REPOSITORY / "docs" / page).read_text()
    shown = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert shown
    for each in shown:
        parse(each, page)


def test_the_reference_names_every_key():
    text = (REPOSITORY / "docs" / "reference" / "alerts-file.md").read_text()
    models = [Route, QuietHours, Grouping, config.Flapping, config.Retry, config.DigestRules, *OPTIONS.values()]
    keys = {key for model in models for key in config._keys_of(model)}
    assert {key for key in keys if f"`{key}`" not in text} == set()
    assert {kind for kind in OPTIONS if f"`{kind}`" not in text} == set()
