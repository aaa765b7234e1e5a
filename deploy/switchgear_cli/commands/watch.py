"""``switchgear watch``: the circuits, live."""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from switchgear_cli.discovery import API, client_settings
from switchgear_cli.reads import output
from switchgear_cli.reads.client import ApiClient
from switchgear_cli.terminal import terminal_console
from switchgear_schemas.errors import SwitchgearError, WrongUsageError

_ANSWER_S: Final = 5.0


def watch(
    *,
    once: Annotated[bool, Parameter(negative=())] = False,
    interval: Annotated[float, Parameter(validator=Number(gte=0.2))] = 1,
    api_url: str | None = None,
) -> None:
    """Watch the circuits live: broken tools first, with the reason, since when, and when they are probed.

    q or Ctrl-C ends it. NO_COLOR turns colours off.

    Args:
        once: Print one frame and end, for scripts.
        interval: Seconds between two looks.
        api_url: Where the HTTP API is.
    """
    from switchgear_cli.watch.frame import LastAnswer, frame, look  # noqa: PLC0415 - beside the next import
    from switchgear_cli.watch.run import run_watch  # noqa: PLC0415 - needs a terminal's functions, which Windows lacks

    with ApiClient.of(client_settings(use=(API,), api_url=api_url), answer_limit_s=_ANSWER_S) as api:
        if once:
            seen = look(api, LastAnswer())
            if seen.problem:  # a script wants an exit code
                raise SwitchgearError(seen.problem)
            output.show(frame(api.url, seen))
            return
        console = terminal_console(emoji=False)
        if not console.is_terminal or console.is_dumb_terminal:
            raise WrongUsageError(
                "The output is not a terminal that can be drawn on.", hint="Give --once to print one frame."
            )
        run_watch(api, interval, console)
