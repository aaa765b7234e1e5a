"""The circuit of a recovered tool closes within a known time.

Let ``K`` be the successes needed to close (1 by default), and take only calls of undisturbed processes that come more than ``SETTLE_S``
apart. After the wait, the ``K + 1``-th such call finds the circuit closed. The circuit therefore closes within

    the rest of the wait + K * (longest gap between calls + SETTLE_S)

A lost lease adds the limit of the half-open state and one more wait. A lease is lost if its holder dies, is cut off, or receives it too
late. A time without an owner adds itself. If K is above 1, the K calls must come within the limit of the half-open state (30 s). A tool
with fewer calls stays open, and is tried again after every wait (``stays with too few calls``).

The same holds for the circuit of a server, and any call of its tools. While that refuses calls, its tools' circuits wait for it.

A process is undisturbed if it is alive, can send and receive, and its own breaker and clock let it ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from switchgear.guard.attempts import Pending
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Rejection
from tests.simulator.agenda import EPOCH, instant
from tests.simulator.invariants.broken import Histories
from tests.simulator.invariants.refusals import PASSING
from tests.simulator.scenario import CALL_LIMIT_S, PROBE_WAIT_S
from tests.simulator.tools import SimulatedServer, SimulatedTool

if TYPE_CHECKING:
    from tests.simulator.process import SimulatedProcess
    from tests.simulator.simulation import Simulation


NAME: Final = "recovered-closes"
SETTLE_S: Final = CALL_LIMIT_S + PROBE_WAIT_S + 2.0
"""Time for a request, the longest probe, its result, and the next record."""
_STATES: Final = frozenset({"open", "half_open"})


class Recovery:
    """Checks every call that meets a circuit which could close."""

    def __init__(self, simulation: Simulation, histories: Histories) -> None:
        self._simulation = simulation
        self._histories = histories
        self._tries: dict[str, tuple[int, float]] = {}
        self._excused: set[str] = set()
        self.lost: Counter[str] = Counter()
        """Leases lost, by reason."""
        self.starved = 0
        """How often the half-open state ended because too few calls came for the probes of the policy."""
        self.times: list[float] = []
        """Seconds from the recovery of a tool to the close of its circuit."""
        self._shut: dict[str, float] = {}

    def published(self, record: dict[str, Any], known: dict[str, Any] | None) -> None:
        """Check a circuit's newest record."""
        circuit_id, state = record["circuit_id"], record["state"]
        now = self._simulation.agenda.now
        if known is not None and (record["cause"] or {}).get("rule") == "half_open_timeout":
            reasons = self._reasons(known)
            self.lost.update(reasons)
            self.starved += not reasons
            wanted = self._simulation.by_name[record["tool_name"]].policy.success_threshold_to_close
            if not reasons and known["leases"] and wanted == 1:
                raise self._histories.broken(
                    NAME, circuit_id, "the half-open state ended by its limit, and none of its leases was lost"
                )
        if state != "half_open":
            self._tries.pop(circuit_id, None)
            self._excused.discard(circuit_id)
        if state == "closed" and circuit_id in self._shut:
            healthy = self._simulation.by_name[record["tool_name"]].healthy_since(now)
            if healthy is not None:
                self.times.append(now - max(healthy, self._shut[circuit_id]))
        if state == "closed":
            self._shut.pop(circuit_id, None)
        elif state == "open" and record["cause"]["rule"] in {"cusum", "failure_rate"}:
            self._shut[circuit_id] = now

    def arrived(
        self,
        process: SimulatedProcess,
        tool: SimulatedTool,
        answer: Permit | Rejection | Pending,
        newest: Mapping[str, dict[str, Any]],
    ) -> None:
        """Check a call of a process for its tool and its tool's server. ``newest`` has the newest record by circuit id."""
        self._arrived(process, tool, answer, newest.get(tool.circuit_id), blocked=self._server_refuses(tool, newest))
        if tool.server is not None:
            own = newest.get(tool.circuit_id)
            forced = own is not None and own["state"] == "forced_open"
            self._arrived(process, tool.server, answer, newest.get(tool.server.circuit_id), blocked=forced)

    def _server_refuses(self, tool: SimulatedTool, newest: Mapping[str, dict[str, Any]]) -> bool:
        """Return whether the circuit of a tool's server refuses calls, or did so shortly before."""
        record = None if tool.server is None else newest.get(tool.server.circuit_id)
        if record is None:
            return False
        changed = instant(record["changed_at"]) - EPOCH
        return record["state"] not in PASSING or self._simulation.agenda.now - changed < SETTLE_S

    def _arrived(
        self,
        process: SimulatedProcess,
        of: SimulatedTool | SimulatedServer,
        answer: Permit | Rejection | Pending,
        record: dict[str, Any] | None,
        *,
        blocked: bool,
    ) -> None:
        circuit_id = of.circuit_id
        if record is None or record["state"] not in _STATES or circuit_id in self._excused:
            return
        now = self._simulation.agenda.now
        if blocked or not self._could_close(process, of, answer, record):
            self._tries.pop(circuit_id, None)
            return
        count, last = self._tries.get(circuit_id, (0, -SETTLE_S))
        if now - last < SETTLE_S:
            return
        self._tries[circuit_id] = count + 1, now
        if count < of.policy.success_threshold_to_close:
            return
        reasons = self._reasons(record)
        if reasons:
            self._excused.add(circuit_id)
            return
        what = f"it is healthy and {count} calls could have closed its circuit, which is {record['state']}"
        raise self._histories.broken(NAME, circuit_id, what)

    def _could_close(
        self,
        process: SimulatedProcess,
        of: SimulatedTool | SimulatedServer,
        answer: object,
        record: dict[str, Any],
    ) -> bool:
        simulation = self._simulation
        now = simulation.agenda.now
        healthy = of.healthy_since(now)
        if healthy is None or now - healthy < SETTLE_S:
            return False
        if simulation.workers.away_within(of.partition, now - SETTLE_S):
            return False
        if record["open_until"] is not None:
            over = instant(record["open_until"])
            if min(EPOCH + now, process.wall()) < over:
                return False
        if process.disturbed_since(now - SETTLE_S):
            return False
        return not (isinstance(answer, Rejection) and answer.source == "local")

    def _reasons(self, record: dict[str, Any]) -> Counter[str]:
        """Return why leases in ``record`` may have been lost."""
        simulation = self._simulation
        tool = simulation.by_name[record["tool_name"]]
        since = instant(record["changed_at"]) - EPOCH - SETTLE_S
        found: Counter[str] = Counter()
        for lease in record["leases"]:
            number, life = lease["emitter_id"].removeprefix("sim").split(".")
            holder = simulation.processes[int(number)]
            if holder.life != int(life) or not holder.alive:
                found["holder died"] += 1
            elif holder.disturbed_since(since):
                found["holder cut off"] += 1
            elif not simulation.audit.probes.used(record["circuit_id"], lease["lease_id"]):
                found["not used in time"] += 1
            elif simulation.workers.away_within(tool.partition, since):
                found["no owner"] += 1
        return found

    def line(self) -> str:
        """Return the result in one line."""
        lost = ", ".join(f"{reason} {count}" for reason, count in sorted(self.lost.items())) or "none"
        times = sorted(self.times)
        spread = "" if not times else f", median {times[len(times) // 2]:.0f} s, longest {times[-1]:.0f} s"
        return f"{NAME}: held ({len(times)} recoveries{spread}; leases lost: {lost}; {self.starved} stays with too few calls)"
