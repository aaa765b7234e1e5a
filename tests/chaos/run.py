"""A run: start everything, apply load and faults, mend everything, collect the evidence, and check the promises."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.chaos.evidence import Evidence
from tests.chaos.faults.all_kinds import KINDS
from tests.chaos.faults.kind import Kind
from tests.chaos.gather import gather
from tests.chaos.ledger import read_ledgers
from tests.chaos.load.tools import PERMITTED
from tests.chaos.promises.all_promises import PROMISES
from tests.chaos.promises.result import PromiseResult, check_promises
from tests.chaos.schedule import MEAN_GAP_S, Planned, missing, plan
from tests.chaos.settle import end_load, heal, no_lag
from tests.chaos.stage import PARTITIONS, PREFIX, Stage
from tests.chaos.story import keep

FAULT_LIMIT_S = 300.0
"""A fault that takes longer than this to begin and end makes the run fail."""
Say = Callable[[str], None]


@dataclass
class Report:
    """The result of a run."""

    results: list[PromiseResult] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Faults that could not begin or end."""
    done: Counter[str] = field(default_factory=Counter)
    executions: int = 0

    @property
    def held(self) -> bool:
        """Whether a promise held and none was broken. Those without evidence count as neither."""
        return (
            any(each.held for each in self.results)
            and not any(each.broken for each in self.results)
            and not self.faults
        )


@dataclass
class Run:
    """The parameters of a run. :meth:`go` runs it."""

    seed: int
    seconds: float
    brokers: int = 3
    rate: float = 1_500.0
    kinds: Mapping[str, Kind] = field(default_factory=lambda: KINDS)
    mean_gap_s: float = MEAN_GAP_S
    keep: bool = False
    """Whether to keep logs, ledgers and evidence of a run without broken promises."""
    say: Say = print

    async def go(self) -> Report:
        """Run. When this returns or raises, all processes are ended and all folders are removed. If a promise is broken, the logs stay."""
        report = Report()
        planned = plan(self.seed, self.seconds, {name: kind.span for name, kind in self.kinds.items()}, self.mean_gap_s)
        absent = missing(planned, {name: kind.span for name, kind in self.kinds.items()})
        self.say(f"seed {self.seed}, {self.seconds:g} s, {self.brokers} brokers, {len(planned)} faults to come")
        if absent:
            self.say(f"too short for: {', '.join(absent)}")
        async with Stage(self.seed, brokers=self.brokers, rate=self.rate) as stage:
            began = time.monotonic()
            try:
                await stage.start()
                self.say(f"ready after {time.monotonic() - began:.0f} s")
                await self._strike(stage, planned, report)
                evidence = await self._recount(stage, report)
                report.results = check_promises(evidence, PROMISES)
            except Exception:
                stage.keep = True
                self.say(f"The logs are in {stage.folder}")
                raise
            self._print(stage, report)
            stage.keep = self.keep or not report.held
            if stage.keep:
                keep(evidence, stage.folder / "evidence.pickle")
        return report

    async def _strike(self, stage: Stage, planned: list[Planned], report: Report) -> None:
        began = time.monotonic()
        # A fault may take longer than planned, for example while a broker starts on a busy machine. The next of its domain waits.
        free = {kind.span.domain: asyncio.Lock() for kind in self.kinds.values()}
        tasks = [
            asyncio.create_task(self._one(stage, fault, began, report, free[self.kinds[fault.kind].span.domain]))
            for fault in planned
        ]
        try:
            await asyncio.sleep(self.seconds)
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _one(self, stage: Stage, fault: Planned, began: float, report: Report, free: asyncio.Lock) -> None:
        await asyncio.sleep(began + fault.at - time.monotonic())
        async with free:
            try:
                async with asyncio.timeout(FAULT_LIMIT_S):
                    said = await self.kinds[fault.kind].act(stage, fault)
            except Exception as error:  # noqa: BLE001 - the run goes on, and fails at its end
                said = f"COULD NOT BE DONE: {error!r}"
                report.faults.append(f"{fault.kind}: {error!r}")
        report.done[fault.kind] += 1
        self.say(f"{fault}: {said}")

    async def _recount(self, stage: Stage, report: Report) -> Evidence:
        began = time.monotonic()
        await heal(stage)
        await end_load(stage)
        left = await no_lag(stage)
        self.say(f"healed, no lag after {time.monotonic() - began:.0f} s" if not left else f"LAG LEFT: {left}")
        if left:
            report.faults.append(f"lag left after the healing: {left}")
        evidence = Evidence(
            ledgers=read_ledgers(stage.ledgers),
            pauses=stage.fleet.pauses,
            late_after_s=stage.settings("worker").late_after_s,
            partitions=PARTITIONS,
            permitted=PERMITTED,
        )
        await gather(
            evidence,
            bootstrap=stage.cluster.direct,
            prefix=PREFIX,
            clickhouse=stage.clickhouse.url,
            database="chaos",
        )
        report.executions = sum(bool(event.tool) and event.origin is None for event in evidence.events)
        return evidence

    def _print(self, stage: Stage, report: Report) -> None:
        ends = {
            member.name: Counter(member.ended_by_itself) for member in stage.fleet.members if member.ended_by_itself
        }
        for name, codes in sorted(ends.items()):
            self.say(f"{name} ended by itself: {', '.join(f'{n} times with {code}' for code, n in codes.items())}")
        struck = ", ".join(f"{kind} {number}" for kind, number in sorted(report.done.items()))
        self.say(
            f"{report.executions:,} executions, {report.done.total()} faults of {len(report.done)} kinds: {struck}"
        )
        for result in report.results:
            self.say(str(result))
        untested = sum(not result.tested for result in report.results)
        if untested:
            self.say(f"{untested} of {len(report.results)} promises were not tested: run longer, or with more faults")
        for fault in report.faults:
            self.say(f"fault not as planned: {fault}")
        if self.keep or not report.held:
            self.say(f"The logs and ledgers are in {stage.folder}")
