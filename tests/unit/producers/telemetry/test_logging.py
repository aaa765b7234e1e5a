"""LoggingHooks writes log records with fields."""

from __future__ import annotations

import logging

import pytest

from switchgear import CircuitOpenError, Rejection, Switchgear, SwitchgearError
from switchgear.telemetry.logging import LoggingHooks
from switchgear_schemas.policy import BreakerPolicy
from tests.support.table import table
from tests.support.unseen import HOSTILE, unseen


def broken() -> None:
    raise ConnectionError("down")


def said(caplog: pytest.LogCaptureFixture, logger: str) -> list[logging.LogRecord]:
    """Return the records of ``logger``. Threads of other tests may log at the same time."""
    return [record for record in caplog.records if record.name == logger]


def test_logs_an_opening_circuit_as_a_warning_with_fields(caplog: pytest.LogCaptureFixture) -> None:
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=2), hooks=[LoggingHooks()])
    with caplog.at_level(logging.DEBUG, "switchgear.circuits"):
        for _ in range(2):
            with pytest.raises(ConnectionError):
                gear.call("search", broken)
        with pytest.raises(CircuitOpenError):
            gear.call("search", broken)
    change, refusal = said(caplog, "switchgear.circuits")
    assert (change.levelname, refusal.levelname) == ("WARNING", "DEBUG")
    assert change.getMessage() == "the local circuit of search is open (consecutive_failures)"
    fields = vars(change)
    assert (fields["tool"], fields["circuit_id"], fields["state"], fields["previous_state"]) == (
        "search", "search", "open", "closed",
    )  # fmt: skip
    assert (vars(refusal)["tool"], vars(refusal)["source"]) == ("search", "local")


def test_logs_a_closing_circuit_a_fallback_and_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    gear = Switchgear.local(
        local_policies=BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=0.01),
        hooks=[LoggingHooks(logging.getLogger("mine"))],
    )
    with caplog.at_level(logging.INFO, "mine"):
        with pytest.raises(ConnectionError):
            gear.call("a", broken)
        refusal = gear.try_acquire("a")
        while not refusal:
            refusal = gear.try_acquire("a")
        refusal.success()  # type: ignore[union-attr]
        LoggingHooks(logging.getLogger("mine")).on_drop(3)
    records = said(caplog, "mine")
    assert [(record.levelname, vars(record).get("state")) for record in records] == [
        ("WARNING", "open"),
        ("INFO", "half_open"),
        ("INFO", "closed"),
        ("ERROR", None),
    ]
    assert vars(records[-1])["dropped"] == 3


def test_structlog_shows_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    import structlog  # noqa: PLC0415 - of this test alone

    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1), hooks=[LoggingHooks()])
    with caplog.at_level(logging.INFO, "switchgear.circuits"), pytest.raises(ConnectionError):
        gear.call("search", broken)
    event = structlog.stdlib.ExtraAdder()(None, "", {"event": "x", "_record": said(caplog, "switchgear.circuits")[0]})
    assert (event["tool"], event["state"], event["source"]) == ("search", "open", "local")


class Kept:
    """Collects the events of structlog."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []

    def __call__(self, _logger: object, level: str, event: dict[str, object]) -> str:
        self.events.append({"level": level, **event})
        return ""


@pytest.mark.parametrize("kind", ["plain", "stdlib"])
def test_binds_the_fields_to_a_logger_of_structlog_or_loguru(kind: str) -> None:
    import structlog  # noqa: PLC0415 - of this test alone

    kept = Kept()
    wrapper = structlog.stdlib.BoundLogger if kind == "stdlib" else structlog.make_filtering_bound_logger(logging.DEBUG)
    logger = structlog.wrap_logger(logging.getLogger("structlog"), processors=[kept], wrapper_class=wrapper)
    hooks = LoggingHooks(logger)
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1), hooks=[hooks])
    with pytest.raises(ConnectionError):
        gear.call("search {x} %s", broken)
    assert not gear.try_acquire("search {x} %s")
    hooks.on_fallback(Rejection("a", "open", "local"), "b")
    hooks.on_drop(3)
    assert gear.status().hook_failures == 0
    assert [(event["level"], event["event"]) for event in kept.events] == [
        ("warning", "the local circuit of search {x} %s is open (consecutive_failures)"),
        ("debug", "a call of search {x} %s was refused"),
        ("info", "b is called instead of a"),
        ("error", "3 events were dropped"),
    ]
    opened, refused, instead, lost = kept.events
    assert (opened["tool"], opened["state"], refused["source"]) == ("search {x} %s", "open", "local")
    assert (instead["fallback_tool"], lost["dropped"]) == ("b", 3)


@table("wrong", ["x", 5, print, logging, logging.LoggerAdapter(logging.getLogger("mine"), {})])
def test_rejects_what_is_not_a_logger(wrong: object) -> None:
    with pytest.raises(SwitchgearError, match=r"logger must be a logging\.Logger"):
        LoggingHooks(wrong)  # type: ignore[arg-type]


def test_escapes_control_characters_in_the_name_of_a_tool(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gear = Switchgear.local(local_policies=BreakerPolicy(consecutive_failures=1), hooks=[LoggingHooks()])
    name = f"{HOSTILE}\nWARNING forged"
    with caplog.at_level(logging.DEBUG, "switchgear.circuits"), pytest.raises(ConnectionError):
        gear.call(name, broken)
    (change,) = said(caplog, "switchgear.circuits")
    assert not unseen(change.getMessage())
    assert "\n" not in change.getMessage()
    assert vars(change)["tool"] == name
