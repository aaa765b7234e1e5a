"""``switchgear circuits``: every circuit and its state."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from switchgear_cli.reads import output, tables
from switchgear_cli.reads.client import connect


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
