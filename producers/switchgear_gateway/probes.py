"""The gateway's ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from switchgear_http.probes import Probes

_STATE: Final = {"application/json": {"schema": {"type": "object"}}}


class ProbeRoutes(Probes):
    """The probes as a part of the gateway."""

    @property
    def openapi(self) -> Mapping[str, Mapping[str, Any]]:
        """OpenAPI's path items."""

        def item(summary: str, answers: Mapping[str, Any]) -> dict[str, Any]:
            return {"get": {"summary": summary, "responses": dict(answers)}}

        ready = {"description": "Ready.", "content": _STATE}
        return {
            "/healthz": item("Whether the process serves.", {"200": {"description": "It does.", "content": _STATE}}),
            "/readyz": item(
                "Whether Kafka answers and the circuits are followed.",
                {"200": ready, "503": {"description": "Not ready.", "content": _STATE}},
            ),
            "/metrics": item(
                "Metrics in Prometheus' format.",
                {"200": {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
            ),
        }
