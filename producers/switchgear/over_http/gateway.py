"""The address of a gateway, the token for it, and what its errors say."""

from __future__ import annotations

import functools
import ipaddress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from switchgear.arguments import OptionError, impossible
from switchgear.runtime.fork import importing
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    import httpx

SCHEMES: Final = ("http://", "https://")
KEEP_ALIVE_S: Final = 30.0
"""An idle connection is closed after this. Load balancers often close theirs after 60 s without a word."""
_CONNECT_LIMIT_S: Final = 5.0
_REQUEST_LIMIT_S: Final = 30.0
"""The gateway itself waits 10 s for Kafka."""
_MOST_TEXT: Final = 500


class MissingClientError(SwitchgearError):
    """The HTTP client is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "A client over a gateway needs the package httpx, which is not installed.",
            hint="Run: pip install 'switchgear[gateway-client]'",
        )


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway, or several behind one address.

    Args:
        url: Its address, which begins with ``https://`` or ``http://``.
        token: The bearer token. None: the gateway needs none.

    Raises:
        OptionError: The address or the token is impossible. The message doesn't show the token.
        MissingClientError: The package httpx is missing.
    """

    url: str
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            host = parts.hostname if parts.port is None or parts.port else None
        except ValueError:
            host = None
        if not self.url.startswith(SCHEMES) or not host or parts.query or parts.fragment:
            impossible("The address of a gateway", "like https://gateway:8622", self.url)
        if parts.username is not None or parts.password is not None:
            raise OptionError("The address of a gateway contains a login.", hint="Leave it out, and pass token=….")
        token = self.token
        if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable() and token):
            raise OptionError("token must be one word of printable ASCII characters.")
        if token is not None and " " in token:
            raise OptionError("token has a space.", hint='Leave out the word "Bearer".')
        if find_spec("httpx") is None:
            raise MissingClientError

    def client(self) -> httpx.AsyncClient:
        """Return an HTTP client for one event loop. Close it after use."""
        with importing:
            import httpx  # noqa: PLC0415 - costs 100 ms that an import of switchgear must not

        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(
            base_url=self.url,
            headers=headers,
            verify=_tls() if self.url.startswith("https") else False,
            trust_env=not _is_loopback(urlsplit(self.url).hostname or ""),  # a proxy can't reach this machine
            timeout=httpx.Timeout(_REQUEST_LIMIT_S, connect=_CONNECT_LIMIT_S),
            limits=httpx.Limits(keepalive_expiry=KEEP_ALIVE_S),
        )

    def problem(self, status: int, body: bytes) -> str:
        """Return a sentence about an answer with an error. Refused tokens get one that says what to do."""
        said = _said(body)
        found = f"the gateway at {self.url} answered {status}" + (f": {said}" if said else "")
        if status == 401:
            how = "The token is not valid there" if self.token else "It needs a token"
            return f"{found.rstrip('.')}. {how}: pass token=… or set SWITCHGEAR_TOKEN"
        if status == 403:
            return f"{found.rstrip('.')}. The token needs the role emit"
        if status == 404:
            return f"{found.rstrip('.')}. Check that this is the address of a gateway"
        return found


@functools.cache
def _tls() -> Any:
    import httpx  # noqa: PLC0415 - see client

    return httpx.create_ssl_context()  # takes 20 ms. It honours SSL_CERT_FILE and SSL_CERT_DIR


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Problem(msgspec.Struct):
    title: str = ""
    detail: str = ""
    hint: str = ""


_decode_problem: Final = msgspec.json.Decoder(_Problem).decode


def _said(body: bytes) -> str:
    """Return what problem details (RFC 9457) say."""
    try:
        problem = _decode_problem(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return " ".join(part for part in (problem.detail or problem.title, problem.hint) if part)[:_MOST_TEXT]
