"""``switchgear tools``: the health of every tool."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from switchgear_cli.reads import output, tables
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
