"""Everything that a run starts: brokers, ClickHouse, workers, sinks, gateways, and the load on Kafka and on the gateways.

There is a controllable link between each two that talk.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
import zlib
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.request import Request, urlopen

from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings, load_settings
from tests.chaos.cluster import Cluster
from tests.chaos.fleet import Fleet, Member, Start
from tests.chaos.proxy import Network, steady_ports
from tests.support.limits import ANSWER_S
from tests.support.processes import Child, environment, switchgear
from tests.support.waiting import holds_within

REPOSITORY = Path(__file__).resolve().parents[2]
PARTITIONS = 6
PREFIX = "chaos."
SESSION_S = 6.0
CLOCKS = (0.0, 0.0, 0.0, 600.0, -600.0)
"""The clock error of each emitter, in seconds."""
READY_S = 150.0
GATEWAYS = 2
ACK_S = 4.0
"""How long a gateway waits for Kafka. It is shorter than most faults, so clients are told that the result is unknown."""


class ClickHouse:
    """The test server of ClickHouse's HTTP interface, in its own process. It can be killed and started again."""

    def __init__(self, folder: Path, log: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self._log = log
        self.child: Child | None = None
        self._inserts = "ok"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def spawn(self) -> None:
        """Start the process. Call it in the main thread."""
        command = [sys.executable, "-m", "tests.support.clickhouse_http", str(self.folder), str(self.port)]
        # A killed engine leaves its temporary files. They are in the run's folder, so they go with it.
        self.child = Child(command, self._log, own_environment() | {"TMPDIR": str(self._log.parent)})

    async def answering(self) -> None:
        """Wait until it answers."""
        if not await holds_within(lambda: asyncio.to_thread(self._ping), READY_S):
            raise RuntimeError(f"ClickHouse does not answer at {self.url}.")
        await self.order(self._inserts)

    async def order(self, inserts: str) -> None:
        """Set what happens to inserts from now on. See :mod:`tests.support.clickhouse_http`."""
        self._inserts = inserts
        await asyncio.to_thread(self._post, inserts)

    def kill(self) -> None:
        """Kill the process."""
        if self.child is not None and self.child.alive:
            self.child.kill9()

    def _post(self, inserts: str) -> None:
        with urlopen(Request(f"{self.url}/fault?inserts={inserts}", data=b""), timeout=ANSWER_S):
            pass

    def _ping(self) -> bool:
        try:
            with urlopen(f"{self.url}/ping", timeout=2):
                return True
        except (URLError, OSError):
            return False


class Stage:
    """Everything that runs. Leaving the context ends all of it, and removes the folder unless :attr:`keep` is set."""

    def __init__(self, seed: int, *, brokers: int = 3, rate: float = 1_500.0) -> None:
        self.seed = seed
        self.rate = rate
        self.keep = False
        self.folder = Path(tempfile.mkdtemp(prefix="switchgear-chaos-"))
        self.logs = self.folder / "logs"
        self.ledgers = self.folder / "ledgers"
        for folder in (self.logs, self.ledgers):
            folder.mkdir()
        self.network = Network()
        self.cluster = Cluster(self.folder / "kafka", brokers, self.network)
        inner, self._outer, *others = steady_ports(2 + 2 * GATEWAYS)
        self._gateways = list(zip(others[:GATEWAYS], others[GATEWAYS:], strict=True))
        """The port of each gateway, and that of the link to it."""
        self.clickhouse = ClickHouse(self.folder / "clickhouse", self.logs / "clickhouse.log", inner)
        self.fleet = Fleet(self.logs)
        self._supervision: asyncio.Task[None] | None = None

    def settings(self, caller: str) -> Settings:
        """Return the settings of a caller, with its own links to the brokers and to ClickHouse. ``direct`` uses no link."""
        direct = caller == "direct"
        return load_settings(
            kafka_bootstrap_servers=self.cluster.direct if direct else self.cluster.bootstrap(caller),
            topic_prefix=PREFIX,
            topic_partitions=PARTITIONS,
            topic_replication_factor=self.cluster.replication,
            worker_http="127.0.0.1:0",
            api_http="127.0.0.1:0",
            worker_session_timeout_s=SESSION_S,
            clickhouse_url=f"http://127.0.0.1:{self.clickhouse.port if direct else self._outer}/chaos",
            clickhouse_connect_timeout_s=5,
            sink_batch_max_rows=2_000,
            sink_batch_max_age_s=0.2,
            policy_file=Path(__file__).with_name("policies.toml"),
            gateway_ack_s=ACK_S,
        )

    @property
    def gateways(self) -> list[str]:
        """The gateways' addresses for the load, over their links."""
        return [f"http://127.0.0.1:{outer}" for _, outer in self._gateways]

    async def start(self) -> None:
        """Start everything, and wait until workers and sinks are ready."""
        self.clickhouse.spawn()
        await self.network.add("sink/clickhouse", self._outer, self.clickhouse.port)
        await self.cluster.start()
        await ensure_topics(self.settings("direct"))
        await self.clickhouse.answering()
        for number in (1, 2):
            self.fleet.add("worker", f"worker-{number}", self.starts("worker"))
            self.fleet.add("sink", f"sink-{number}", self.starts("sink"))
        for number, (inner, outer) in enumerate(self._gateways, 1):
            await self.network.add(f"load/gateway-{number}", outer, inner)
            self.fleet.add("gateway", f"gateway-{number}", self.starts_gateway(inner))
        self._supervision = asyncio.create_task(self.fleet.supervise())
        await self.ready()
        for number, clock in enumerate(CLOCKS, 1):
            share = 0.25 if clock == 0 else 0.05
            self.fleet.add("emitter", f"emitter-{number}", self.loads("emit", share * self.rate, clock))
        for number, clock in enumerate((0.0, 0.0, 600.0), 1):
            self.fleet.add("guard", f"guard-{number}", self.loads("guard", 40.0, clock))
        for number, url in enumerate(self.gateways, 1):
            self.fleet.add("guard", f"guard-on-gateway-{number}", self.loads("guard", 20.0, 0.0, url))
            self.fleet.add("poster", f"poster-{number}", self.loads("post", 0.075 * self.rate, 0.0, *self.gateways))

    async def ready(self) -> None:
        """Wait until every worker, sink and gateway has logged that it is ready."""
        members = [each for each in self.fleet.of("worker", "sink", "gateway") if each.child is not None]
        if not await holds_within(lambda: not _not_ready(members), READY_S):
            raise RuntimeError(f"Not ready within {READY_S:g} s: {', '.join(_not_ready(members))}.")

    def starts(self, command: str) -> Start:
        """Return a function that starts a worker or a sink."""

        def start(member: Member) -> Child:
            return switchgear(command, log=self._log(member), settings=self.settings(command))

        return start

    def starts_gateway(self, port: int) -> Start:
        """Return a function that starts a gateway on a port. It shares the links to the brokers with the load."""

        def start(member: Member) -> Child:
            settings = self.settings("client").model_copy(update={"gateway_http": f"127.0.0.1:{port}"})
            return switchgear("gateway", log=self._log(member), settings=settings)

        return start

    def loads(self, kind: str, rate: float, clock: float, *servers: str) -> Start:
        """Return a function that starts a load process, on the brokers or on gateways. Each start has its own ledger and seed."""

        def start(member: Member) -> Child:
            life = f"{member.name}-{member.spawned}"
            command = [
                *(
                    sys.executable,
                    "-m",
                    "tests.chaos.load",
                    kind,
                    "--servers",
                    *(servers or [self.cluster.bootstrap("client")]),
                ),
                *("--prefix", PREFIX, "--ledger", str(self.ledgers / f"{life}.ledger"), "--rate", str(rate)),
                *("--seed", str(zlib.crc32(f"{self.seed} {life}".encode())), f"--clock={clock}"),
            ]
            return Child(command, self._log(member), own_environment())

        return start

    def _log(self, member: Member) -> Path:
        path = self.logs / f"{member.name}.log"
        with path.open("a") as log:
            log.write(f"--- life {member.spawned}, {time.strftime('%H:%M:%S', time.gmtime())}\n")
        return path

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._supervision is not None:
            self._supervision.cancel()
        self.fleet.kill_all()
        self.clickhouse.kill()
        await self.cluster.close()
        await self.network.__aexit__(None, None, None)
        if self.keep:
            self._drop_bulk()
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _drop_bulk(self) -> None:
        """Remove the servers' data, but keep logs and ledgers."""
        for folder in (self.clickhouse.folder, *(broker.folder / "log" for broker in self.cluster.brokers)):
            shutil.rmtree(folder, ignore_errors=True)


def own_environment() -> dict[str, str]:
    """Return the environment of a process that is started from this package."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    return environment(extra={"PYTHONPATH": path})


def _not_ready(members: list[Member]) -> list[str]:
    return [each.name for each in members if each.child is not None and " ready " not in each.child.output()]
