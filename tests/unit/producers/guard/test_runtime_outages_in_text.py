"""The option ``outages_in_text``: an error that a tool answers is the tool's, unless the user trusts its texts."""

from __future__ import annotations

import pytest

from switchgear import BreakerPolicy, GuardOptions, OptionError, Switchgear

DEAD_LINK = "Failed to fetch http://203.0.113.9/: ConnectError('All connection attempts failed')"
REFUSAL = "The tool search is unavailable (circuit open). Its last error was: timed out. Do not call it again now."


def failed(text, **fields):
    return {"isError": True, "content": [{"type": "text", "text": text}]} | fields


def client(**options):
    return Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=2), **options)


def test_answered_errors_of_five_dead_links_open_neither_the_tool_nor_its_server():
    gear = Switchgear.local()
    fetch = gear.guard("mcp:fetch:fetch")(lambda _url: failed(DEAD_LINK))
    for number in range(5):
        fetch(f"http://203.0.113.{number}/")
        gear.call("mcp:fetch:head", failed, DEAD_LINK)
    assert not gear.is_open("mcp:fetch:fetch")
    assert not gear.is_open("mcp:fetch:another")


def test_the_output_of_a_shell_about_a_refused_connection_is_the_tools_error():
    gear = client()
    for _ in range(5):
        gear.call("shell", failed, "1 failed: test_db: psycopg.OperationalError: connection refused")
    assert not gear.is_open("shell")


@pytest.mark.parametrize("tool", ["mcp:db:query", "plain"])
async def test_the_texts_of_tools_that_a_glob_names_open_their_circuits_however_they_are_called(tool):
    async def broken():
        return failed("connection refused")

    for make in (
        lambda gear: gear.call(tool, failed, "connection refused"),
        lambda gear: gear.acall(tool, broken),
        lambda gear: gear.guard(tool)(failed)("connection refused"),
        lambda gear: gear.guard(tool)(broken)(),
        lambda gear: gear.with_options(timeout=5).acall(tool, broken),
    ):
        for globs, opens in ((["mcp:db:*", "pl?in"], True), (["mcp:weather:*"], False), ([], False)):
            gear = client(outages_in_text=globs)
            for _ in range(2):
                made = make(gear)
                if not isinstance(made, dict):
                    await made
            assert gear.is_open(tool) is opens


def test_calls_of_a_session_follow_the_option_of_the_client():
    gear = client(outages_in_text=["a"])
    with gear.session():
        for tool in ("a", "a", "b", "b"):
            gear.call(tool, failed, "connection refused")
        assert gear.is_open("a")
        assert not gear.is_open("b")


def test_a_rule_of_the_user_for_results_goes_before_the_option():
    gear = client(outages_in_text=["*"], defaults=GuardOptions(classify_result=lambda _result: None))
    for _ in range(3):
        gear.call("t", failed, "connection refused")
    assert not gear.is_open("t")


def test_the_class_of_a_text_can_be_asked_for():
    gear = client(outages_in_text=["a"])
    assert gear.classify_text("a", "connection refused").error_class == "transport"
    assert gear.classify_text("b", "connection refused") is None
    assert gear.classify_text("b", REFUSAL).error_class == "policy"


@pytest.mark.parametrize("globs", ["mcp:*", "", b"mcp:*", 3, None, [1], [""], ["a", None]])
def test_a_text_in_place_of_a_list_and_what_is_no_glob_are_refused_when_the_client_is_made(globs):
    with pytest.raises(OptionError, match="outages_in_text") as caught:
        Switchgear.local(outages_in_text=globs)
    assert 'outages_in_text=["mcp:weather:*"]' in str(caught.value)


def test_a_client_keeps_the_globs_that_it_was_made_with():
    globs = ["a"]
    gear = client(outages_in_text=globs)
    globs.append("b")
    assert gear.classify_text("b", "connection refused") is None


def test_the_setting_has_globs_between_commas_and_an_argument_replaces_it(monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_LOCAL", "true")
    monkeypatch.setenv("SWITCHGEAR_OUTAGES_IN_TEXT", "mcp:db:*, plain")
    for gear, tools in (
        (Switchgear.from_env(), ["mcp:db:x", "plain"]),
        (Switchgear.from_env(outages_in_text=["other"]), ["other"]),
    ):
        trusted = [t for t in ("mcp:db:x", "plain", "other") if gear.classify_text(t, "connection refused")]
        assert trusted == tools
