"""OpenTelemetry's ways into the gateway: HTTP, gRPC, and the topics of a collector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import grpc
from prometheus_client import CollectorRegistry, Gauge
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from switchgear_gateway.checking import check_in_turn
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp.kafka import OtlpTopics
from switchgear_gateway.otlp.submission import NotAllowedError, Sender, SubmitResult, TryAgainError
from switchgear_gateway.publisher import Publisher
from switchgear_gateway.shared import Shared
from switchgear_http.authenticator import Authenticator
from switchgear_http.errors import InvalidCredentialsError, KeysUnavailableError
from switchgear_http.middleware import principal_of
from switchgear_http.principal import LOCAL, Principal, Role
from switchgear_http.problem import ProblemError
from switchgear_http.routing import Handlers, route
from switchgear_http.turns import Turn
from switchgear_schemas import ToolExecution
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.files import MOST_BYTES_OF_CERTIFICATES, read_file
from switchgear_schemas.settings import Settings

_RETRY_S: Final = 2.0


class Senders:
    """Makes senders of clients, over HTTP and gRPC alike.

    Args:
        authenticator: The ways to log in.
        publisher: Sends the executions.
        shared: What all routes share.
    """

    def __init__(self, authenticator: Authenticator, publisher: Publisher, shared: Shared) -> None:
        self.shared = shared
        self._authenticator = authenticator
        self._publisher = publisher

    async def of_headers(self, headers: Mapping[str, str]) -> Sender:
        """Return the sender by the headers of a request over gRPC. Over HTTP the access control has found the client before.

        Raises:
            NotAllowedError: It has no valid token, or may not send executions.
            TryAgainError: Its JWT can't be checked now.
        """
        if not self._authenticator.configured:
            return self.of(LOCAL)
        scheme, _, credential = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise NotAllowedError("The gateway needs a token.", status=401, hint="Send Authorization: Bearer <token>.")
        try:
            principal = await self._authenticator.authenticate(credential.strip())
        except InvalidCredentialsError as error:
            raise NotAllowedError(error.message, status=401, hint=error.hint) from None
        except KeysUnavailableError as error:
            raise TryAgainError(error.message, retry_after_s=10) from None
        if not principal.may(Role.EMIT):
            raise NotAllowedError("This needs the role emit.", status=403, hint="Use a token with the role emit.")
        return self.of(principal)

    def of(self, principal: Principal) -> Sender:
        """Return the sender for a client."""

        async def submit(executions: Sequence[ToolExecution], *, resent: bool) -> SubmitResult:
            return await self._submit(executions, principal, resent=resent)

        return Sender(submit, principal.tenant or "", principal.credential)

    async def _submit(self, executions: Sequence[ToolExecution], principal: Principal, *, resent: bool) -> SubmitResult:
        turn, items = Turn(), []
        for each in executions:
            items.append(each.model_dump_json(exclude_none=True).encode())
            await turn.pause()
        checked = await check_in_turn(items, principal, turn, names=self.shared.names)
        self.shared.tenant_tools.note(principal, checked.runs)
        try:
            submission = await self._publisher.submit(checked.runs, turn, resent=resent)
        except ProblemError as error:
            return SubmitResult(retry_after_s=float(error.headers.get("Retry-After", _RETRY_S)))
        unknown = await submission.wait()
        self._publisher.rejected += len(checked.rejected)
        return SubmitResult(checked.rejected + submission.refused, unknown)


class OtlpRoutes(Handlers):
    """What the gateway says about OTLP: ``GET /v1/sources``, and metrics.

    Args:
        ingest: Makes executions of spans and log records. It runs as long as this does.
        registry: Takes the metrics.
    """

    def __init__(self, ingest: Ingest, registry: CollectorRegistry) -> None:
        self._ingest = ingest
        for name, help_text in (
            ("records", "Spans and log records."),
            ("calls", "Tool calls among them that were acknowledged."),
            ("rejected", "Tool calls that can't be used."),
            ("lost", "Tool calls that could not be sent after their export was answered."),
        ):
            gauge = Gauge(f"switchgear_gateway_otlp_{name}", f"OTLP: {help_text}", registry=registry)
            gauge.set_function(partial(getattr, ingest.counts, name))
        unmatched = Gauge(
            "switchgear_gateway_otlp_unmatched",
            "OTLP: Spans that look like tool calls, and that no mapping reads. GET /v1/sources has their libraries.",
            registry=registry,
        )
        unmatched.set_function(lambda: ingest.counts.unmatched.total)

    @route("GET", "/v1/sources", (Role.READ, Role.EMIT))
    async def sources(self, request: Request) -> Response:
        """Count what arrived as OTLP since the start, and say why calls are missing.

        A tenant sees its own reasons, and no totals, which are those of all tenants.
        """
        counts, tenant = self._ingest.counts, principal_of(request.scope).tenant
        return JSONResponse(
            ({} if tenant is not None else {"records": counts.records, "calls": counts.calls})
            | {
                "unmatched": [
                    {"scope": each.what, "spans": each.number, "example": each.example}
                    for each in counts.unmatched.of(tenant)
                ],
                "refused": [{"why": each.what, "calls": each.number} for each in counts.refused.of(tenant)],
            }
        )

    async def run(self) -> None:
        """Send calls that waited for a better span."""
        await self._ingest.run()


def otlp_topics(settings: Settings, ingest: Ingest, senders: Senders) -> OtlpTopics | None:
    """Return the consumer of a collector's topics, or None if none are set."""
    topics = {
        name: kind
        for name, kind in (
            (settings.gateway_otlp_spans_topic, "spans"),
            (settings.gateway_otlp_logs_topic, "logs"),
        )
        if name is not None
    }
    if not topics:
        return None
    return OtlpTopics(
        settings.kafka, ingest, senders.of(LOCAL), group=f"{settings.topic_prefix}gateway-otlp", topics=topics
    )


def grpc_credentials(settings: Settings) -> grpc.ServerCredentials | None:
    """Return the certificate for gRPC, or None if no certificate is set.

    Raises:
        SettingsError: The key is encrypted, which gRPC can't read.
    """
    if settings.tls_certfile is None:
        return None
    if settings.tls_key_password is not None:
        raise SettingsError(
            "gateway_otlp_grpc can't use an encrypted private key.", hint="Set tls_keyfile to a key without a password."
        )
    certificate = read_file(settings.tls_certfile, MOST_BYTES_OF_CERTIFICATES)
    key = certificate if settings.tls_keyfile is None else read_file(settings.tls_keyfile)
    return grpc.ssl_server_credentials([(key, certificate)])
