"""The commands that read: ``switchgear tools | tool | circuits | errors | slow | sql``."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from switchgear_cli.reads import formats, output, tables
from switchgear_cli.reads.client import connect


def tools(
    *,
    hours: Annotated[float, Parameter(validator=Number(gt=0))] = 1,
    api_url: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """List the tools with their calls, errors and latency.

    Args:
        hours: How far back, in hours.
        api_url: Where the HTTP API is.
        json: One JSON document instead of a table.
    """
    with connect(api_url) as api:
        answer = api.tools(hours)
    if json:
        output.show_json(answer)
    else:
        output.show(tables.tools(answer))


def tool(
    name: str,
    /,
    *,
    hours: Annotated[float, Parameter(validator=Number(gt=0))] = 1,
    api_url: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Report one tool's health: verdict, figures, circuits, errors, and what to do.

    Args:
        name: Name of the tool.
        hours: How far back, in hours.
        api_url: Where the HTTP API is.
        json: One JSON document instead of text.
    """
    with connect(api_url) as api:
        answer = api.tool(name, hours)
    if json:
        output.show_json(answer)
    else:
        output.show(tables.tool(answer))


def circuits(
    circuit_id: str | None = None,
    /,
    *,
    history: Annotated[bool, Parameter(negative=())] = False,
    limit: Annotated[int, Parameter(validator=Number(gte=1))] = 50,
    api_url: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """List the circuits and their state, those that refuse calls first; or, with --history, what changed.

    Args:
        circuit_id: Only this circuit's history.
        history: The changes, newest first, instead of the state.
        limit: Changes at most.
        api_url: Where the HTTP API is.
        json: One JSON document instead of a table.
    """
    with connect(api_url) as api:
        changes = history or circuit_id is not None
        answer = api.circuit_history(circuit_id, limit) if changes else api.circuits()
    if json:
        output.show_json(answer)
    else:
        output.show(tables.circuit_history(answer) if changes else tables.circuits(answer))


def errors(
    *,
    tool: str | None = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1))] = 20,
    api_url: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """List the latest errors and timeouts, newest first.

    Args:
        tool: Only this tool's.
        limit: Errors at most.
        api_url: Where the HTTP API is.
        json: One JSON document instead of a table.
    """
    with connect(api_url) as api:
        answer = api.errors(tool, limit)
    if json:
        output.show_json(answer)
    else:
        output.show(tables.executions(answer["errors"], "No errors are stored."))
        if (newest := answer["newest_event_at"]) is not None:
            output.show(f"The newest stored event came {formats.ago(newest, None)}.")


def slow(
    *,
    threshold_ms: float = 5000,
    limit: Annotated[int, Parameter(validator=Number(gte=1))] = 20,
    tool: str | None = None,
    hours: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    api_url: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """List the slowest calls, slowest first.

    Args:
        threshold_ms: Only calls that took longer, in milliseconds.
        limit: Calls at most.
        tool: Only this tool's.
        hours: How far back, in hours. By default everything stored.
        api_url: Where the HTTP API is.
        json: One JSON document instead of a table.
    """
    with connect(api_url) as api:
        answer = api.slow(threshold_ms, limit, tool, hours)
    if json:
        output.show_json(answer)
    else:
        nothing = f"No call took longer than {formats.duration(threshold_ms)}."
        output.show(tables.executions(answer["executions"], nothing, by_duration=True))


def sql(
    query: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    api_url: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Run one read-only SELECT on the stored data; docs/sql.md has the tables and a dozen worked queries.

    Args:
        query: The query; - reads it from standard input.
        api_url: Where the HTTP API is.
        json: One JSON document (columns, rows, truncated) instead of a table.
    """
    with connect(api_url) as api:
        answer = api.sql(sys.stdin.read() if query == "-" else query)
    if json:
        output.show_json(answer)
    else:
        output.show_rows(answer)
