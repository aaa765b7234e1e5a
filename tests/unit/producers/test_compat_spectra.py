"""from_spectra keeps what Spectra's page on tool resilience promises."""

from __future__ import annotations

from datetime import timedelta

import pytest

from switchgear import CircuitChange, CircuitOpenError, FunctionHooks, OptionError, SwitchgearError
from switchgear.compat import FallbackUsed, SpectraOptions, from_spectra
from tests.support.table import table
from tests.support.waiting import until

COOLDOWN = 0.1


class Tool:
    """A tool that succeeds or fails, and counts its calls."""

    def __init__(self, answer="answered"):
        self.answer = answer
        self.error: Exception | None = ConnectionError("the MCP server is down")
        self.calls = 0

    def __call__(self, *_args):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return self.answer


def quick(opts):
    opts.failure_threshold = 3
    opts.cooldown_period = timedelta(seconds=COOLDOWN)


def fail(tool, times=3):
    for _ in range(times):
        with pytest.raises(ConnectionError):
            tool()


def after_cooldown(gear, name):
    until(lambda: not gear.is_open(name))


# -- enable tool resilience -------------------------------------------------------------------------------------------


def test_options_set_threshold_and_cooldown():
    def configure(opts):
        opts.failure_threshold = 3
        opts.cooldown_period = timedelta(seconds=30)

    down = Tool()
    tools = from_spectra(configure).guard_all({"external_search": down})
    fail(tools["external_search"], 3)
    with pytest.raises(CircuitOpenError) as refused:
        tools["external_search"]()
    assert down.calls == 3
    assert 29 < refused.value.retry_after_s <= 30


def test_each_tool_has_its_own_circuit():
    down, up = Tool(), Tool()
    up.error = None
    tools = from_spectra(quick).guard_all({"down": down, "up": up})
    fail(tools["down"])
    with pytest.raises(CircuitOpenError):
        tools["down"]()
    assert tools["up"]() == "answered"


# -- options and their defaults ---------------------------------------------------------------------------------------


def test_defaults_are_those_of_spectra():
    options = SpectraOptions()
    assert options.failure_threshold == 5
    assert options.cooldown_period == timedelta(seconds=60)
    assert options.half_open_max_attempts == 1
    assert options.success_threshold_to_close == 1
    assert options.fallback_tools == {}


def test_opens_after_five_consecutive_failures_for_sixty_seconds_by_default():
    down = Tool()
    gear = from_spectra()
    (tool,) = gear.guard_all({"t": down}).values()
    fail(tool, 4)
    down.error = None
    tool()  # a success ends the run of failures
    down.error = ConnectionError()
    fail(tool, 5)
    with pytest.raises(CircuitOpenError) as refused:
        tool()
    assert 59 < refused.value.retry_after_s <= 60


def test_every_failure_counts():
    down = Tool()
    down.error = ValueError("no such city")
    (tool,) = from_spectra(quick).guard_all({"t": down}).values()
    for _ in range(3):
        with pytest.raises(ValueError, match="no such city"):
            tool()
    with pytest.raises(CircuitOpenError):
        tool()


def test_cooldown_may_be_a_number_of_seconds():
    assert SpectraOptions(cooldown_period=2.5).policy().wait_duration_in_open_state_s == 2.5


# -- closed, open, half-open ------------------------------------------------------------------------------------------


def test_successful_probe_closes_the_circuit_after_the_cooldown():
    flaky = Tool()
    gear = from_spectra(quick)
    (tool,) = gear.guard_all({"t": flaky}).values()
    fail(tool)
    after_cooldown(gear, "t")
    flaky.error = None
    assert tool() == "answered"
    assert gear.status().local == {}


def test_failed_probe_opens_the_circuit_again():
    down = Tool()
    gear = from_spectra(quick)
    (tool,) = gear.guard_all({"t": down}).values()
    fail(tool)
    after_cooldown(gear, "t")
    fail(tool, 1)
    with pytest.raises(CircuitOpenError):
        tool()
    assert down.calls == 4


@pytest.mark.parametrize("attempts", [1, 3])
def test_half_open_circuit_allows_the_configured_number_of_probes(attempts):
    def configure(opts):
        quick(opts)
        opts.half_open_max_attempts = attempts

    gear = from_spectra(configure)
    for _ in range(3):
        gear.try_acquire("t").failure(ConnectionError())
    after_cooldown(gear, "t")
    probes = [gear.try_acquire("t") for _ in range(attempts + 5)]
    assert sum(bool(probe) for probe in probes) == attempts
    for probe in probes[:attempts]:
        probe.release()


def test_closes_after_the_configured_number_of_successful_probes():
    def configure(opts):
        quick(opts)
        opts.success_threshold_to_close = 3

    gear = from_spectra(configure)
    for _ in range(3):
        gear.try_acquire("t").failure(ConnectionError())
    after_cooldown(gear, "t")
    for state in ("half_open", "half_open", "closed"):
        gear.try_acquire("t").success()
        assert gear.status().local.get("t", "closed") == state


# -- fallback tools ---------------------------------------------------------------------------------------------------


def with_fallbacks(opts):
    quick(opts)
    opts.fallback_tools["mcp:weather-api:get_forecast"] = "mcp:backup-weather:get_forecast"
    opts.fallback_tools["external_search"] = "local_search"


def test_calls_the_fallback_while_the_circuit_is_open():
    primary, backup = Tool(), Tool("from the backup")
    backup.error = None
    tools = from_spectra(with_fallbacks).guard_all(
        {"mcp:weather-api:get_forecast": primary, "mcp:backup-weather:get_forecast": backup},
    )
    fail(tools["mcp:weather-api:get_forecast"])
    assert backup.calls == 0  # not before it is open
    assert tools["mcp:weather-api:get_forecast"]("Oslo") == "from the backup"
    assert (primary.calls, backup.calls) == (3, 1)


def test_probes_the_primary_tool_after_the_cooldown():
    primary, backup = Tool("from the primary"), Tool("from the backup")
    backup.error = None
    gear = from_spectra(with_fallbacks)
    tools = gear.guard_all({"external_search": primary, "local_search": backup})
    fail(tools["external_search"])
    assert tools["external_search"]() == "from the backup"
    primary.error = None
    after_cooldown(gear, "external_search")
    assert tools["external_search"]() == "from the primary"


# -- events -----------------------------------------------------------------------------------------------------------


class Sink:
    def __init__(self):
        self.events = []

    def publish(self, event):
        self.events.append(event)


@pytest.mark.parametrize("as_function", [False, True])
def test_event_sink_receives_changes_and_fallbacks(as_function):
    sink = Sink()
    primary, backup = Tool(), Tool()
    backup.error = None
    gear = from_spectra(with_fallbacks, event_sink=sink.publish if as_function else sink)
    tools = gear.guard_all({"external_search": primary, "local_search": backup})
    fail(tools["external_search"])
    tools["external_search"]()
    primary.error = None
    after_cooldown(gear, "external_search")
    tools["external_search"]()
    changes = [(event.tool, event.previous, event.state) for event in sink.events if isinstance(event, CircuitChange)]
    assert changes == [
        ("external_search", "closed", "open"),
        ("external_search", "open", "half_open"),
        ("external_search", "half_open", "closed"),
    ]
    assert FallbackUsed("external_search", "local_search") in sink.events


def test_failing_event_sink_does_not_fail_the_call():
    up = Tool()

    def broken(_event):
        raise RuntimeError("sink is full")

    gear = from_spectra(quick, event_sink=broken)
    (tool,) = gear.guard_all({"t": up}).values()
    fail(tool)
    assert gear.status().local == {"t": "open"}


# -- around it --------------------------------------------------------------------------------------------------------


async def test_wraps_coroutine_functions():
    async def down():
        raise ConnectionError

    (tool,) = from_spectra(SpectraOptions(failure_threshold=1)).guard_all({"t": down}).values()
    with pytest.raises(ConnectionError):
        await tool()
    with pytest.raises(CircuitOpenError):
        await tool()


def test_passes_other_arguments_to_the_client():
    errors = []
    gear = from_spectra(quick, classify=errors.append, parameters_key=b"k")
    gear.try_acquire("t").failure(KeyError("x"))
    assert len(errors) == 1


@table(
    ("option", "value"),
    [
        ("failure_threshold", 0),
        ("failure_threshold", True),
        ("half_open_max_attempts", 0),
        ("success_threshold_to_close", 1.5),
        ("cooldown_period", timedelta(0)),
        ("cooldown_period", -1),
        ("cooldown_period", "60"),
        ("cooldown_period", None),
        ("cooldown_period", True),
    ],
)
def test_names_an_option_that_is_out_of_range(option, value):
    with pytest.raises(OptionError, match=option):
        from_spectra(SpectraOptions(**{option: value}))


def test_rejects_fallback_tools_that_are_not_a_dict():
    with pytest.raises(SwitchgearError, match="Fallbacks must be a dict by tool"):
        from_spectra(SpectraOptions(fallback_tools=["a"]))


def test_rejects_an_impossible_event_sink():
    with pytest.raises(OptionError, match="event_sink"):
        from_spectra(event_sink=5)


def test_rejects_impossible_options_and_hooks():
    with pytest.raises(OptionError, match="configure"):
        from_spectra(5)
    for hooks in (5, [print], FunctionHooks()):
        with pytest.raises(SwitchgearError, match="hooks"):
            from_spectra(hooks=hooks)


async def configure_later(opts):
    opts.failure_threshold = 1


def configure_in_steps(opts):
    opts.failure_threshold = 1
    yield


@pytest.mark.parametrize(
    ("configure", "said"),
    [
        (configure_later, "configure must be a plain function.*leave out the async"),
        (configure_in_steps, "configure must be a plain function"),
    ],
)
def test_rejects_what_would_leave_the_defaults_in_force(configure, said):
    with pytest.raises(SwitchgearError, match=said):
        from_spectra(configure)


def test_configure_may_return_the_options_that_it_set():
    def configure(opts):
        opts.failure_threshold = 1
        return opts

    (tool,) = from_spectra(configure).guard_all({"t": Tool()}).values()
    fail(tool, 1)
    with pytest.raises(CircuitOpenError):
        tool()


def test_rejects_tools_without_names():
    with pytest.raises(OptionError, match=r"tools must be a dict of functions by their tools' names, not \[<built-in"):
        from_spectra().guard_all([len])


def test_wraps_tools_with_other_options_of_the_client():
    assert from_spectra().with_options(single_flight=True).guard_all({"a": len})["a"]("four") == 4


def test_fallback_is_the_function_of_the_same_agent():
    def tools_of(gear, user):
        down = Tool()
        return gear.guard_all({"external_search": down, "local_search": lambda: f"data of {user}"})

    gear = from_spectra(with_fallbacks)
    ana, bob = tools_of(gear, "ana"), tools_of(gear, "bob")
    fail(ana["external_search"])
    assert (ana["external_search"](), bob["external_search"]()) == ("data of ana", "data of bob")


def test_fallback_may_be_guarded_elsewhere():
    gear = from_spectra(with_fallbacks)
    gear.guard("local_search")(lambda: "guarded elsewhere")
    (tool,) = gear.guard_all({"external_search": Tool()}).values()
    fail(tool)
    assert tool() == "guarded elsewhere"
