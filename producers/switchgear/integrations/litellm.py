"""LiteLLM: ``models = GuardedModels(gear)``, then ``await models.acompletion(model=…, messages=…)``.

A call of a model is a call of the tool ``model:<name>``. There is no model that could read a refusal, so it is an exception.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Self, TypeVar

import litellm
from litellm.integrations.custom_logger import CustomLogger

from switchgear.classify import IGNORE
from switchgear.client import Switchgear
from switchgear.guard.rejections import CircuitOpenError
from switchgear.integrations.tool_calls import RefusedCall, StartedCall, ToolCalls
from switchgear.prompts import CircuitOf, named
from switchgear.usage import NOTHING, Usage

T = TypeVar("T")
_NOT_READ: Final = "the stream was not read to its end"


class GuardedModels:
    """Guard completion calls to models, through LiteLLM's functions or a ``Router``.

    A router's retries and fallbacks are one call. If a fallback answered, the model that was asked for failed. The router's
    fallbacks between models become fallbacks of the client, so they also stand in for a model whose circuit is open.

    Args:
        gear: The client.
        router: A ``litellm.Router``. None: ``litellm.completion`` and ``litellm.acompletion``.
        models: The models that may stand in for another one, if the client's ``fallbacks`` name their circuits. By default the
            router's.
        circuit_of: The circuit's name for a model's name, as a dict or a function. By default ``model:<name>``.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """

    def __init__(
        self, gear: Switchgear, router: Any = None, *, models: Sequence[str] = (), circuit_of: CircuitOf = None
    ) -> None:
        self.calls = ToolCalls(gear, circuit_of=_circuit_name if circuit_of is None else circuit_of)
        self._target = litellm if router is None else router
        self._router = router
        chains = {} if router is None else _chains(router)
        self._others = tuple(models) if models or router is None else _names(router)
        gear.map_fallbacks(
            {self.calls.circuit(name): [*map(self.calls.circuit, chain)] for name, chain in chains.items()}
        )
        if router is not None and _fallback_logger not in litellm.callbacks:
            litellm.callbacks.append(_fallback_logger)

    async def acompletion(self, model: str, messages: Sequence[Any] = (), **options: Any) -> Any:
        """Call ``acompletion`` if the circuit permits it. The outcome of a stream is reported at its end.

        Raises:
            CircuitOpenError: The call is refused.
            Exception: Those of LiteLLM.
        """
        options = {**options, "messages": messages}
        call = await self.calls.abegin(model, given=options, others=self._others)
        if isinstance(call, RefusedCall):
            raise call.rejection.error()
        end = _End(self.calls, call, options)
        with end.reporting(self._is_known):
            response = await self._target.acompletion(model=call.name, **options)
        return end.response(response)

    def completion(self, model: str, messages: Sequence[Any] = (), **options: Any) -> Any:
        """:meth:`acompletion` for synchronous code."""
        options = {**options, "messages": messages}
        call = self.calls.begin(model, given=options, others=self._others)
        if isinstance(call, RefusedCall):
            raise call.rejection.error()
        end = _End(self.calls, call, options)
        with end.reporting(self._is_known):
            response = self._target.completion(model=call.name, **options)
        return end.response(response)

    def available(self, models: Sequence[T]) -> list[T]:
        """Return those of the models, by name, whose circuits permit calls."""
        refuses = self.calls.gear.is_open
        return [model for name, model in named(models, self.calls.circuit) if not refuses(name)]

    def _is_known(self, model: str) -> bool:
        """Return whether there is such a model, after LiteLLM rejected a request for it."""
        if self._router is not None:
            return model in _names(self._router)
        try:
            litellm.get_llm_provider(model)
        except litellm.BadRequestError:
            return False
        return True


class GuardedStream:
    """LiteLLM's stream of chunks. Its outcome, with tokens and cost, is reported at its end.

    A stream that its reader leaves after the model has finished is a success. Before that it counts neither as a success nor as
    a failure. All attributes are those of LiteLLM's stream.
    """

    def __init__(self, end: _End, chunks: Any) -> None:
        self._end = end
        self._stream = chunks
        self._chunks: list[Any] = []
        self._finished = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            with self._end.reporting():
                return self._noted(next(self._stream))
        except StopIteration:
            self._succeeded()
            raise

    async def __anext__(self) -> Any:
        try:
            with self._end.reporting():
                return self._noted(await self._stream.__anext__())
        except StopAsyncIteration:
            self._succeeded()
            raise

    def close(self) -> None:
        """Leave the stream."""
        self._left()
        if hasattr(self._stream, "close"):
            self._stream.close()

    async def aclose(self) -> None:
        """Leave the stream."""
        self._left()
        if hasattr(self._stream, "aclose"):
            await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        self._left()

    def _noted(self, chunk: Any) -> Any:
        self._chunks.append(chunk)
        self._finished = self._finished or any(choice.finish_reason for choice in chunk.choices)
        return chunk

    def _left(self) -> None:
        if self._finished:
            self._succeeded()
        else:
            self._end.ignored(_NOT_READ, self._usage())

    def _succeeded(self) -> None:
        self._end.succeeded(self._usage())

    def _usage(self) -> Usage:
        if self._end.reported or not self._chunks:
            return NOTHING
        try:
            return _usage_of(litellm.stream_chunk_builder(self._chunks, messages=self._end.messages))
        except Exception:  # noqa: BLE001 - LiteLLM can't count the tokens of every model; the answer is there all the same
            return NOTHING


class _End:
    """The end of a call: its failure wherever it happens, its duration without its reader's, and the fallbacks of a router."""

    def __init__(self, calls: ToolCalls, call: StartedCall, options: Mapping[str, Any]) -> None:
        self.messages = options["messages"]
        self.reported = False
        self._streams = bool(options.get("stream"))
        self._calls = calls
        self._call = call
        self._failed: list[Exception] = []
        """The failures that a router answered with a fallback."""
        self._taken_s = 0.0

    @contextmanager
    def reporting(self, is_known: Any = None) -> Iterator[None]:
        """Report an exception of LiteLLM. What happens between two of these blocks is the reader's time."""
        began, reset = time.monotonic(), _fallbacks.set(self._failed)
        try:
            yield
        except (StopIteration, StopAsyncIteration):
            raise
        except BaseException as error:
            self._taken_s += time.monotonic() - began
            if isinstance(error, litellm.BadRequestError) and is_known is not None and not is_known(self._call.name):
                self.reported = True
                self._call.released()
                raise
            refused = _refusal_in(error)
            self._failure(self._failed[0] if self._failed and refused is None else refused or error, NOTHING)
            if refused is not None:
                raise refused from None
            raise
        finally:
            _fallbacks.reset(reset)
        self._taken_s += time.monotonic() - began

    def response(self, response: Any) -> Any:
        """Return what to give to the caller: the response, or the stream that reports its end."""
        if self._streams:
            return GuardedStream(self, response)
        self.succeeded(_usage_of(response), response)
        return response

    def succeeded(self, usage: Usage, response: Any = None) -> None:
        """Report that a model answered: the one that was asked for, or else its failure."""
        if self._failed:
            self._failure(self._failed[0], usage)
        elif not self.reported:
            self.reported = True
            own = self._calls.gear.options.usage is not None and response is not None
            self._call.succeeded(response, usage=None if own else usage, duration_ms=self._duration_ms())

    def ignored(self, why: str, usage: Usage) -> None:
        """Report a call whose reader left it."""
        if not self.reported:
            self.reported = True
            self._call.failed(why, failure=IGNORE, usage=usage, duration_ms=self._duration_ms())

    def _failure(self, error: BaseException, usage: Usage) -> None:
        if not self.reported:
            self.reported = True
            self._call.failed(error, usage=usage, duration_ms=self._duration_ms())

    def _duration_ms(self) -> float | None:
        """Return the duration of a stream without its reader's. The client measures other calls."""
        return self._taken_s * 1000 if self._streams else None


_fallbacks: Final[ContextVar[list[Exception] | None]] = ContextVar("switchgear_litellm_fallbacks", default=None)


class _FallbackLogger(CustomLogger):
    """Notes the failures that a router answers with a fallback. LiteLLM calls it in the context of the request."""

    async def log_success_fallback_event(
        self,
        original_model_group: str,  # noqa: ARG002 - LiteLLM's signature
        kwargs: dict[str, Any],  # noqa: ARG002
        original_exception: Exception,
    ) -> None:
        _note(original_exception)

    async def log_failure_fallback_event(
        self,
        original_model_group: str,  # noqa: ARG002
        kwargs: dict[str, Any],  # noqa: ARG002
        original_exception: Exception,
    ) -> None:
        _note(original_exception)


_fallback_logger: Final = _FallbackLogger()


def _note(error: Exception) -> None:
    failed = _fallbacks.get()
    if failed is not None:
        failed.append(error)


def _circuit_name(model: str) -> str:
    return f"model:{model}"


def _names(router: Any) -> tuple[str, ...]:
    """Return the names of a router's models."""
    # LiteLLM 1.110 deprecates get_model_names() and fallbacks. Older versions have no registry() and settings().
    return tuple(router.registry().names() if hasattr(router, "registry") else router.get_model_names())


def _chains(router: Any) -> dict[str, list[str]]:
    """Return a router's fallbacks between models. Those for all models, and those with parameters, are left out."""
    given = router.settings().fallbacks if hasattr(router, "settings") else router.fallbacks
    found: dict[str, list[str]] = {}
    for each in given or ():
        for name, chain in each.items():
            others = [other for other in chain if isinstance(other, str) and other != name]
            if name != "*" and others:
                found[name] = others
    return found


def _refusal_in(error: BaseException) -> CircuitOpenError | None:
    """Return the refusal of a guard within a provider. LiteLLM turns all exceptions into its own."""
    context = error if isinstance(error, CircuitOpenError) else error.__context__
    return context if isinstance(context, CircuitOpenError) else None


def _usage_of(response: Any) -> Usage:
    """Return tokens and cost of a response. LiteLLM's prompt tokens include those of the provider's cache."""
    usage = getattr(response, "usage", None)
    if usage is None:
        return NOTHING
    details = getattr(usage, "prompt_tokens_details", None)
    read = getattr(details, "cached_tokens", None) or 0
    created = getattr(usage, "cache_creation_input_tokens", None) or 0
    return Usage(
        input_tokens=max(0, (usage.prompt_tokens or 0) - read - created),
        output_tokens=usage.completion_tokens or 0,
        cache_creation_tokens=created,
        cost_usd=_cost_of(response),
    )


def _cost_of(response: Any) -> float:
    cost = (getattr(response, "_hidden_params", None) or {}).get("response_cost")
    if cost is None:
        try:
            cost = litellm.completion_cost(response)
        except Exception:  # noqa: BLE001 - a model without a known price
            return 0.0
    return float(cost)
