"""``switchgear sql "SELECT …"``: a read-only query."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from switchgear_cli.reads import output
from switchgear_cli.reads.client import connect


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
