"""All promises, in the order of the report."""

from __future__ import annotations

from tests.chaos.promises.call_path import call_path_never_waits
from tests.chaos.promises.exact_probes import exactly_n_probes
from tests.chaos.promises.one_order import one_owner_one_order
from tests.chaos.promises.over_count import no_over_count
from tests.chaos.promises.result import Promise
from tests.chaos.promises.several_tools import one_tool_opens_no_server
from tests.chaos.promises.silent_loss import no_silent_loss, transitions_stored

PROMISES: tuple[Promise, ...] = (
    no_silent_loss,
    no_over_count,
    one_owner_one_order,
    exactly_n_probes,
    one_tool_opens_no_server,
    transitions_stored,
    call_path_never_waits,
)
