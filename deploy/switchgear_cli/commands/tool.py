"""``switchgear tool NAME``: one tool's health."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from switchgear_cli.reads import output, tables
from switchgear_cli.reads.client import connect


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
