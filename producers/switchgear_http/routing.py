"""A route of a server, declared once. Who may use it, its limits, its metrics and its documentation follow from the declaration."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.routing import Route as StarletteRoute
from starlette.types import Scope

from switchgear_http.principal import Role

Handler = Callable[[Request], Awaitable[Any]]
"""Takes a request and returns an answer, which is an ASGI application."""
Content = Mapping[str, Any]
"""Schemas by media type, as in OpenAPI."""
OBJECT: Final[Content] = {"application/json": {"schema": {"type": "object"}}}
TEXT: Final[Content] = {"text/plain": {"schema": {"type": "string"}}}
EVENTS: Final[Content] = {"text/event-stream": {"schema": {"type": "string"}}}
ANYBODY: Final = tuple(Role)
"""Every login will do."""
_ROUTE: Final = "switchgear.route"
_DECLARED: Final = "declared_route"
_Method = TypeVar("_Method", bound=Callable[..., Any])


class Parameter(NamedTuple):
    """A parameter of the query, or a header.

    Args:
        name: Its name.
        description: What it does.
        kind: Its type in JSON Schema.
        place: Where it is.
        values: The values that it may have. Empty: any.
    """

    name: str
    description: str
    kind: str = "string"
    place: Literal["query", "header"] = "query"
    values: tuple[str, ...] = ()


class Reply(NamedTuple):
    """An answer with one status.

    Args:
        description: When it comes.
        content: Its body. Types of msgspec are one or the other. None: it has none.
    """

    description: str
    content: Content | tuple[type[Any], ...] | None = OBJECT


DONE: Final[Mapping[int, Reply]] = {200: Reply("Done.")}


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    Args:
        method: ``GET``, which also serves ``HEAD``, or another one.
        path: As Starlette writes it: ``/v1/tools/{name:path}``.
        role: The role that it needs, or several, one of which it needs. None: it needs no login.
        handler: Answers. It raises a :class:`~switchgear_http.problem.ProblemError` for what is wrong.
        summary: What it does, as a sentence.
        parameters: What the query and the headers may have.
        body: The body: a type of msgspec for JSON, or schemas by media type. None: it has none.
        answers: By status. All others are problem details.
        description: More about it.
        is_stream: Its requests stay in progress for as long as their clients want, so they have a limit of their own.
    """

    method: str
    path: str
    role: Role | tuple[Role, ...] | None
    handler: Handler
    summary: str
    parameters: tuple[Parameter, ...] = ()
    body: Content | type[Any] | None = None
    answers: Mapping[int, Reply] = field(default_factory=lambda: DONE)
    description: str = ""
    is_stream: bool = False

    @property
    def roles(self) -> tuple[Role, ...] | None:
        """The roles one of which it needs. None: it needs no login."""
        return (self.role,) if isinstance(self.role, Role) else self.role

    @property
    def query(self) -> tuple[str, ...]:
        """The names of the query's parameters."""
        return tuple(each.name for each in self.parameters if each.place == "query")


def route(
    method: str,
    path: str,
    role: Role | tuple[Role, ...] | None,
    parameters: tuple[Parameter, ...] = (),
    *,
    body: Content | type[Any] | None = None,
    answers: Mapping[int, Reply] = DONE,
    description: str = "",
    is_stream: bool = False,
) -> Callable[[_Method], _Method]:
    """Declare that a method of :class:`Handlers` handles a route. The first line of its docstring is the summary.

    The arguments are those of :class:`Route`.
    """

    def declared(handler: _Method) -> _Method:
        summary = (handler.__doc__ or "").partition("\n")[0]
        made = partial(
            Route,
            method,
            path,
            role,
            summary=summary,
            parameters=parameters,
            body=body,
            answers=answers,
            description=description,
            is_stream=is_stream,
        )
        setattr(handler, _DECLARED, made)
        return handler

    return declared


class Handlers:
    """Handlers of routes: each is a method with a :func:`route`."""

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes, in the order of the class."""
        names = [name for kind in reversed(type(self).__mro__) for name in vars(kind)]
        declared = ((name, getattr(getattr(type(self), name), _DECLARED, None)) for name in dict.fromkeys(names))
        return tuple(made(handler=getattr(self, name)) for name, made in declared if made is not None)


class Routes:
    """All routes of a server.

    Args:
        declared: The routes. Of paths that fit a request, one without names goes first, and one that ends with a name last.
        guarded: Unknown paths below this one need a login, too.
        unknown: The roles one of which they need.
    """

    def __init__(self, declared: Iterable[Route], *, guarded: str = "/", unknown: tuple[Role, ...] = ANYBODY) -> None:
        self.declared = tuple(declared)
        self._guarded = guarded
        self._unknown = unknown
        by_path: dict[str, dict[str, Route]] = {}
        for route in self.declared:
            by_path.setdefault(route.path, {})[route.method] = route
        self._fixed = {path: _Path(path, methods) for path, methods in by_path.items() if "{" not in path}
        named = sorted((path for path in by_path if "{" in path), key=lambda path: path.endswith("}"))
        self._named = [_Path(path, by_path[path]) for path in named]

    def served(self) -> list[StarletteRoute]:
        """Return what an application serves: one route for each path."""
        return [*self._fixed.values(), *self._named]

    def role_of(self, scope: Scope) -> tuple[Role, ...] | None:
        """Return the roles one of which a request needs. With a method that its path doesn't have it needs those of another one."""
        found = self._found(scope)
        if found is None:
            return self._unknown if scope["path"].startswith(self._guarded) else None
        return found.roles

    def is_stream(self, scope: Scope) -> bool:
        """Return whether the request stays in progress for as long as its client wants."""
        found = self._found(scope)
        return found is not None and found.is_stream

    def _found(self, scope: Scope) -> Route | None:
        path, other = scope["path"], None
        for each in (self._fixed.get(path), *self._named):
            if each is not None and each.path_regex.match(path):
                found = each.route(scope["method"])
                if found is not None:
                    return found
                other = other or next(iter(each.methods_declared.values()))
        return other


class _Path(StarletteRoute):
    """The routes of one path. A name in it may have line feeds. Starlette's names end there, and ignore one at the end."""

    def __init__(self, path: str, methods_declared: Mapping[str, Route]) -> None:
        super().__init__(path, self._handle, methods=list(methods_declared))
        self.path_regex = re.compile(self.path_regex.pattern.removesuffix("$") + r"\Z", re.DOTALL)
        self.methods_declared = methods_declared

    def route(self, method: str) -> Route | None:
        return self.methods_declared.get("GET" if method == "HEAD" else method)

    async def _handle(self, request: Request) -> Any:
        found = self.route(request.method)
        assert found is not None  # Starlette has refused the other methods
        request.scope[_ROUTE] = found
        return await found.handler(request)


def route_of(request: Request) -> Route:
    """Return the route of a request that its handler answers."""
    found: Route = request.scope[_ROUTE]
    return found
