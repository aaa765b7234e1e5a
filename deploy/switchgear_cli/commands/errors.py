"""``switchgear errors``: the newest errors."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from switchgear_cli.reads import output, tables
from switchgear_cli.reads.client import connect


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
