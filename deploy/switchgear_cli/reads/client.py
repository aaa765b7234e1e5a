"""ApiClient: the HTTP API, asked from the command line."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from switchgear_cli.discovery import API, client_settings
from switchgear_schemas.errors import SwitchgearError

CONNECT_LIMIT_S: Final = 3.0
ANSWER_LIMIT_S: Final = 120.0


class ApiUnavailableError(SwitchgearError):
    """Nobody answers at the API's address, or somebody else does."""


class ApiAnswerError(SwitchgearError):
    """The API answered with an error; the message and hint are its own."""


class ApiClient:
    """One API: everything that it tells, and the retention, which it changes. Use it as ``with``.

    Args:
        url: Where the API is, e.g. ``http://127.0.0.1:8620``.
        answer_limit_s: How long to wait for an answer, in seconds.

    Every method returns the JSON object as it came, and raises:
        ApiUnavailableError: the API could not be reached, did not answer in time, or is no Switchgear.
        ApiAnswerError: it refused the request.
    """

    def __init__(self, url: str, answer_limit_s: float = ANSWER_LIMIT_S) -> None:
        self.url = url.rstrip("/")
        try:
            # a proxy of the environment is not asked for: the API is on this machine, or in the same network
            self._http = httpx.Client(
                base_url=self.url, timeout=httpx.Timeout(answer_limit_s, connect=CONNECT_LIMIT_S), trust_env=False
            )
        except httpx.InvalidURL as error:
            raise ApiUnavailableError(f"{url!r} is no address: {error}.", hint=_WAY_OUT) from None

    def tools(self, hours: float | None = None) -> dict[str, Any]:
        """The health of every tool."""
        return self._get("/v1/tools", hours=hours)

    def tool(self, name: str, hours: float | None = None) -> dict[str, Any]:
        """Everything about one tool."""
        return self._get(f"/v1/tools/{quote(name, safe='')}", hours=hours)

    def circuits(self) -> dict[str, Any]:
        """Every circuit as it is."""
        return self._get("/v1/circuits")

    def circuit_history(self, circuit_id: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """The records of a circuit, or of all, newest first."""
        if circuit_id is None:
            return self._get("/v1/circuits", history=1, limit=limit)
        return self._get(f"/v1/circuits/{quote(circuit_id, safe='')}/history", limit=limit)

    def slow(
        self,
        threshold_ms: float | None = None,
        limit: int | None = None,
        tool: str | None = None,
        hours: float | None = None,
    ) -> dict[str, Any]:
        """The slowest calls."""
        return self._get("/v1/slow", threshold_ms=threshold_ms, limit=limit, tool=tool, hours=hours)

    def errors(self, tool: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """The newest errors and timeouts."""
        return self._get("/v1/errors", tool=tool, limit=limit)

    def sql(self, query: str) -> dict[str, Any]:
        """The rows of a query."""
        return self._send("POST", "/v1/sql", json={"query": query})

    def retention(self) -> dict[str, Any]:
        """How long rows are kept, and in which store."""
        return self._get("/v1/retention")

    def set_retention(self, days: int, tenant: str | None = None, *, new_rows_only: bool = False) -> dict[str, Any]:
        """Keep rows for so many days; the rules in force then."""
        return self._send("PUT", "/v1/retention", json={"days": days, "tenant": tenant, "new_rows_only": new_rows_only})

    def reset_retention(self, tenant: str | None = None, *, new_rows_only: bool = False) -> dict[str, Any]:
        """Take a rule back; the rules in force then."""
        given = {} if tenant is None else {"tenant": tenant}
        return self._send("DELETE", "/v1/retention", params=given | {"new_rows_only": str(int(new_rows_only))})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def _get(self, path: str, **parameters: object) -> dict[str, Any]:
        given = {name: str(value) for name, value in parameters.items() if value is not None}
        return self._send("GET", path, params=given)

    def _send(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx.TimeoutException:
            raise ApiUnavailableError(f"The API at {self.url} did not answer in time.", hint=_WAY_OUT) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise ApiUnavailableError(f"The API at {self.url} cannot be reached ({reason}).", hint=_WAY_OUT) from None
        content = _object(answer)
        if answer.is_success and content is not None:
            return content
        if content is None or "error" not in content:
            raise ApiUnavailableError(
                f"What answers at {self.url} is not the Switchgear API (status {answer.status_code}).", hint=_WAY_OUT
            )
        raise ApiAnswerError(str(content["error"]), hint=str(content.get("hint") or ""))


_WAY_OUT: Final = "Start it with `switchgear up`, or say where it is with --api-url or SWITCHGEAR_API_URL."


def connect(api_url: str | None = None) -> ApiClient:
    """The client of the API that the option, the settings or a running `switchgear up` name.

    Raises:
        SettingsError: a setting is wrong.
        ApiUnavailableError: the address is none.
    """
    url = client_settings(use=(API,), api_url=api_url).api_url
    assert url is not None  # client_settings fills it
    return ApiClient(url)


def _object(answer: httpx.Response) -> dict[str, Any] | None:
    try:
        content = answer.json()
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
