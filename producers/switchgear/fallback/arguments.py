"""Fit the arguments of a call to the function that stands in for its tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from switchgear.guard.argument_mismatch import Arguments, misfit

if TYPE_CHECKING:
    from switchgear.guard.tool_function import ToolFunction


def fitted(target: ToolFunction, receiver: tuple[Any, ...], arguments: Arguments) -> Arguments | str:
    """Return what to call ``target`` with, or why it can't be called so.

    Args:
        target: The function that stands in.
        receiver: The object that the tool is a method of; empty for a function.
        arguments: Those of the call, without the receiver.
    """
    args, kwargs = arguments
    if target.receiver:
        if not receiver:
            return f"{target.name} is a method and the call has no object"
        if not _has(receiver[0], target):
            return f"a {type(receiver[0]).__qualname__} has no {target.name}"
        args = (*receiver, *args)
    unfit = misfit(target.call, args, kwargs)
    return f"the arguments don't fit: {unfit}" if unfit else (args, kwargs)


def _has(receiver: Any, method: ToolFunction) -> bool:
    """Return whether ``method`` was written in the class of ``receiver``, or in one above it."""
    written = (method.call.__module__, method.call.__qualname__.rpartition(".")[0])
    above = (*type(receiver).__mro__, *(receiver.__mro__ if isinstance(receiver, type) else ()))
    return any((one.__module__, one.__qualname__) == written for one in above)
