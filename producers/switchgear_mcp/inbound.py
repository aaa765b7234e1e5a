"""What is let in of the messages of all servers: its size, and the entries of their lists."""

from __future__ import annotations

from dataclasses import dataclass, field

from switchgear_mcp.listing import Listing
from switchgear_mcp.message_size import DEFAULT_MIB, MIB


@dataclass(frozen=True, slots=True)
class Inbound:
    """The rules of one proxy.

    Attributes:
        most: The most that one message may cost, see :mod:`switchgear_mcp.message_size`.
        listing: Sorts out the entries of lists.
    """

    most: int = DEFAULT_MIB * MIB
    listing: Listing = field(default_factory=Listing)
