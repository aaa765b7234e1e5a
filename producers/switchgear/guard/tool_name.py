"""Check the name of a tool. It names the circuit, and it is the key of the tool's events in Kafka."""

from __future__ import annotations

from switchgear.fallback.registry import guarded_by
from switchgear.guard.options import OptionError
from switchgear.guard.tool_function import name_of
from switchgear_schemas.enums import MAX_NAME_LENGTH


def check_tool(tool: object) -> None:
    """Check that ``tool`` can be the name of a tool.

    Raises:
        OptionError: It can't be. The message says what to do.
    """
    if isinstance(tool, str):
        if not tool:
            raise OptionError("The name of a tool is empty.", hint="For example mcp:weather:get_forecast.")
        if len(tool) > MAX_NAME_LENGTH:
            raise OptionError(
                f"The name of a tool has {len(tool)} characters: {tool[:40]!a}... The most is {MAX_NAME_LENGTH}.",
                hint="Leave out the arguments: one circuit is for all calls of a tool.",
            )
        try:
            tool.encode()
        except UnicodeEncodeError:
            raise OptionError(
                f"The name of a tool can't be encoded as UTF-8: {tool[:100]!a}.",
                hint='tool.encode("utf-8", "replace").decode() replaces those characters.',
            ) from None
        return
    if callable(tool):
        guarded = guarded_by(tool)
        raise OptionError(
            f"A tool must be a name, not the function {name_of(tool)}.",
            hint='Pass the name first: @gear.guard("tool") or gear.is_open("tool").'
            if guarded is None
            else f'It is guarded as "{guarded.plan.tool}": pass that name.',
        )
    raise OptionError(f"A tool must be a name, not {tool!r:.100}.", hint="For example mcp:weather:get_forecast.")
