"""Status of a node for operators: the answer of /readyz, and the gauges of /metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvwal.cluster.figures.messages import NodeFigures, log_figures
from kvwal.cluster.map_names import INTERNAL
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.hlc import to_text
from kvwal.node.health.memory_limit import NEARLY_FULL
from kvwal.node.health.metrics import MOST, Metrics, bounded
from kvwal.node.health.token_watch import TokenFile
from kvwal.node.jvm import java
from kvwal.node.lifecycle import Lifecycle, Phase
from kvwal.node.parts import ServingParts
from kvwal.prometheus import REST
from kvwal.store.engine import Engine

WARNING_DAYS = 14
"""Days before a certificate expires from which /readyz shows it, and an alert fires."""
_DAY_MS = 86_400_000
_QUERY_SECONDS = 2.0
"""A query that waits longer for a thread counts as not served."""


class Certificate(NamedTuple):
    """The certificate of a node: its file, and when it ends, in unix ms."""

    file: str
    ends_ms: int

    def days_left(self, wall_ms: int) -> float:
        """Days until it ends; negative if it has expired."""
        return (self.ends_ms - wall_ms) / _DAY_MS

    def warning(self, wall_ms: int) -> str | None:
        """What operators are told when little time is left."""
        ends, left = to_text(self.ends_ms << TIMESTAMP_SHIFT), self.days_left(wall_ms)
        if left > WARNING_DAYS:
            return None
        return f"{self.file} {'expires' if left > 0 else 'has expired, and nobody new can connect:'} {ends}"


class NodeStatus:
    """The status of one node, from its lifecycle, its gate, its logs and its serving parts."""

    def __init__(
        self,
        engine: Engine,
        gate: Any,
        majority: Any,
        metrics: Metrics,
        lifecycle: Lifecycle,
        parts: Callable[[], ServingParts | None],
        certificate: Certificate | None,
        token_files: Callable[[], list[TokenFile]],
    ) -> None:
        """`gate` is ReadyGate.java, `majority` Majority.java; `parts` returns None before the Hazelcast member runs;
        `certificate` is None without TLS; `token_files` returns the files that the node watches."""
        self._engine = engine
        self._gate = gate
        self._majority = majority
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._parts = parts
        self._certificate = certificate
        self._token_files = token_files
        self._query_seconds = 0.0

    def measure_queries(self) -> None:
        """Measure how long a query waits for a thread. To be called every moment."""
        if (parts := self._running()) is not None:
            self._query_seconds = float(parts.query_probe.waitingSeconds())

    def ready(self) -> tuple[bool, dict[str, object]]:
        """Whether the node serves, and the details for operators."""
        failed = self.failed()
        details: dict[str, object] = {
            "phase": self._lifecycle.phase.value,
            "failed": failed,
            **self._lifecycle.progress,
        }
        parts = self._parts()
        if parts is not None and parts.adoption.partitions:
            details["adopting"] = {"lost": parts.adoption.lost, "partitions": parts.adoption.partitions}
        if parts is not None and parts.memory_limit.ratio >= NEARLY_FULL:
            details["memory"] = parts.memory_limit.told()
        if full := self.full():
            details["full"] = full
        if (lost := self._gate.lost()) is not None:
            details["lost"] = str(lost)
        budget = self._engine.descriptors()
        if budget.short:
            details["descriptors"] = budget._asdict()
        if failing := [file.failure for file in self._token_files() if file.failure is not None]:
            details["token"] = failing
        if slow := self._query_seconds > _QUERY_SECONDS:
            details["queries"] = f"all threads for predicates have been busy for {self._query_seconds:.0f} s"
        serves = self._lifecycle.phase is Phase.SERVING and not failed and lost is None
        if serves and (refused := self._refused()) is not None:
            details["quorum"] = refused
            serves = False
        return serves and not budget.short and not slow and not self._expired(details), details

    def _refused(self) -> str | None:
        """Why clients are refused, or wait, because this member is not together with enough others; None if they are served."""
        if (parts := self._running()) is None:
            return None
        refused = self._majority.whyNot(parts.instance.getCluster().getMembers())
        return None if refused is None else str(refused)

    def _expired(self, details: dict[str, object]) -> bool:
        """Whether no client can connect because the certificate has expired. Adds what there is to say of it to `details`."""
        if (certificate := self._certificate) is None:
            return False
        wall = self._engine.options.clock.wall_ms()
        if warning := certificate.warning(wall):
            details["certificate"] = warning
        return certificate.days_left(wall) <= 0

    def failed(self) -> dict[str, str]:
        """The logs that take no more writes: business name to error."""
        writers = {name: business.log.writer for name, business in self._engine.businesses.items()}
        return {name: str(writer.failed) for name, writer in writers.items() if writer.failed is not None}

    def full(self) -> dict[str, str]:
        """The logs whose last write found no room on the disk: business name to error."""
        writers = {name: business.log.writer for name, business in self._engine.businesses.items()}
        return {name: str(writer.full) for name, writer in writers.items() if writer.full is not None}

    def figures(self, serves: bool, details: Mapping[str, object], known: Mapping[str, str]) -> NodeFigures:
        """The figures for clients: those of /metrics, with the answer of `ready`. Called off the event loop, as `page` is."""
        stats, parts = self._engine.stats(), self._parts()
        disk = stats["disk"] or {}
        others = dict(details)
        return NodeFigures(
            node=self._engine.node,
            started_ms=self._metrics.started_ms,
            phase=str(others.pop("phase")),
            serves=serves,
            details=others,
            logs={name: log_figures(each) for name, each in bounded(stats["businesses"]).items()},
            maps=self._maps(),
            written=self._metrics.written(),
            refused=self._metrics.refused_writes(),
            fsyncs=self._metrics.fsyncs(),
            lines=self._metrics.lines(),
            disk_usable_bytes=disk.get("usable_bytes"),
            disk_capacity_bytes=disk.get("capacity_bytes"),
            memory_ratio=None if parts is None else parts.memory_limit.ratio,
            members=dict(known),
        )

    def page(self) -> bytes:
        """The page of metrics in Prometheus' text format. Called off the event loop, which has the clients' writes."""
        stats = self._engine.stats()
        gauges = self._gauges()
        gauges["descriptors_free"] = (
            "File descriptors that this process may still open.", float(stats["descriptors"]["free"]),
        )  # fmt: skip
        gauges["descriptors_reserve"] = (
            "File descriptors that are kept for archiving and recovery: with fewer free no map more is opened.",
            float(stats["descriptors"]["reserve"]),
        )  # fmt: skip
        gauges["descriptors_logs"] = ("Logs that hold a file descriptor now.", float(stats["descriptors"]["logs"]))
        if stats["disk"] is not None:
            usable = float(stats["disk"]["usable_bytes"])
            gauges["disk_usable_bytes"] = ("Bytes that may still be written before writes are refused.", usable)
        if self._certificate is not None:
            self._metrics.certificate(
                self._certificate.file, self._certificate.days_left(self._engine.options.clock.wall_ms())
            )
        for file in self._token_files():
            self._metrics.token_file(file.path, file.tokens, failing=file.failure is not None)
        return self._metrics.page(gauges, stats["businesses"], self._maps())

    def _running(self) -> ServingParts | None:
        """The parts, while Hazelcast runs and is not about to end."""
        return None if self._lifecycle.ends else self._parts()

    def _maps(self) -> dict[str, tuple[int, int]]:
        if (parts := self._running()) is None:
            return {}
        usage = java("kvwal.member.HeapUsage").of(parts.instance, MOST, INTERNAL, REST)
        return {str(each.getKey()): (int(each.getValue()[0]), int(each.getValue()[1])) for each in usage.entrySet()}

    def _gauges(self) -> dict[str, tuple[str, float]]:
        parts = self._parts()
        serving = self._lifecycle.phase is Phase.SERVING
        gauges = {"recovered": ("1 when memory holds all that the logs do.", float(serving))}
        if (running := self._running()) is not None:
            members = running.instance.getCluster().getMembers().size()
            gauges["cluster_members"] = ("Members of the cluster.", float(members))
        heap = java("java.lang.Runtime").getRuntime()
        used = float(heap.totalMemory() - heap.freeMemory())
        gauges["heap_used_bytes"] = ("Bytes of the JVM's heap that are in use, garbage included.", used)
        gauges["heap_max_bytes"] = ("Bytes that the JVM's heap may take.", float(heap.maxMemory()))
        if parts is not None:
            gauges["clock_skew_seconds"] = (
                "How far ahead of this clock the clock of that member is that is furthest off.",
                parts.clock_bounds.skew_seconds,
            )
            gauges["clock_lead_seconds"] = (
                "How far ahead of this machine's clock the newest timestamp of this member's logs is.",
                parts.clock_bounds.lead_seconds(),
            )
            gauges["memory_ratio"] = (
                "How much is taken of the memory that the other members would have if one went. From 1 on puts are refused.",
                parts.memory_limit.ratio,
            )
        gauges["query_wait_seconds"] = ("How long a query has waited for a thread.", self._query_seconds)
        gauges["adopting"] = (
            "Partitions of lost members that are yet to be written to the logs of others.",
            0.0 if parts is None else float(parts.adoption.partitions),
        )
        return gauges
