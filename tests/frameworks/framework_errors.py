"""The exceptions and results of agent frameworks, and the class that each must get. The types are the real ones.

Each framework is imported only for its own cases, so an environment with one framework can check that one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

MODULES = {
    "agent-framework-core": "agent_framework",
    "claude-agent-sdk": "claude_agent_sdk",
    "google-adk": "google.adk",
    "langchain": "langchain_core",
    "mcp": "mcp_types",  # from version 2 on
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
}
"""The module of a distribution that has another name."""


@dataclass(frozen=True)
class Case:
    """An exception or result, and its class: as it is, and raised from a refused connection."""

    distribution: str
    name: str
    make: Callable[[], Any]
    expected: str | None
    from_outage: str | None = None

    def __str__(self) -> str:
        return f"{self.distribution} {self.name}"


def named(path: str) -> Any:
    """Return what ``module:name`` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _of(distribution: str, module: str, rows: str, *args: Any) -> list[Case]:
    """Return cases for rows of name, class and class if raised from an outage. Each type is called with ``args``."""
    found = []
    for row in rows.strip().splitlines():
        name, expected, from_outage = row.split()
        found.append(
            Case(distribution, name, lambda path=f"{module}:{name}": named(path)(*args), expected, from_outage)
        )
    return found


def _one(distribution: str, path: str, args: tuple[Any, ...], expected: str, from_outage: str, **values: Any) -> Case:
    name = " ".join([path.partition(":")[2], *(str(arg) for arg in args if isinstance(arg, int))])
    return Case(distribution, name, lambda: named(path)(*args, **values), expected, from_outage)


def _http_answer(status: int) -> Any:
    httpx = importlib.import_module("httpx")
    return httpx.Response(status, request=httpx.Request("POST", "http://x"))


def _without_init(path: str, message: str = "x", **values: Any) -> Callable[[], Any]:
    """Return what makes an exception whose own arguments would need a whole agent."""

    def make() -> Any:
        kind = named(path)
        error = kind.__new__(kind, message)
        for name, value in values.items():
            setattr(error, name, value)
        return error

    return make


ERRORS = [
    *_of(
        "fastmcp",
        "fastmcp.exceptions",
        """
        ToolError tool transport
        ResourceError tool transport
        PromptError tool transport
        ValidationError invalid_input transport
        NotFoundError invalid_input transport
        DisabledError invalid_input transport
        ResourceSecurityError invalid_input transport
        AuthorizationError auth auth
        ClientError unknown transport
        """,
        "x",
    ),
    _one("fastmcp", "fastmcp.exceptions:InsufficientScopeError", (["read"],), "auth", "auth"),
    *_of(
        "mcp",
        "mcp.server.mcpserver.exceptions",
        """
        ToolError tool transport
        ResourceError tool transport
        ResourceNotFoundError invalid_input transport
        UnexpectedToolError unknown transport
        UnexpectedResourceError unknown transport
        """,
        "x",
    ),
    _one("mcp", "mcp:MCPError", (-32000, "Connection closed"), "transport", "transport"),
    _one("mcp", "mcp:MCPError", (-32602, "Unknown tool"), "invalid_input", "invalid_input"),
    _one("mcp", "mcp:MCPError", (-32601, "x"), "invalid_input", "invalid_input"),
    _one("mcp", "mcp:MCPError", (-32603, "x"), "server", "server"),
    _one("mcp", "mcp:MCPError", (-32042, "x"), "auth", "auth"),
    _one("mcp", "mcp.shared.exceptions:UrlElicitationRequiredError", ([],), "auth", "auth"),
    _one("mcp", "mcp.client._input_required:InputRequiredRoundsExceededError", (3,), "policy", "policy"),
    _one("mcp", "mcp.client.session:_input_required_unexpected", ("call_tool",), "policy", "policy"),
    *_of("langchain", "langchain_core.tools", "ToolException tool transport", "x"),
    *_of("langchain", "langchain_core.exceptions", "OutputParserException invalid_input transport", "x"),
    *_of("langgraph", "langgraph.errors", "GraphInterrupt policy policy\nGraphBubbleUp policy policy", ()),
    *_of("langgraph", "langgraph.errors", "ParentCommand policy policy", None),
    *_of("langgraph", "langgraph.errors", "GraphDrained policy policy\nGraphRecursionError unknown transport", "x"),
    _one(
        "langgraph",
        "langgraph.errors:NodeTimeoutError",
        ("n",),
        "timeout",
        "timeout",
        kind="run",
        run_timeout=1.0,
        elapsed=1.0,
    ),
    Case(
        "langgraph",
        "ToolInvocationError",
        _without_init("langgraph.prebuilt.tool_node:ToolInvocationError"),
        "invalid_input",
        "transport",
    ),
    *_of("pydantic-ai", "pydantic_ai.exceptions", "ApprovalRequired policy policy\nCallDeferred policy policy"),
    *_of(
        "pydantic-ai",
        "pydantic_ai.exceptions",
        """
        ModelRetry invalid_input transport
        ToolFailed tool transport
        UnexpectedModelBehavior tool transport
        IncompleteToolCall tool transport
        ContentFilterError policy policy
        RunTimedOut timeout timeout
        RunCancelled cancelled cancelled
        UserError unknown transport
        UsageLimitExceeded unknown transport
        """,
        "x",
    ),
    Case(
        "pydantic-ai",
        "ToolRetryError",
        lambda: named("pydantic_ai.exceptions:ToolRetryError")(
            named("pydantic_ai.messages:ToolReturnPart")(tool_name="t", content="x", outcome="failed")
        ),
        "invalid_input",
        "transport",
    ),
    Case(
        "pydantic-ai",
        "ToolFailedError",
        lambda: named("pydantic_ai.exceptions:ToolFailedError")(
            named("pydantic_ai.messages:ToolReturnPart")(tool_name="t", content="x")
        ),
        "tool",
        "transport",
    ),
    *_of(
        "pydantic-ai",
        "pydantic_ai.exceptions",
        """
        ModelConnectionError transport transport
        ModelTimeoutError timeout timeout
        ModelRateLimitError rate_limited rate_limited
        ModelQuotaExceededError rate_limited rate_limited
        ModelUnavailableError server server
        ModelOverloadedError server server
        ModelServerError server server
        ModelAuthenticationError auth auth
        ModelRequestRejectedError invalid_input transport
        ModelNotFoundError invalid_input transport
        """,
        "m",
        "x",
    ),
    _one("pydantic-ai", "pydantic_ai.exceptions:ModelRequestTimeout", ("m", 1.0), "timeout", "timeout"),
    _one("pydantic-ai", "pydantic_ai.exceptions:ModelHTTPError", (503, "m"), "server", "server"),
    _one("pydantic-ai", "pydantic_ai.exceptions:ModelHTTPError", (429, "m"), "rate_limited", "rate_limited"),
    *_of(
        "openai-agents",
        "agents.exceptions",
        """
        ModelBehaviorError invalid_input transport
        ModelRefusalError policy policy
        MCPToolCancellationError cancelled cancelled
        MaxTurnsExceeded unknown transport
        UserError unknown transport
        AgentsException unknown transport
        """,
        "x",
    ),
    *_of("openai-agents", "agents.exceptions", "ToolTimeoutError timeout timeout", "t", 1.0),
    *_of("openai-agents", "agents.exceptions", "ModelTimeoutError timeout timeout", 1.0),
    *_of(
        "openai-agents",
        "agents.exceptions",
        """
        ToolInputGuardrailTripwireTriggered policy policy
        ToolOutputGuardrailTripwireTriggered policy policy
        """,
        None,
        None,
    ),
    *_of(
        "openai-agents",
        "agents.exceptions",
        """
        InputGuardrailTripwireTriggered policy policy
        OutputGuardrailTripwireTriggered policy policy
        """,
        SimpleNamespace(guardrail=None),
    ),
    *_of(
        "agent-framework-core",
        "agent_framework.exceptions",
        """
        ToolException tool transport
        ToolExecutionException tool transport
        UserInputRequiredException policy policy
        AgentInvalidAuthException auth auth
        AgentInvalidRequestException invalid_input transport
        AgentInvalidResponseException server server
        AgentContentFilterException policy policy
        ChatClientInvalidAuthException auth auth
        ChatClientInvalidRequestException invalid_input transport
        ChatClientInvalidResponseException server server
        ChatClientContentFilterException policy policy
        IntegrationInvalidAuthException auth auth
        IntegrationInvalidRequestException invalid_input transport
        IntegrationInvalidResponseException server server
        IntegrationContentFilterException policy policy
        ChatClientException unknown transport
        """,
        "x",
    ),
    *_of("agent-framework-core", "agent_framework", "MiddlewareTermination policy policy", "x"),
    *_of(
        "claude-agent-sdk",
        "claude_agent_sdk",
        """
        CLIConnectionError transport transport
        CLINotFoundError transport transport
        ProcessError unknown transport
        ClaudeSDKError unknown transport
        """,
        "x",
    ),
    _one("claude-agent-sdk", "claude_agent_sdk:CLIJSONDecodeError", ("x", ValueError()), "server", "server"),
    _one("claude-agent-sdk", "claude_agent_sdk._errors:MessageParseError", ("x",), "server", "server"),
    _one(
        "claude-agent-sdk", "claude_agent_sdk._errors:ResultError", ("x", {"api_error_status": 529}), "server", "server"
    ),
    _one("claude-agent-sdk", "claude_agent_sdk._errors:ResultError", ("x", {}), "unknown", "transport"),
    _one("litellm", "litellm:APIConnectionError", ("x", "p", "m"), "transport", "transport"),
    _one("litellm", "litellm:Timeout", ("x", "m", "p"), "timeout", "timeout"),
    _one("litellm", "litellm:RateLimitError", ("x", "p", "m"), "rate_limited", "rate_limited"),
    _one("litellm", "litellm:ServiceUnavailableError", ("x", "p", "m"), "server", "server"),
    _one("litellm", "litellm:InternalServerError", ("x", "p", "m"), "server", "server"),
    _one("litellm", "litellm:AuthenticationError", ("x", "p", "m"), "auth", "auth"),
    _one("litellm", "litellm:BadRequestError", ("x", "m", "p"), "invalid_input", "invalid_input"),
    _one("litellm", "litellm:ContextWindowExceededError", ("x", "m", "p"), "invalid_input", "invalid_input"),
    Case(
        "openai",
        "APIConnectionError",
        lambda: named("openai:APIConnectionError")(request=_http_answer(200).request),
        "transport",
        "transport",
    ),
    Case(
        "anthropic",
        "APIStatusError 529",
        lambda: named("anthropic:APIStatusError")("overloaded", response=_http_answer(529), body=None),
        "server",
        "server",
    ),
    *_of("google-adk", "google.adk.workflow._errors", "NodeInterruptedError policy policy"),
    _one(
        "google-adk",
        "google.adk.workflow._errors:NodeTimeoutError",
        (),
        "timeout",
        "timeout",
        node_name="n",
        timeout=1.0,
    ),
    *_of("google-adk", "google.adk.errors.tool_execution_error", "ToolExecutionError tool transport", "x"),
    *_of("google-adk", "google.adk.errors.tool_execution_error", "ToolExecutionError timeout timeout", "x", "504"),
    *_of(
        "google-adk",
        "google.adk.errors.tool_execution_error",
        "ToolExecutionError server server",
        "x",
        "SERVICE_UNAVAILABLE",
    ),
    *_of("google-adk", "google.adk.errors.input_validation_error", "InputValidationError invalid_input transport", "x"),
    *[
        _one("google-adk", f"google.genai.errors:{name}", (status, {"error": {"code": status}}), expected, expected)
        for name, status, expected in [
            ("ServerError", 503, "server"),
            ("ClientError", 429, "rate_limited"),
            ("ClientError", 400, "invalid_input"),
        ]
    ],
    Case(
        "crewai",
        "HumanFeedbackPending",
        _without_init("crewai.flow.async_feedback.types:HumanFeedbackPending"),
        "policy",
        "policy",
    ),
    *_of("crewai", "crewai.llms.base_llm", "LLMCallBlockedError policy policy", "x"),
    *_of("crewai", "crewai.tools.structured_tool", "ToolUsageLimitExceededError policy policy", "x"),
    *_of("crewai", "crewai.tools.tool_usage", "ToolUsageError tool transport", "x"),
    Case(
        "crewai",
        "ToolExecutionFailedError",
        _without_init("crewai.tools.tool_failure:ToolExecutionFailedError"),
        "tool",
        "transport",
    ),
    *_of(
        "crewai",
        "crewai.utilities.exceptions.context_window_exceeding_exception",
        "LLMContextLengthExceededError invalid_input transport",
        "x",
    ),
    *_of("crewai", "crewai.mcp.exceptions", "MCPConnectionError transport transport", "x"),
    _one("crewai", "crewai.mcp.exceptions:MCPAuthenticationError", (401,), "auth", "auth"),
    _one("crewai", "crewai.mcp.exceptions:MCPHTTPError", (503,), "server", "server"),
    *_of("anyio", "anyio", "ClosedResourceError transport transport\nBrokenResourceError transport transport"),
]

TEXT = "Error: ConnectionError('no route')"
"""The text of the failed results. It reports an outage, which counts only by text."""


def _mcp_result(**values: Any) -> Any:
    return named("mcp.types:CallToolResult").model_validate({"content": [{"type": "text", "text": TEXT}]} | values)


def _asking() -> Any:
    return named("mcp_types:InputRequiredResult")(request_state="s")


def _task() -> Any:
    task = {"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": None}
    return named("mcp_types:CreateTaskResult").model_validate(
        {"task": task | {"lastUpdatedAt": "2026-01-01T00:00:00Z"}}
    )


RESULTS = [
    Case("mcp", "CallToolResult with isError", lambda: _mcp_result(isError=True), "tool"),
    Case("mcp", "CallToolResult", _mcp_result, None),
    Case("mcp", "InputRequiredResult", _asking, "policy"),
    Case("mcp", "InputRequiredResult as a dict", lambda: _asking().model_dump(mode="json", by_alias=True), "policy"),
    Case("mcp", "CreateTaskResult", _task, None),
    Case(
        "fastmcp",
        "ToolResult with is_error",
        lambda: named("fastmcp.tools.base:ToolResult")(TEXT, is_error=True),
        "tool",
    ),
    Case("fastmcp", "ToolResult", lambda: named("fastmcp.tools.base:ToolResult")(TEXT), None),
    Case(
        "fastmcp",
        "client's CallToolResult",
        lambda: named("fastmcp.client.client:CallToolResult")(
            content=[SimpleNamespace(text=TEXT)], structured_content=None, meta=None, is_error=True
        ),
        "tool",
    ),
    Case(
        "fastmcp",
        "InputRequiredToolResult",
        lambda: named("fastmcp.tools.base:InputRequiredToolResult")(_asking()),
        "policy",
    ),
    Case(
        "langchain",
        "ToolMessage with status error",
        lambda: named("langchain_core.messages:ToolMessage")(TEXT, tool_call_id="1", status="error"),
        "tool",
    ),
    Case(
        "langchain",
        "ToolMessage of blocks with status error",
        lambda: named("langchain_core.messages:ToolMessage")(
            [{"type": "text", "text": TEXT}], tool_call_id="1", status="error"
        ),
        "tool",
    ),
    Case(
        "langchain", "ToolMessage", lambda: named("langchain_core.messages:ToolMessage")(TEXT, tool_call_id="1"), None
    ),
    Case(
        "agent-framework-core",
        "function result with an exception",
        lambda: named("agent_framework:Content").from_function_result("c", result="Error", exception=TEXT),
        "tool",
    ),
    Case(
        "agent-framework-core",
        "function result",
        lambda: named("agent_framework:Content").from_function_result("c", result=TEXT),
        None,
    ),
    Case("crewai", "ToolFailure", lambda: named("crewai.tools.tool_failure:ToolFailure")(message=TEXT), "tool"),
    Case("google-adk", "error as a dict", lambda: {"error": TEXT}, None),
    Case(
        "google-adk",
        "MCP result as a dict",
        lambda: {"content": [{"type": "text", "text": TEXT}], "isError": True},
        "tool",
    ),
]
