"""A process of Switchgear whose model sees the client's list of tools, and the client's message when tools go down or come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from switchgear.tool_list import ToolList
from tests.bench.benefit.arms.arm import Fleet
from tests.bench.benefit.arms.switchgear import SwitchgearCaller, SwitchgearFleet


class Told(SwitchgearCaller):
    """The list is that of the client's ``tool_list``. The message is appended to the conversation."""

    def offered(self, tools: Sequence[str], conversation: str) -> Sequence[str]:
        return self.gear.available(tools, session_id=conversation)

    def message(self, tools: Sequence[str], conversation: str) -> str:
        return self.gear.outage_message(conversation, tools=tools)


def with_list(tool_list: ToolList, **options: Any) -> Callable[[], Fleet]:
    """Return what makes a fleet whose clients have this ``tool_list``, and other options."""
    return lambda: SwitchgearFleet(Told, tool_list=tool_list, **options)
