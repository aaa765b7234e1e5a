"""What goes wrong between the proxy and a server. The types decide the class in the circuits: see switchgear.classify."""

from __future__ import annotations


class ServerDownError(ConnectionError):
    """The server can't be reached, or its connection ended during the request. Class ``transport``."""


class ServerSilentError(TimeoutError):
    """The server did not answer in time. Class ``timeout``."""


class ServerStatusError(Exception):
    """The server answered a request with a status of HTTP that is an error. The status decides the class."""

    def __init__(self, text: str, status_code: int) -> None:
        super().__init__(text)
        self.status_code = status_code
