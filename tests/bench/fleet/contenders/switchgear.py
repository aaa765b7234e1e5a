"""Switchgear, with its defaults: the evidence of all processes is folded into one circuit, which every process follows.

In virtual time the guards, followers and the worker's fold are the real ones. The log, the network and the clocks are those of
``tests/simulator``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from switchgear import Switchgear
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy
from tests.bench.fleet.agent import Guard, Tool
from tests.bench.fleet.outages import Timing
from tests.bench.fleet.place import Contender, Place

SLOW_SHARE: Final = 0.5
START_S: Final = 60.0


class RefusedError(Exception):
    """A circuit is open."""


def _set(timing: Timing) -> dict[str, Any]:
    """Return what isn't left at its default, for both kinds of circuits."""
    return {
        "wait_duration_in_open_state_s": float(timing.wait_s),
        "slow_call_duration_threshold_ms": timing.slow_after_s * 1000,
        "slow_call_rate_threshold": SLOW_SHARE,
    }


def fleet_policy(timing: Timing) -> BreakerPolicy:
    """Return the policy of the fleet's circuits."""
    return FLEET_DEFAULT.model_copy(update=_set(timing))


def local_policy(timing: Timing) -> BreakerPolicy:
    """Return the policy of a process's own circuits."""
    return LOCAL_DEFAULT.model_copy(update=_set(timing))


def policy_file(timing: Timing) -> str:
    """Return the worker's policy file for :func:`fleet_policy`."""
    lines = [f"{name} = {value}" for name, value in _set(timing).items()]
    return "\n".join(["[default]", *lines, ""])


def guards(place: Place) -> Callable[[str], Guard]:
    """Return the guards of one client."""
    local = local_policy(place.timing)
    if place.world is not None:
        from tests.bench.fleet.virtual_fleet import VirtualFleet  # noqa: PLC0415 - needs greenlet

        fleet = place.world.once("switchgear", lambda: VirtualFleet(place.world, fleet_policy(place.timing)))
        acquire = fleet.join(place.process, local)
    else:
        gear = Switchgear(place.kafka, service="agent", topic_prefix=place.prefix, local_policies=local)
        assert gear.start(START_S), "no broker"
        acquire = gear.try_acquire
    return lambda name: lambda tool: _call(acquire(name, credential=tool.token), tool)


def _call(permit: Any, tool: Tool) -> Any:
    if not permit:
        raise RefusedError
    try:
        result = tool()
    except Exception as error:
        permit.failure(error)
        raise
    permit.success()
    return result


CONTENDER = Contender(
    name="Switchgear",
    distribution=None,
    shares="the evidence of all calls, the state and the probes",
    note=(
        "The defaults of the fleet's and the processes' own circuits. The wait and the slow-call rule are set, and each call names its"
        " token: a rejected token is refused to its holder until it changes."
    ),
    refusals=(RefusedError,),
    guards=guards,
    needs="kafka",
)
