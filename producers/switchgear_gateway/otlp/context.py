"""What other spans of a trace say about a tool call in it: the agent's session and user, and the tokens of models under a tool.

Frameworks write the session on the agent's span and the tokens on the models' spans. Spans end before their parents, so tokens are
passed from parent to parent as spans arrive, up to the first tool.

Limits: the context knows the last 50,000 spans, in the memory of one gateway. An agent's span that arrives after a tool call, because its
run was long, says nothing about that call: waiting for it would make the evidence as late as the run is long.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_gateway.otlp.executions import SESSION, USER, session_of, user_of
from switchgear_gateway.otlp.grouping import MOST_REMEMBERED, CountedCall, span_key
from switchgear_gateway.otlp.records import Span, text, whole
from switchgear_schemas.enums import MOST_TOKENS

V = TypeVar("V")

_NAMES: Final = frozenset({*SESSION, *USER})
_MODELS: Final = frozenset({"chat", "generate_content", "text_completion"})
"""Operations of models. Spans of agents have totals of the same tokens, which must not be added."""
_INPUT: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
)
_OUTPUT: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)

_READ: Final = frozenset(
    {*_NAMES, *_INPUT, *_OUTPUT}
    | {"ai.operationId", "gen_ai.operation.name", "openinference.span.kind", "llm.request.type", "error.type"}
)
_MOST_TEXT: Final = 256


def kept(span: Span) -> Span:
    """Return what is kept of a span until its request is counted: without long texts, and the attributes that are read until then."""
    return replace(
        span,
        name=span.name[:_MOST_TEXT],
        scope=span.scope[:_MOST_TEXT],
        status_message="",
        attributes={
            name: value[:_MOST_TEXT] if isinstance(value, str) else value
            for name, value in span.attributes.items()
            if name in _READ
        },
        resource={},
        exception=None,
    )


class _Person(NamedTuple):
    """For whom a span is. Of a trace, a value is empty if its spans don't agree."""

    session: str | None
    user: str | None


_NOBODY: Final = _Person(None, None)
_Tokens = tuple[int, int]
"""Input and output."""


class TraceContext:
    """What the last spans said. It has no clock, and is not thread-safe.

    Args:
        remembered: How many spans to remember.
    """

    def __init__(self, *, remembered: int = MOST_REMEMBERED) -> None:
        self._seen = BoundedDict[bytes, None](remembered)
        self._persons = BoundedDict[bytes, _Person](remembered)  # of spans and of traces
        self._tokens = BoundedDict[bytes, _Tokens](remembered)  # of models under a span

    def note(self, tenant: str, spans: Iterable[Span], tools: Container[bytes]) -> None:
        """Note what the spans of one request say. A span that was noted before changes nothing.

        Args:
            tenant: The tenant that sent them.
            spans: All spans of the request.
            tools: The keys of those that are tool calls.
        """
        for span in sorted(spans, key=lambda each: each.end_ns):
            key = span_key(tenant, span.trace_id, span.span_id)
            if len(span.trace_id) != 16 or len(span.span_id) != 8 or key in self._seen:
                continue
            self._seen[key] = None
            if not _NAMES.isdisjoint(span.attributes):
                self._note_person(key, span_key(tenant, span.trace_id, b""), span)
            tokens = tokens_of(span) or self._tokens.get(key)
            if tokens is not None:
                passed = span.parent_id and key not in tools
                self._add(span_key(tenant, span.trace_id, span.parent_id) if passed else key, key, tokens)

    def complete(self, call: CountedCall, ancestors: Sequence[bytes]) -> CountedCall:
        """Return a call with the session, user and tokens that its own spans lack.

        Args:
            call: The call.
            ancestors: The keys of the spans around it, from its parent up.
        """
        execution, changes = call.execution, dict[str, object]()
        nearest = [each.key for each in reversed(call.spans)] + [*ancestors, call.spans[0].trace]
        persons = [self._persons.get(key, _NOBODY) for key in nearest]
        if execution.session_id is None:
            changes["session_id"] = next((each.session for each in persons if each.session is not None), None) or None
        if not execution.user_id:
            changes["user_id"] = next((each.user for each in persons if each.user is not None), "")
        if not execution.input_tokens and not execution.output_tokens:
            used = [self._tokens.get(each.key, (0, 0)) for each in call.spans]
            changes["input_tokens"], changes["output_tokens"] = map(sum, zip(*used, strict=True))
        return call._replace(execution=execution.model_copy(update=changes)) if any(changes.values()) else call

    def _note_person(self, key: bytes, trace: bytes, span: Span) -> None:
        found = _Person(session_of(span.attributes), user_of(span.attributes))
        known = self._persons.get(trace, _NOBODY)
        self._persons[key] = found
        self._persons[trace] = _Person(_agreed(known.session, found.session), _agreed(known.user, found.user))

    def _add(self, key: bytes, of: bytes, tokens: _Tokens) -> None:
        """Add the tokens of the span ``of`` to those of ``key``, which is the same span or its parent."""
        self._tokens.pop(of, None)
        known = self._tokens.get(key, (0, 0))
        self._tokens[key] = min(known[0] + tokens[0], MOST_TOKENS), min(known[1] + tokens[1], MOST_TOKENS)


def tokens_of(span: Span) -> _Tokens | None:
    """Return the tokens of a model's span, None for any other span and for one without tokens."""
    found = span.attributes
    step = text(found, "ai.operationId") or ""
    if not (
        found.get("gen_ai.operation.name") in _MODELS
        or found.get("openinference.span.kind") == "LLM"
        or "llm.request.type" in found
        or step.endswith((".doGenerate", ".doStream"))
    ):
        return None
    used = min(whole(found, *_INPUT), MOST_TOKENS), min(whole(found, *_OUTPUT), MOST_TOKENS)
    return used if any(used) else None


def _agreed(known: str | None, new: str | None) -> str | None:
    return known if new in {None, known} else new if known is None else ""
