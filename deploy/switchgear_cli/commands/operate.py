"""``switchgear open | close | reset | disable | metrics-only | auto TOOL...``.

Operator commands to the whole fleet.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from switchgear_cli.operate.options import CircuitOptions, CommandOptions
from switchgear_cli.operate.run import operate

_ALL = CircuitOptions()
_DEFAULT = CommandOptions()
_Tools = Annotated[str, Parameter(required=True)]
_For = Annotated[str | None, Parameter(name="--for")]


def force_open(
    *tool: _Tools,
    for_: _For = None,
    which: CircuitOptions = _ALL,
    how: CommandOptions = _DEFAULT,
) -> int:
    """Refuse the calls of tools everywhere: until another command, or for a time, after which probes decide.

    With --create, a tool that has not been called yet is refused from its first call on.

    Args:
        tool: Names of tools, or globs (* ? [abc]; quote them) over those that are known.
        for_: How long: 90s, 10m, 2h, 1d. By default there is no end.
        which: Which circuits of them.
        how: The rest.
    """
    return operate("open", "force_open", tool, how, which, duration=for_)


def close(
    *tool: _Tools,
    which: CircuitOptions = _ALL,
    how: CommandOptions = _DEFAULT,
) -> int:
    """Let a tool's calls through again; what is counted from now on may open it.

    Args:
        tool: Names of tools, or globs (* ? [abc]; quote them) over those that are known.
        which: Which circuits of them.
        how: The rest.
    """
    return operate("close", "close", tool, how, which)


def reset(
    *tool: _Tools,
    which: CircuitOptions = _ALL,
    how: CommandOptions = _DEFAULT,
) -> int:
    """Close a tool's circuits and forget their evidence and waits.

    Args:
        tool: Names of tools, or globs (* ? [abc]; quote them) over those that are known.
        which: Which circuits of them.
        how: The rest.
    """
    return operate("reset", "reset", tool, how, which)


def disable(
    *tool: _Tools,
    for_: _For = None,
    which: CircuitOptions = _ALL,
    how: CommandOptions = _DEFAULT,
) -> int:
    """Let every call of a tool through and count none, whatever the processes' own breakers say.

    Args:
        tool: Names of tools, or globs (* ? [abc]; quote them) over those that are known.
        for_: How long: 90s, 10m, 2h, 1d; then as by auto. By default there is no end.
        which: Which circuits of them.
        how: The rest.
    """
    return operate("disable", "disable", tool, how, which, duration=for_)


def metrics_only(
    *tool: _Tools,
    for_: _For = None,
    which: CircuitOptions = _ALL,
    how: CommandOptions = _DEFAULT,
) -> int:
    """Let every call of a tool through and count them: what would have opened is reported.

    Args:
        tool: Names of tools, or globs (* ? [abc]; quote them) over those that are known.
        for_: How long: 90s, 10m, 2h, 1d; then as by auto. By default there is no end.
        which: Which circuits of them.
        how: The rest.
    """
    return operate("metrics-only", "metrics_only", tool, how, which, duration=for_)


def auto(
    *tool: _Tools,
    which: CircuitOptions = _ALL,
    how: CommandOptions = _DEFAULT,
) -> int:
    """Remove an operator's command: the policy decides again. What a rule opened stays open.

    Args:
        tool: Names of tools, or globs (* ? [abc]; quote them) over those that are known.
        which: Which circuits of them.
        how: The rest.
    """
    return operate("auto", "auto", tool, how, which)
