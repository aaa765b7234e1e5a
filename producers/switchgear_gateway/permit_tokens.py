"""Permits as tokens. A gateway remembers nothing about a permit: its token holds what the event of the outcome needs.

So the outcome may come to any gateway that has the same key, also after a restart of the one that gave the permit. A token is signed
(HMAC-SHA256), because whoever could make one could report for tools that its own token excludes. It isn't encrypted: all in it is known to
the client that asked, or is in the circuit's record.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from typing import Final

import msgspec

from switchgear_schemas.enums import ServedBy

PREFIX: Final = "sgp1_"
"""The format's version is part of it."""
MAX_LENGTH: Final = 16_384
"""The longest token: each name in it has at most 256 characters."""
_PURPOSE: Final = b"switchgear permit 1\n"
"""The key may sign other things elsewhere."""
_SIGNATURE_BYTES: Final = 32


class GivenPermit(msgspec.Struct, frozen=True, array_like=True):
    """A permit that was given.

    Attributes:
        metric_id: The id of the event that its outcome becomes. A repeated outcome has the same, so it counts once.
        issued_at: When the permit was given, in seconds since 1970. The call began then.
        expires_at: When it ends, in seconds since 1970.
        tool: The tool to call, or the fallback that is called instead.
        generation: Generation of the tool's circuit. None if it isn't known.
        lease_id: Probe lease of that circuit.
        family_generation: Generation of the family's circuit.
        family_lease_id: Probe lease of that circuit.
        tenant: The tenant whose call it is.
        emitter_id: The process that calls.
        service: The service it belongs to.
        user_id: The user that the call is for.
        session_id: The session.
        request_id: The request.
        parameters_hash: The hash of the call's arguments.
        served_by: ``fallback`` if another tool was asked for.
        target: What the call is about, if the tool's policy keeps targets apart.
    """

    metric_id: bytes
    issued_at: float
    expires_at: float
    tool: str
    generation: int | None = None
    lease_id: str | None = None
    family_generation: int | None = None
    family_lease_id: str | None = None
    tenant: str = ""
    emitter_id: str = ""
    service: str = ""
    user_id: str = ""
    session_id: str | None = None
    request_id: str | None = None
    parameters_hash: str | None = None
    served_by: ServedBy = "call"
    target: str = ""


_decode: Final = msgspec.msgpack.Decoder(GivenPermit).decode


class PermitTokens:
    """Makes tokens of permits, and reads them.

    Args:
        key: A secret of at least 16 bytes that all gateways share. None: one of this process alone, so that only this gateway, until it
            restarts, can read its tokens.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = os.urandom(_SIGNATURE_BYTES) if key is None else key

    def token(self, permit: GivenPermit) -> str:
        """Return the token of a permit."""
        packed = msgspec.msgpack.encode(permit)
        return PREFIX + base64.urlsafe_b64encode(self._signature(packed) + packed).rstrip(b"=").decode()

    def permit(self, token: str) -> GivenPermit | None:
        """Return the permit of a token. Return None if no gateway with this key made it."""
        encoded = token.removeprefix(PREFIX)
        if encoded == token or len(token) > MAX_LENGTH:
            return None
        try:
            data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):  # ValueError: characters that aren't ASCII
            return None
        signature, packed = data[:_SIGNATURE_BYTES], data[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(packed)):
            return None
        return _decode(packed)

    def _signature(self, packed: bytes) -> bytes:
        return hmac.digest(self._key, _PURPOSE + packed, "sha256")
