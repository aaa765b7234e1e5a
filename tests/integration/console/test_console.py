"""The console in a real browser over a real system."""

from __future__ import annotations

import json
import re
from uuid import uuid4

import psutil
import pytest
from playwright.sync_api import expect

from tests.integration.console.conftest import calls
from tests.support import waiting
from tests.support.browser import axe_script, needs_browser
from tests.support.limits import HAPPEN_S, READY_S
from tests.support.processes import python

pytestmark = [pytest.mark.deep, pytest.mark.timeout(600), needs_browser]

expect.set_options(timeout=60_000)  # two processors, shared with everything else that runs
BROKEN = 40
LOADS = (
    "performance.getEntriesByType('resource').filter((each) => each.name.endsWith('/v1/console/now?minutes=60')).length"
)
POLICIES = (
    "fetch('/v1/policies').then((answer) => answer.json())"
    ".then((policies) => (policies.overrides ?? []).filter((each) => each.pattern === 'search'))"
)
# Of these rules alone, and without a selector for each element that passes: a tenth of the time on long pages.
AXE = (
    "{resultTypes: ['violations'], iframes: false,"
    " runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']}}"
)
GUARD = """
import time
from switchgear import CircuitOpenError, Switchgear

gear = Switchgear.from_env(service="other-process", start_wait_s=60)


@gear.guard("forced")
def forced():
    return "called"

while True:
    try:
        print(forced(), flush=True)
    except CircuitOpenError:
        print("refused", flush=True)
    time.sleep(0.1)
"""


@pytest.fixture(scope="module", autouse=True)
def traffic(system):
    """A healthy fleet, stored before the first page is opened."""
    healthy = [call for name in ("search", "mcp:weather:now", "mcp:weather:week", "forced") for call in calls(name, 30)]
    system.send(*healthy)
    system.up.child.wait_until(lambda: system.up.count() >= len(healthy), "stored", READY_S)


def card(page, tool):
    return page.get_by_role("article", name=tool, exact=True)


def carry_out(page, reason, button):
    """Give the reason in the open dialog, and carry out."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=button).click()
    expect(dialog).to_have_count(0)


def choose(row, command):
    """Choose a command of a tool's page or card, as a button or from the list of rare ones."""
    button = row.get_by_role("button", name=command)
    if button.count():
        button.click()
    else:
        row.get_by_label(re.compile("More commands")).select_option(label=command)


def test_tool_that_starts_to_fail_moves_to_the_top_while_an_operator_watches(system, open_window):
    page = open_window().log_in(system.operator)
    expect(page.get_by_role("row", name=re.compile("search"))).to_be_visible()
    expect(card(page, "search")).to_have_count(0)

    system.send(*calls("search", BROKEN, "error"))

    expect(card(page, "search")).to_be_visible()
    first = page.get_by_role("article").first
    expect(first).to_contain_text("Open")
    expect(first).to_contain_text("502 Bad Gateway")
    expect(first).to_contain_text(re.compile(r"failed|failure", re.IGNORECASE))
    expect(page.locator(".headline")).to_contain_text("refuse")
    expect(first).to_contain_text(f"{BROKEN} of")  # the numbers follow the circuit
    expect(first.locator(".advice")).to_be_visible()
    expect(page.locator("#announcements")).to_contain_text("search: Open")


def test_forced_open_tool_is_refused_in_another_process_until_the_command_is_undone(system, open_window, tmp_path):
    extra = {"SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS": system.bootstrap}
    with python(GUARD, log=tmp_path / "guard.log", extra=extra) as guard:
        guard.wait_for_output("called", READY_S)
        page = open_window().log_in(system.operator, "/tool/forced")
        expect(page.get_by_text("Who calls it")).to_be_visible()

        choose(page.get_by_label("State", exact=True), "Force open")
        expect(page.get_by_role("dialog")).to_contain_text("Forced open")  # what will change
        expect(page.get_by_role("dialog").get_by_role("button", name="Force open")).to_be_disabled()
        carry_out(page, "Provider is down, INC-77", "Force open")
        expect(page.get_by_label("State", exact=True)).to_contain_text("Forced open")
        expect(page.get_by_label("State", exact=True)).to_contain_text("INC-77")
        guard.wait_for_output("refused", READY_S)

        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_label("State", exact=True)).to_contain_text("Closed")
        refused = guard.output().count("called")
        guard.wait_until(lambda: guard.output().count("called") > refused, "calling again", HAPPEN_S)

    page.keyboard.press("g")
    page.keyboard.press("a")
    row = page.get_by_role("row", name=re.compile("INC-77")).first
    expect(row).to_contain_text("forced")
    expect(page.get_by_role("row", name=re.compile("maria"))).to_have_count(2)


def test_policy_is_replayed_beside_the_present_one_then_applied_to_watch_and_undone(system, open_window):
    page = open_window().log_in(system.operator, "/lab?pattern=search")
    field = page.get_by_label("Failures in a row")
    field.fill("3")
    field.press("Tab")
    expect(page.get_by_label("What changes")).to_contain_text("consecutive failures")
    page.get_by_role("button", name="Replay").click()
    result = page.get_by_label("Replay", exact=True)
    opened = re.compile(r"would have opened [1-9]")
    expect(result).to_contain_text(opened)
    expect(result.get_by_role("row", name=re.compile("Calls saved"))).to_be_visible()
    assert "consecutive_failures" in page.url  # a link to it shows the same
    apply = page.get_by_role("button", name="Apply as metrics only")
    field.fill("2")
    field.press("Tab")
    expect(apply).to_have_count(0)  # this policy was not replayed
    field.fill("3")
    field.press("Tab")

    apply.click()
    expect(page.get_by_role("dialog")).to_contain_text("metrics_only")
    carry_out(page, "Watch three in a row", "Apply as metrics only")
    page.wait_for_function(f"{POLICIES}.then((set) => set.some((each) => each.values.mode === 'metrics_only'))")
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("button", name="Replay")).to_be_enabled()
    expect(result).to_contain_text(opened)  # as when it is enforced, though it is only watched now

    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone")).to_be_visible()
    page.wait_for_function(f"{POLICIES}.then((set) => !set.some((each) => each.values.mode))")


def test_dead_letter_is_found_repaired_and_stored(system, open_window):
    identity = str(uuid4())
    bad = {"metric_id": identity, "tool_name": "repaired", "status": "great", "execution_time_ms": 3}
    system.send(json.dumps(bad).encode())
    page = open_window().log_in(system.operator, "/dead")
    row = page.get_by_role("row", name=re.compile("status"))
    for _ in range(60):  # the page looks when it is asked
        if row.count():
            break
        page.get_by_role("button", name="Search", exact=True).last.click()
        page.wait_for_timeout(500)
    row.first.get_by_role("button").click()
    value = page.get_by_label(re.compile("^Value"))
    expect(value).to_have_value(re.compile('"great"'))

    value.fill("{")
    expect(page.get_by_text("It isn't JSON")).to_be_visible()
    value.fill(json.dumps(bad | {"status": "success"}))
    page.get_by_label("Reason", exact=False).last.fill("The status was misspelt")
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_text("Sent again", exact=True)).to_be_visible()
    query = f"SELECT count() FROM tool_metrics WHERE metric_id = '{identity}'"
    system.up.child.wait_until(lambda: system.up.value(query) == 1, "stored", HAPPEN_S)


def test_session_that_ended_leads_to_the_login_and_back_to_the_same_page(system, open_window):
    window = open_window()
    page = window.log_in(system.operator, "/calls?tool=search")
    expect(page.get_by_role("row", name=re.compile("search")).first).to_be_visible()
    window.context.clear_cookies()
    page.get_by_label("Status").select_option("error")
    expect(page.get_by_role("heading", name="Log in to the console")).to_be_visible()
    page.get_by_label("Token").fill("sgt_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Token").fill(system.operator)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("row", name=re.compile("error")).first).to_be_visible()
    assert page.url.endswith("/calls?tool=search&status=error")


def test_who_logs_in_after_another_sees_nothing_that_the_other_was_still_loading(system, open_window):
    window = open_window()
    held = []

    def hold_the_first(route):
        answer = route.fetch()
        if held or not answer.ok:  # the login page asks, too
            route.fulfill(response=answer)
        else:
            held.append((route, answer))

    window.page.route("**/v1/console/now?minutes=60", hold_the_first)
    page = window.log_in(system.operator)
    waiting.until(lambda: page.wait_for_timeout(20) or held, HAPPEN_S)
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Token").fill(system.weather)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("link", name="now", exact=True).first).to_be_visible()
    (route, answer), asked = held[0], page.evaluate(LOADS)
    assert "search" in answer.text()
    route.fulfill(response=answer)
    waiting.until(lambda: page.evaluate(LOADS) > asked, HAPPEN_S)
    page.evaluate("new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)))")
    expect(page.get_by_role("link", name="week", exact=True).first).to_be_visible()
    expect(page.get_by_role("link", name="search", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="Log in to the console")).to_be_visible()


def test_viewer_has_no_buttons_and_the_api_refuses_what_the_page_does_not_offer(system, open_window):
    page = open_window().log_in(system.viewer, "/tool/forced")
    expect(page.get_by_text("Your role can look, not act.")).to_be_visible()
    expect(page.get_by_role("button", name="Force open")).to_have_count(0)
    expect(page.get_by_text("Viewer")).to_be_visible()
    asked = """async () => {
        const session = await (await fetch("/v1/session")).json();
        const send = (headers) => fetch("/v1/circuits/forced/commands", {
            method: "POST", headers: { "Content-Type": "application/json", ...headers },
            body: JSON.stringify({ command: "force_open", reason: "an attack" }),
        });
        return [(await send({ "X-CSRF-Token": session.csrf })).status, (await send({})).status];
    }"""
    assert page.evaluate(asked) == [403, 403]


def test_markup_in_names_and_errors_is_shown_as_text(system, open_window):
    attack = "<img src=x onerror=window.hacked=1>"
    tool = f"mcp:evil:{attack}"
    system.send(*calls(tool, BROKEN, "error", error_message=f"{attack}<script>window.hacked=1</script>"))
    window = open_window(bypass_csp=True)  # the policy of the page must not be what saves it
    page = window.log_in(system.operator)
    expect(card(page, tool)).to_contain_text(attack)
    page.keyboard.press("/")
    page.keyboard.type("evil")
    found = page.get_by_role("listbox", name="Found").get_by_role("option")
    expect(found).to_have_count(2)  # the tool, and its calls
    expect(found.first).to_contain_text(attack)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(attack)
    expect(page.get_by_label("Recent calls").first).to_contain_text("<script>")
    for path in ("/timeline", "/calls?text=hacked"):
        page.goto(path)
        expect(page.get_by_text(attack).first).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0


def test_keyboard_alone_finds_a_tool_and_forces_it_open_and_back(system, open_window):
    page = open_window().log_in(system.operator)
    expect(page.locator(".headline")).to_be_visible()  # the search finds tools once they are loaded
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.keyboard.press("/")
    page.keyboard.type("weather:week")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("week")
    state = page.get_by_label("State", exact=True)
    expect(state.get_by_role("button", name="Force open")).to_be_visible()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").startswith("Force open"):
            break
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Forced open")
    for _ in range(10):
        if page.evaluate("document.activeElement.tagName") == "TEXTAREA":
            break
        page.keyboard.press("Tab")
    page.keyboard.type("By keyboard")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(state).to_contain_text("Forced open")
    choose(state, "Auto")
    expect(page.get_by_label("What changes")).to_contain_text("Closed")
    carry_out(page, "Over", "Auto")
    expect(state).to_contain_text("Closed")

    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.locator(".headline")).to_be_visible()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.matches('main h3 a, main a[data-row]')")
    before = page.evaluate("document.documentElement.dataset.theme ?? 'system'")
    page.keyboard.press("T")
    assert page.evaluate("document.documentElement.dataset.theme") != before


@pytest.mark.parametrize(("theme", "narrow"), [("light", False), ("dark", True)])
def test_pages_are_accessible_fit_the_screen_and_log_no_errors(system, open_window, theme, narrow):
    script = axe_script()
    page = open_window(theme, narrow=narrow, bypass_csp=True).log_in(system.operator)
    found = []
    for path in (
        "/",
        "/tool/search",
        "/timeline",
        "/calls",
        "/calls?session=s1",
        "/lab?pattern=search",
        "/sql",
        "/dead",
        "/audit",
        "/system",
    ):
        page.goto(path)
        page.get_by_role("navigation", name="Pages").wait_for()
        expect(page.locator(".loading")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        if path == "/":  # the page uses what the browser loaded before the script ran
            assert page.evaluate(LOADS) == 1
        if path == "/system":
            expect(page.get_by_label("groups", exact=True)).to_contain_text("switchgear.worker")
            expect(page.get_by_label("servers", exact=True)).to_contain_text("yes")
        if path == "/sql":
            page.get_by_role("button", name="Run").click()
            expect(page.get_by_role("region", name="Rows")).to_be_visible()
        page.evaluate(script)
        result = page.evaluate(f"axe.run({AXE})")
        found += [
            (path, each["id"], each["nodes"][0]["html"][:200])
            for each in result["violations"]
            if each["impact"] in ("serious", "critical")
        ]
    assert found == []


def test_page_without_a_connection_says_so_and_recovers(system, open_window):
    page = open_window().log_in(system.operator)
    expect(page.get_by_text(re.compile("^Live"))).to_be_visible()
    banner = page.get_by_role("alert").filter(has_text="Disconnected from the API")
    api = psutil.Process(system.up.record()["pids"]["sink"])
    api.suspend()  # the browser's own "offline" leaves open streams as they are
    try:
        expect(banner).to_be_visible()
    finally:
        api.resume()
    expect(banner).to_have_count(0)
    expect(page.get_by_text(re.compile("^Live"))).to_be_visible()


def test_worker_that_stands_still_is_the_first_line_of_every_page_until_it_works_again(system, open_window):
    page = open_window().log_in(system.operator)
    expect(page.get_by_text(re.compile("^Live"))).to_be_visible()
    banner = page.get_by_role("alert").filter(has_text="worker-1 is not ready")
    worker = psutil.Process(system.up.record()["pids"]["worker-1"])
    worker.suspend()
    try:
        for path in ("/", "/tool/search", "/timeline", "/system"):
            page.goto(path)
            expect(banner).to_contain_text("Each process decides alone")
            expect(page.get_by_text("Not live: worker")).to_be_visible()
        page.goto("/")
        expect(page.locator(".headline")).to_contain_text("It is not known how they are now")
    finally:
        worker.resume()
    expect(banner).to_have_count(0)
    expect(page.get_by_text(re.compile("^Live"))).to_be_visible()
