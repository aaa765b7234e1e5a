"""A real Kafka cluster on this machine. Each broker is a controller too, and each pair that talks has its own link."""

from __future__ import annotations

import asyncio
import base64
import os
import uuid
from importlib import resources
from pathlib import Path

from switchgear_cli.local.jars import JVM_FLAGS, class_path, java_binary, kafka_jars
from switchgear_cli.local.kafka import brokers_online
from tests.chaos.proxy import Network, steady_ports
from tests.support.processes import Child
from tests.support.waiting import holds_within

CALLERS = ("worker", "sink", "client")
"""Each of them has its own listener on every broker, advertised at its own link."""
OWN = 3 + len(CALLERS)
"""Ports on which a broker listens. Its links have one more port for each caller, and one for the other brokers."""
START_S = 180.0
HEAP = "-Xmx256m"


class Broker:
    """A broker. Its ports and its folder stay when it is killed."""

    def __init__(self, number: int, folder: Path, ports: list[int]) -> None:
        self.number = number
        self.folder = folder
        self.direct, self.controller, self.replica, *rest = ports[:OWN]
        self.inner = dict(zip(CALLERS, rest, strict=True))
        self.outer = dict(zip((*CALLERS, "replica"), ports[OWN:], strict=True))
        self.child: Child | None = None

    @property
    def alive(self) -> bool:
        return self.child is not None and self.child.alive


class Cluster:
    """``count`` brokers. With three, the replication factor is 3, with two in-sync replicas. Start it in the main thread."""

    def __init__(self, folder: Path, count: int, network: Network) -> None:
        self.folder = folder
        self.network = network
        self.replication = min(3, count)
        self.brokers: list[Broker] = []
        each = OWN + len(CALLERS) + 1
        ports = steady_ports(count * each)
        for number in range(1, count + 1):
            home = folder / f"broker-{number}"
            home.mkdir(parents=True)
            self.brokers.append(Broker(number, home, ports[(number - 1) * each : number * each]))

    @property
    def direct(self) -> str:
        """The bootstrap servers without a link, for the verifier."""
        return ",".join(f"127.0.0.1:{broker.direct}" for broker in self.brokers)

    def bootstrap(self, caller: str) -> str:
        """Return the bootstrap servers of a caller."""
        return ",".join(f"127.0.0.1:{broker.outer[caller]}" for broker in self.brokers)

    async def start(self) -> None:
        """Make the links, format the folders, start all brokers, and wait until they see each other."""
        self._jars = kafka_jars()
        for broker in self.brokers:
            for caller, target in (*broker.inner.items(), ("replica", broker.replica)):
                await self.network.add(f"{caller}/broker-{broker.number}", broker.outer[caller], target)
        for broker in self.brokers:
            (broker.folder / "server.properties").write_text(self._properties(broker), "ascii")
        name = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        await asyncio.gather(*[self._format(broker, name) for broker in self.brokers])
        for broker in self.brokers:
            self.spawn(broker)
        await self.whole()

    def spawn(self, broker: Broker) -> None:
        """Start a broker that does not run."""
        assert not broker.alive
        command = self._java(broker, "kafka.Kafka", str(broker.folder / "server.properties"))
        broker.child = Child(command, broker.folder / "kafka.out", os.environ)

    async def whole(self, limit_s: float = START_S) -> None:
        """Wait until every broker reports all brokers."""
        async with asyncio.timeout(limit_s):
            for broker in self.brokers:
                while await asyncio.to_thread(brokers_online, "127.0.0.1", broker.direct) < len(self.brokers):
                    if not broker.alive:
                        assert broker.child is not None
                        raise RuntimeError(f"Broker {broker.number} ended: {broker.child.output()[-2000:]}")
                    await asyncio.sleep(0.1)

    async def stop(self, broker: Broker, *, kill: bool, limit_s: float = 20.0) -> None:
        """End a broker: at once, or with SIGTERM and after ``limit_s`` with SIGKILL."""
        if broker.child is None or not broker.child.alive:
            return
        process = broker.child.process
        process.kill() if kill else process.terminate()
        if not await holds_within(lambda: not broker.alive, limit_s):
            process.kill()
        process.wait()

    async def close(self) -> None:
        """End all brokers."""
        await asyncio.gather(*[self.stop(broker, kill=True) for broker in self.brokers])

    def _properties(self, broker: Broker) -> str:
        voters = ",".join(f"{each.number}@127.0.0.1:{each.controller}" for each in self.brokers)
        inner = {"DIRECT": broker.direct, "REPLICA": broker.replica}
        inner |= {caller.upper(): port for caller, port in broker.inner.items()}
        outer = {name: broker.outer.get(name.lower(), port) for name, port in inner.items()}
        properties = {
            "process.roles": "broker,controller",
            "node.id": broker.number,
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "REPLICA",
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in (*inner, "CONTROLLER")),
            "listeners": _listeners(inner | {"CONTROLLER": broker.controller}),
            "advertised.listeners": _listeners(outer),
            "log.dirs": broker.folder / "log",
            "message.max.bytes": 16 << 20,
            "replica.fetch.max.bytes": 16 << 20,
            "auto.create.topics.enable": "false",
            "min.insync.replicas": max(1, self.replication - 1),
            "offsets.topic.replication.factor": self.replication,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": self.replication,
            "transaction.state.log.min.isr": max(1, self.replication - 1),
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": self.replication,
            "share.coordinator.state.topic.min.isr": max(1, self.replication - 1),
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1000,
            # The others must notice a dead or cut-off broker during the fault.
            "broker.session.timeout.ms": 6000,
            "broker.heartbeat.interval.ms": 1000,
            "replica.lag.time.max.ms": 6000,
            "leader.imbalance.check.interval.seconds": 15,
            "num.network.threads": 2,
            "num.io.threads": 4,
        }
        return "".join(f"{key}={value}\n" for key, value in properties.items())

    async def _format(self, broker: Broker, cluster: str) -> None:
        command = self._java(
            broker, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(broker.folder / "server.properties")
        )
        with Child(command, broker.folder / "format.out", os.environ) as child:
            await holds_within(lambda: not child.alive, START_S)
        if child.process.returncode:
            raise RuntimeError(f"Kafka's storage could not be formatted: {child.output()[-2000:]}")

    def _java(self, broker: Broker, main_class: str, *arguments: str) -> list[str]:
        flags = [HEAP if flag.startswith("-Xmx") else flag for flag in JVM_FLAGS]
        with resources.as_file(resources.files("switchgear_cli.local") / "kafka_log4j2.properties") as log4j2:
            return [
                str(java_binary()),
                *flags,
                f"-Dlog4j2.configurationFile={log4j2.as_uri()}",
                f"-Dswitchgear.kafka.log={broker.folder / 'kafka.log'}",
                "-cp",
                class_path(self._jars),
                main_class,
                *arguments,
            ]


def _listeners(ports: dict[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
