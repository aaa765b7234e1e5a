"""Arguments that don't fit a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from switchgear.fallback.registry import guarded_by

if TYPE_CHECKING:
    from switchgear.guard.tool_function import ToolFunction

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def misfit(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Return why ``function`` can't be called with these arguments.

    Returns:
        None if it can, or if that isn't known: what a wrapper passes on, or what C code takes.
    """
    while (guarded := guarded_by(function)) is not None:
        if inspect.ismethod(function):
            args = (function.__self__, *args)
        function = guarded.tool.call
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # written in C
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None


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
