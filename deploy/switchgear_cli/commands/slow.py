"""``switchgear slow``: the slowest calls."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from switchgear_cli.reads import formats, output, tables
from switchgear_cli.reads.client import connect


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
        hours: How far back, in hours; everything stored where not given.
        api_url: Where the HTTP API is.
        json: One JSON document instead of a table.
    """
    with connect(api_url) as api:
        answer = api.slow(threshold_ms, limit, tool, hours)
    if json:
        output.show_json(answer)
    else:
        nothing = f"No call took longer than {formats.duration(threshold_ms)}."
        output.show(tables.executions(answer["executions"], nothing))
