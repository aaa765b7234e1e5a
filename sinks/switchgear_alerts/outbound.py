"""HTTP requests to receivers: encrypted, to public addresses only, with limits, and without secrets in errors.

Whoever may edit the alerts file must not reach the services behind this process's firewall with it (SSRF, CWE-918). So a name is
resolved here, its addresses are checked, and the request goes to a checked address, also if the name changes in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final

import httpx

from switchgear_alerts.errors import DeliveryError
from switchgear_schemas.visible import sentence

TIMEOUT_S: Final = 15.0
_MOST_BYTES: Final = 65_536
_MOST_SHOWN: Final = 200
_TRY_AGAIN: Final = frozenset({408, 425, 429})
_LONGEST_ASKED_WAIT_S: Final = 3600.0
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""All that is handed out for public use (RFC 4291)."""
_6TO4: Final = IPv6Network("2002::/16")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_HOST: Final = re.compile(r"[\w-]{1,63}(\.[\w-]{1,63})*\.?", re.ASCII)
_HIGHEST_PORT: Final = 65_535
_SHORTEST_PART: Final = 8
"""Characters of a part of a secret URL that is hidden by itself. Shorter ones are words such as ``api``."""


@dataclass(frozen=True, slots=True)
class ReceiverReply:
    """What a receiver answered with success."""

    status: int
    text: str


def read_url(url: str, example: str) -> httpx.URL:
    """Return an address from the file, if its host and its port can be.

    Raises:
        ValueError: They can't, or it is not a URL such as the example. The text doesn't show the URL, which may be secret.
    """
    try:
        found = httpx.URL(url)
        host = found.host
    except (httpx.InvalidURL, TypeError, ValueError):
        raise ValueError(f"must be a URL such as {example}") from None
    if found.scheme not in {"http", "https"} or not host:
        raise ValueError(f"must be a URL such as {example}")
    if _address(host) is None and not _HOST.fullmatch(found.raw_host.decode("ascii")):
        raise ValueError("must have a host name: parts of 1 to 63 letters, digits and hyphens, with a dot between them")
    if found.port is not None and not 1 <= found.port <= _HIGHEST_PORT:
        raise ValueError(f"must have a port from 1 to {_HIGHEST_PORT}")
    return found


def check_url(url: str, *, allow_private: bool) -> None:
    """Check an address from the file.

    Raises:
        ValueError: It is not a URL, is not encrypted, or is of a private network. The text doesn't show the URL, which may be secret.
    """
    found = read_url(url, "https://example.com/hook")
    host = found.host
    if found.userinfo:
        raise ValueError("must not have a user name or a password in it")
    if found.scheme == "http" and not _is_loopback_name(host) and not allow_private:
        raise ValueError("must begin with https://, except for this machine or with allow_private = true")
    check_address(host, allow_private=allow_private)


def check_address(host: str, *, allow_private: bool) -> None:
    """Check a host that is written as an address. A name passes; what it leads to is checked when it is asked.

    Raises:
        ValueError: It is an address of a private network.
    """
    address = _address(host)
    if address is not None and not allowed(address, host, allow_private=allow_private):
        raise ValueError("is an address of a private network; allow it by allow_private = true")


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Return what all receivers trust: loading it takes 20 ms."""
    return httpx.create_ssl_context(trust_env=False)


class Outbound:
    """Sends the requests of one receiver.

    Args:
        secrets: Texts that no error may show. Nor does it show parts of those that are URLs.
        allow_private: Private addresses and plain HTTP are allowed.
        proxy: URL of an HTTP proxy. It resolves the names itself.
    """

    def __init__(self, secrets: Iterable[str] = (), *, allow_private: bool = False, proxy: str | None = None) -> None:
        hidden = {part for each in (*secrets, proxy or "") if each for part in _with_parts(each)}
        self._secrets = sorted(hidden, key=len, reverse=True)
        self._allow_private = allow_private
        self._proxied = proxy is not None
        self._client = httpx.AsyncClient(
            timeout=TIMEOUT_S,
            trust_env=False,
            follow_redirects=False,
            proxy=proxy,
            verify=_certificates(),
            headers={"user-agent": "switchgear-alerts"},
            limits=httpx.Limits(max_connections=4, keepalive_expiry=30),
        )

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> ReceiverReply:
        """Send a request, and return the answer if it is a success.

        Raises:
            DeliveryError: It isn't, or there was none.
        """
        try:
            async with asyncio.timeout(TIMEOUT_S):
                response = await self._ask(url, body, headers)
                try:
                    text = await self._text(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise DeliveryError(f"no answer within {TIMEOUT_S:g} s") from None
        except (httpx.HTTPError, OSError) as error:
            raise DeliveryError(self.without_secrets(f"{type(error).__name__}: {error}")) from None
        except (httpx.InvalidURL, ValueError, OverflowError, ExceptionGroup) as error:  # their texts may show secrets
            raise DeliveryError(f"the request can't be made: {type(error).__name__}") from None
        if response.is_success:
            return ReceiverReply(response.status_code, text)
        status = response.status_code
        raise DeliveryError(
            f"HTTP {status}{f': {text}' if text else ''}",
            permanent=status < 500 and status not in _TRY_AGAIN,
            retry_after_s=_retry_after(response.headers.get("retry-after")),
        )

    def without_secrets(self, text: str) -> str:
        """Return a text on one line, with the secrets replaced."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        text = sentence(text)
        return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, url: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Return the answer of the first of the name's addresses that takes a connection."""
        *others, last = await self._requests(url, body, headers)
        for request in others:
            with contextlib.suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await self._client.send(request, stream=True)
        return await self._client.send(last, stream=True)

    async def _requests(self, url: str, body: bytes, headers: Mapping[str, str]) -> list[httpx.Request]:
        """Return the same request to each address of the name. They share the time for connecting."""
        target = httpx.URL(url)
        sent = dict(headers)
        extensions: dict[str, Any] = {}
        targets = [target]
        if not self._proxied and _address(target.host) is None:
            targets = [target.copy_with(host=address) for address in await self._resolve(target)]
            sent["host"] = target.netloc.decode("ascii")
            extensions["sni_hostname"] = target.raw_host.decode("ascii")
        timeout = httpx.Timeout(TIMEOUT_S, connect=TIMEOUT_S / len(targets))
        found = [
            self._client.build_request("POST", each, content=body, headers=sent, timeout=timeout) for each in targets
        ]
        for request in found:
            request.extensions.update(extensions)
        return found

    async def _resolve(self, url: httpx.URL) -> list[str]:
        """Return the addresses of a name, all of them checked, in the order of the system's preference."""
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            found = await asyncio.get_running_loop().getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise DeliveryError(self.without_secrets(f"the name {url.host} has no address: {error.strerror}")) from None
        addresses = [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
        for address in addresses:
            if not allowed(address, url.host, allow_private=self._allow_private):
                raise DeliveryError(
                    self.without_secrets(f"{url.host} is a private address; allow it by allow_private = true"),
                    permanent=True,
                )
        return list(dict.fromkeys(map(str, addresses)))

    async def _text(self, response: httpx.Response) -> str:
        found = bytearray()
        async for chunk in response.aiter_bytes():
            found += chunk
            if len(found) > _MOST_BYTES:
                break
        return self.without_secrets(bytes(found[:_MOST_BYTES]).decode(errors="replace"))


def _with_parts(secret: str) -> set[str]:
    """Return a secret, what a server may repeat of it if it is a URL, and all of that as JSON may escape it."""
    found = {secret}
    try:
        url = httpx.URL(secret)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL()
    if url.host:
        target, login = url.raw_path.decode("ascii"), url.userinfo.decode("ascii")
        path, _, query = target.partition("?")
        parts = {target, path, query, *path.split("/"), *(each.partition("=")[2] for each in query.split("&"))}
        parts |= {url.path, *url.path.split("/"), *url.params.values()}  # the same without percent-encoding
        found |= {each for each in parts if len(each) >= _SHORTEST_PART} | {
            each for each in (login, url.password) if each
        }
    return found | {form for each in found for form in _escaped_forms(each)}


def _escaped_forms(text: str) -> tuple[str, ...]:
    """Return a text as errors may quote it: JSON with an escaped slash, and Python's ``repr`` of it and of its bytes."""
    return text.replace("/", "\\/"), repr(text)[1:-1], repr(text.encode("utf-8", "surrogatepass"))[2:-1]


def allowed(address: IPv4Address | IPv6Address, host: str, *, allow_private: bool) -> bool:
    """Whether a request may go to this address of a host: a public one, or loopback if the host's name says so."""
    target = _target(address)
    if allow_private or (target.is_global and _is_handed_out(target)):
        return not target.is_multicast
    return target.is_loopback and _is_loopback_name(host)


def _target(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return what an address leads to: the IPv4 address inside it if it is IPv4-mapped or of NAT64."""
    if isinstance(address, IPv6Address) and address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return getattr(address, "ipv4_mapped", None) or address


def _is_handed_out(address: IPv4Address | IPv6Address) -> bool:
    """Whether it isn't IPv6 that can lead into a private network although ``is_global`` takes it: site-local, IPv4-compatible or 6to4."""
    return isinstance(address, IPv4Address) or (address in _GLOBAL_UNICAST and address not in _6TO4)


def _is_loopback_name(host: str) -> bool:
    address = _address(host)
    return host.lower().rstrip(".") == "localhost" if address is None else address.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def _retry_after(value: str | None) -> float | None:
    """Return the wait that a header asks for in seconds, bounded: a number or an HTTP date."""
    if value is None:
        return None
    try:
        asked = float(value)
    except ValueError:
        try:
            asked = parsedate_to_datetime(value).replace(tzinfo=UTC).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(max(0.0, asked), _LONGEST_ASKED_WAIT_S)
