"""The command line's client of the HTTP API."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from switchgear_cli.discovery import API, client_settings
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.files import trusted_at
from switchgear_schemas.settings import Settings

CONNECT_LIMIT_S: Final = 3.0
ANSWER_LIMIT_S: Final = 120.0


class ApiUnavailableError(SwitchgearError):
    """No Switchgear API answers at the address."""


class ApiAnswerError(SwitchgearError):
    """The API answered with an error. The message and hint are the API's."""

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ApiClient:
    """A client of the HTTP API. Use it in a ``with`` block.

    Every method returns the JSON object as the API sent it.

    Args:
        url: The API's address, for example ``http://127.0.0.1:8620``.
        answer_limit_s: Longest wait for an answer, in seconds.
        token: The token to send, or None.
        cafile: PEM file of the CA certificates to trust for https; None for the system's.
        total_s: Longest wait for all answers together, in seconds; None for no such limit.

    Raises (every method):
        ApiUnavailableError: The API could not be reached, did not answer in time, or is not Switchgear.
        ApiAnswerError: The API refused the request.
    """

    def __init__(
        self,
        url: str,
        answer_limit_s: float = ANSWER_LIMIT_S,
        *,
        token: str | None = None,
        cafile: Path | None = None,
        total_s: float | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._ends_at = None if total_s is None else time.monotonic() + total_s
        try:
            # trust_env is off: the API is on this machine or in the same network, so no proxy is needed
            self._http = httpx.Client(
                base_url=self.url,
                timeout=_timeout(answer_limit_s),
                trust_env=False,
                headers={} if token is None else {"Authorization": f"Bearer {token}"},
                verify=trusted_at(url, cafile),
            )
        except httpx.InvalidURL as error:
            raise ApiUnavailableError(f"{url!r} is not a valid address: {error}.", hint=_WAY_OUT) from None
        except OSError as error:
            raise ApiUnavailableError(
                f"api_cafile {cafile} holds no certificates: {error}.", hint="Correct the setting api_cafile."
            ) from None

    @classmethod
    def of(
        cls,
        settings: Settings,
        url: str | None = None,
        answer_limit_s: float = ANSWER_LIMIT_S,
        *,
        total_s: float | None = None,
    ) -> ApiClient:
        """Return a client with the token and certificates of the settings. ``url`` is by default ``api_url``."""
        token = None if settings.token is None else settings.token.get_secret_value()
        where = url or settings.api_url or ""
        return cls(where, answer_limit_s, token=token, cafile=settings.api_cafile, total_s=total_s)

    def tools(self, hours: float | None = None) -> dict[str, Any]:
        """Return the health of every tool."""
        return self._get("/v1/tools", hours=hours)

    def tool(self, name: str, hours: float | None = None) -> dict[str, Any]:
        """Return everything about one tool."""
        return self._get(f"/v1/tools/{quote(name, safe='')}", hours=hours)

    def circuits(self) -> dict[str, Any]:
        """Return the present state of every circuit: ``circuits`` is a list, those that refuse calls first."""
        answer = self._having("circuits", self._get("/v1/circuits"))
        return answer | {"circuits": list(answer["circuits"].values())}

    def circuit_history(self, circuit_id: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """Return the records of a circuit, or of all, newest first."""
        if circuit_id is None:
            return self._having("history", self._get("/v1/circuits", history=1, limit=limit))
        return self._having("history", self._get(f"/v1/circuits/{quote(circuit_id, safe='')}/history", limit=limit))

    def slow(
        self,
        threshold_ms: float | None = None,
        limit: int | None = None,
        tool: str | None = None,
        hours: float | None = None,
    ) -> dict[str, Any]:
        """Return the slowest calls."""
        return self._get("/v1/slow", threshold_ms=threshold_ms, limit=limit, tool=tool, hours=hours)

    def errors(self, tool: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """Return the newest errors and timeouts."""
        return self._get("/v1/errors", tool=tool, limit=limit)

    def emitters(self) -> dict[str, Any]:
        """Return the processes whose clock is wrong."""
        return self._having("emitters", self._get("/v1/emitters"))

    def sql(self, query: str) -> dict[str, Any]:
        """Return the rows of a query."""
        return self._send("POST", "/v1/sql", json={"query": query})

    def readiness(self) -> dict[str, Any]:
        """Return ``status``, and ``checks`` by name. The API may be reachable and not ready."""
        answer = self._request("GET", "/readyz")
        content = _object(answer)
        return self._having("status", content or {}, answer.status_code)

    def sources(self) -> dict[str, Any]:
        """Return what a gateway got as OTLP, and why calls are missing. Only a gateway has this route."""
        return self._having("unmatched", self._get("/v1/sources"))

    def known(self) -> dict[str, Any]:
        """Return the circuits and names that an operator can command, and what ``policy set`` has values for."""
        return self._get("/v1/console/known")

    def command(
        self,
        circuit_id: str,
        verb: str,
        expires_in_s: float | None = None,
        *,
        limit_s: float = ANSWER_LIMIT_S,
        **how: Any,
    ) -> dict[str, Any]:
        """Send an operator's command to a circuit. Return its outcome, and the circuit before and after.

        Args:
            circuit_id: The circuit.
            verb: What is commanded.
            expires_in_s: How long it holds. None: until another command.
            limit_s: Longest wait for the answer, in seconds.
            how: Other fields of the body: ``reason``, ``actor``, ``wait_s``.
        """
        body = {"command": verb, "expires_in_s": expires_in_s} | how
        return self._send(
            "POST", f"/v1/circuits/{quote(circuit_id, safe='')}/commands", json=body, timeout=_timeout(limit_s)
        )

    def set_policy(
        self,
        pattern: str,
        values: Mapping[str, Any],
        *,
        family: bool = False,
        limit_s: float = ANSWER_LIMIT_S,
        **how: Any,
    ) -> dict[str, Any]:
        """Set values of the policy of a tool, a glob or a family; without values, remove those that are set.

        Args:
            pattern: The name or glob.
            values: The values.
            family: It is the name of a family.
            limit_s: Longest wait for the answer, in seconds.
            how: Other fields of the body, as of :meth:`command`.
        """
        body = {"policy": dict(values), "family": family} | how
        return self._send("PUT", f"/v1/policies/{quote(pattern, safe='')}", json=body, timeout=_timeout(limit_s))

    def retention(self) -> dict[str, Any]:
        """Return how long rows are kept, and in which store."""
        return self._get("/v1/retention")

    def set_retention(self, days: int, tenant: str | None = None, *, new_rows_only: bool = False) -> dict[str, Any]:
        """Keep rows for so many days. Return the rules that then hold."""
        return self._send("PUT", "/v1/retention", json={"days": days, "tenant": tenant, "new_rows_only": new_rows_only})

    def reset_retention(self, tenant: str | None = None, *, new_rows_only: bool = False) -> dict[str, Any]:
        """Remove a rule. Return the rules that then hold."""
        given = {} if tenant is None else {"tenant": tenant}
        return self._send("DELETE", "/v1/retention", params=given | {"new_rows_only": str(int(new_rows_only))})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def _having(self, name: str, content: dict[str, Any], status: int = httpx.codes.OK) -> dict[str, Any]:
        """Return an answer, if it has what the API's answer has."""
        if name not in content:
            raise self._other(status)
        return content

    def _other(self, status: int) -> ApiUnavailableError:
        return ApiUnavailableError(
            f"What answers at {self.url} is not the Switchgear API (status {status}).", hint=_WAY_OUT
        )

    def _get(self, path: str, **parameters: object) -> dict[str, Any]:
        given = {name: str(value) for name, value in parameters.items() if value is not None}
        return self._send("GET", path, params=given)

    def _request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        if self._ends_at is not None:
            arguments["timeout"] = _timeout(max(0.001, self._ends_at - time.monotonic()))
        try:
            return self._http.request(method, path, **arguments)
        except httpx.TimeoutException:
            raise ApiUnavailableError(f"The API at {self.url} did not answer in time.", hint=_WAIT) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise ApiUnavailableError(f"The API at {self.url} cannot be reached ({reason}).", hint=_WAY_OUT) from None

    def _send(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        answer = self._request(method, path, **arguments)
        content = _object(answer)
        if answer.is_success and content is not None:
            return content
        said = None if content is None else content.get("detail") or content.get("error")  # older servers: error
        if content is None or said is None:
            raise self._other(answer.status_code)
        hint = str(content.get("hint") or "")
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            hint = "Set SWITCHGEAR_TOKEN to a token of this API. `switchgear token create` makes one."
        raise ApiAnswerError(str(said), hint=hint, status=answer.status_code)


_WAIT: Final = "It may be starting or busy. Look at the output of `switchgear up` or at its log, and try again."
_WAY_OUT: Final = "Start it with `switchgear up`, or say where it is with --api-url or SWITCHGEAR_API_URL."


def connect(api_url: str | None = None) -> ApiClient:
    """Return a client of the API that the option, the settings or a running ``switchgear up`` names.

    Raises:
        SettingsError: A setting is wrong.
        ApiUnavailableError: The address is not a URL.
    """
    return ApiClient.of(client_settings(use=(API,), api_url=api_url))


def _timeout(answer_limit_s: float) -> httpx.Timeout:
    return httpx.Timeout(answer_limit_s, connect=min(CONNECT_LIMIT_S, answer_limit_s))


def _object(answer: httpx.Response) -> dict[str, Any] | None:
    try:
        content = answer.json()
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
