"""What can be the name of a tool: the name of its circuit, of its events' tool and of the key they go to Kafka under."""

from __future__ import annotations

from switchgear.fallback.registry import guarded_by
from switchgear.guard.options import OptionError
from switchgear.guard.tool_function import name_of
from switchgear_schemas.enums import MAX_NAME_LENGTH


def check_tool(tool: object) -> None:
    """Is ``tool`` the name of a circuit?

    Raises:
        OptionError: it is not; with the way out.
    """
    if isinstance(tool, str):
        if not tool:
            raise OptionError("A tool is a name, not ''.", hint="For example mcp:weather:get_forecast.")
        if len(tool) > MAX_NAME_LENGTH:
            raise OptionError(
                f"A tool's name has at most {MAX_NAME_LENGTH} characters, and {tool[:40]!a}... has {len(tool)}.",
                hint="Its arguments are no part of it: one circuit is for all calls of a tool.",
            )
        try:
            tool.encode()
        except UnicodeEncodeError:
            raise OptionError(
                f"A tool's name is text, and {tool[:100]!a} has characters that UTF-8 can't hold.",
                hint='tool.encode("utf-8", "replace").decode() is without them.',
            ) from None
        return
    if callable(tool):
        guarded = guarded_by(tool)
        raise OptionError(
            f"A tool is given by its name, and {name_of(tool)} is a function.",
            hint='Begin with the name, as in @gear.guard("tool") and gear.is_open("tool").'
            if guarded is None
            else f'It is guarded as "{guarded.plan.tool}": that is the name.',
        )
    raise OptionError(f"A tool is a name, not {tool!r:.100}.", hint="For example mcp:weather:get_forecast.")
