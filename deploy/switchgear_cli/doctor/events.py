"""The check of the stored calls: if there are none, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from switchgear_cli.discovery import System
from switchgear_cli.doctor.checks import Finding, joined
from switchgear_cli.reads.client import ApiAnswerError, ApiClient, ApiUnavailableError
from switchgear_schemas.settings import Settings

HOURS: Final = 1
_SHOWN: Final = 3
"""Libraries, and reasons, to name."""
_NONE: Final = "No call was stored in the last hour."
_START: Final = "Call a guarded tool, or point an exporter at a gateway (docs/reference/otlp.md)."


def gateway_of(system: System) -> str:
    """Return the address of the gateway: that of the settings, or of the ``up`` that was found. Empty if it isn't known."""
    found = "" if system.up is None else system.up.gateway_url
    return system.settings.gateway_url or found


def events_finding(settings: Settings, gateway_url: str, limit_s: float) -> Finding:
    """Ask the API for calls of the last hour. If there are none, ask the gateway what arrived there instead."""
    with ApiClient.of(settings, total_s=limit_s / 2) as api:
        reports = api.tools(hours=HOURS).get("tool_reports", [])
    tools = sum(1 for each in reports if each.get("total_calls") or each.get("rejected_calls"))
    if tools:
        return Finding("ok", f"Calls of {_counted(tools, 'tool')} were stored in the last hour.")
    if not gateway_url:
        todo = "If traces or events go to a gateway, give SWITCHGEAR_GATEWAY_URL: it says what arrived there."
        return Finding("warn", _NONE, f"{_START}\n{todo}")
    try:
        with ApiClient.of(settings, gateway_url, total_s=limit_s / 2) as gateway:
            sources = gateway.sources()
    except (ApiUnavailableError, ApiAnswerError) as error:
        todo = "Start it, or correct SWITCHGEAR_GATEWAY_URL and SWITCHGEAR_TOKEN."
        return Finding("warn", f"{_NONE} The gateway at {gateway_url} does not say why: {error.message}", todo)
    return why_no_rows(gateway_url, sources)


def why_no_rows(gateway_url: str, sources: Mapping[str, Any]) -> Finding:
    """Return why no call was stored, the worst reason first.

    Args:
        gateway_url: The gateway's address.
        sources: Its answer to ``GET /v1/sources``.
    """
    reasons = [_unmatched(each) for each in _first(sources, "unmatched")]
    reasons += [_refused(each) for each in _first(sources, "refused")]
    return joined([Finding("warn", _NONE), *(reasons or [_arrived(gateway_url, sources)])], _NONE)


def _unmatched(each: Mapping[str, Any]) -> Finding:
    example = f" (such as “{each['example']}”)" if each.get("example") else ""
    what = f"{_counted(each.get('spans', 0), 'span')} of the library {each.get('scope') or 'without a name'}"
    seen = f"{what} look like tool calls{example}, and no convention that is read covers them."
    todo = "Set gen_ai.operation.name = execute_tool and gen_ai.tool.name on them, or guard the tools (docs/reference/otlp.md)."
    return Finding("warn", seen, todo)


def _refused(each: Mapping[str, Any]) -> Finding:
    seen = f"The gateway refused {_counted(each.get('calls', 0), 'call')}: {each.get('why', '')}."
    return Finding("warn", seen, "Correct it where the spans or logs are made.")


def _arrived(gateway_url: str, sources: Mapping[str, Any]) -> Finding:
    records, calls = sources.get("records", 0), sources.get("calls", 0)
    if calls:
        seen = f"The gateway at {gateway_url} has sent {_counted(calls, 'call')} to Kafka since it started."
        return Finding(
            "warn", seen, "If calls were made in the last hour, look at the checks of the sink and of Kafka."
        )
    if records:
        seen = f"The gateway at {gateway_url} got {_counted(records, 'span or log record', 'spans and log records')}, none of a tool call."
        return Finding("warn", seen, "Instrument the framework that calls the tools, and export without sampling.")
    return Finding("warn", f"No span or log record reached the gateway at {gateway_url} since it started.", _START)


def _first(sources: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = sources.get(name)
    return [each for each in found if isinstance(each, Mapping)][:_SHOWN] if isinstance(found, list) else []


def _counted(number: object, one: str, many: str = "") -> str:
    return f"1 {one}" if number == 1 else f"{number} {many or one + 's'}"
