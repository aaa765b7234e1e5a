"""``switchgear open | close | reset | disable | metrics-only | auto TOOL``: an operator's word to the whole fleet."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from switchgear_cli.operate.run import How, Which, operate

_ALL = Which()
_DEFAULT = How()
_For = Annotated[str | None, Parameter(name="--for")]


def force_open(
    tool: str,
    *,
    for_: _For = None,
    which: Which = _ALL,
    how: How = _DEFAULT,
) -> int:
    """Refuse a tool's calls everywhere: until told otherwise, or for a time, after which probes decide.

    A tool that nobody has called yet is refused from its first call on.

    Args:
        tool: Name of the tool.
        for_: How long: 90s, 10m, 2h, 1d. No end where it is not given.
        which: One circuit alone, where not all are meant.
        how: The rest.
    """
    return operate("force_open", tool, how, duration=for_, **which.of(tool))


def close(
    tool: str,
    *,
    which: Which = _ALL,
    how: How = _DEFAULT,
) -> int:
    """Let a tool's calls through again; what is counted from now on may open it.

    Args:
        tool: Name of the tool.
        which: One circuit alone, where not all are meant.
        how: The rest.
    """
    return operate("close", tool, how, **which.of(tool))


def reset(
    tool: str,
    *,
    which: Which = _ALL,
    how: How = _DEFAULT,
) -> int:
    """Close a tool's circuits and forget their evidence and waits.

    Args:
        tool: Name of the tool.
        which: One circuit alone, where not all are meant.
        how: The rest.
    """
    return operate("reset", tool, how, **which.of(tool))


def disable(
    tool: str,
    *,
    for_: _For = None,
    which: Which = _ALL,
    how: How = _DEFAULT,
) -> int:
    """Let every call of a tool through and count none, whatever the processes' own breakers say.

    Args:
        tool: Name of the tool.
        for_: How long: 90s, 10m, 2h, 1d; then as by auto. No end where it is not given.
        which: One circuit alone, where not all are meant.
        how: The rest.
    """
    return operate("disable", tool, how, duration=for_, **which.of(tool))


def metrics_only(
    tool: str,
    *,
    for_: _For = None,
    which: Which = _ALL,
    how: How = _DEFAULT,
) -> int:
    """Let every call of a tool through and count them: what would have opened is reported.

    Args:
        tool: Name of the tool.
        for_: How long: 90s, 10m, 2h, 1d; then as by auto. No end where it is not given.
        which: One circuit alone, where not all are meant.
        how: The rest.
    """
    return operate("metrics_only", tool, how, duration=for_, **which.of(tool))


def auto(
    tool: str,
    *,
    which: Which = _ALL,
    how: How = _DEFAULT,
) -> int:
    """Take an operator's command back: the policy decides again. What a rule opened stays open.

    Args:
        tool: Name of the tool.
        which: One circuit alone, where not all are meant.
        how: The rest.
    """
    return operate("auto", tool, how, **which.of(tool))
