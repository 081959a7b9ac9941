"""Status of a node for operators: the answer of /readyz, and the gauges of /metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvwal.cluster.map_names import INTERNAL
from kvwal.node.health.metrics import MOST, REST, Metrics
from kvwal.node.jvm import java
from kvwal.node.lifecycle import Lifecycle, Phase
from kvwal.node.parts import ServingParts
from kvwal.store.engine import Engine

_QUERY_SECONDS = 2.0
"""A query that waits longer for a thread counts as not served."""


class NodeStatus:
    """The status of one node, from its lifecycle, its gate, its logs and its serving parts."""

    def __init__(
        self,
        engine: Engine,
        gate: Any,
        metrics: Metrics,
        lifecycle: Lifecycle,
        parts: Callable[[], ServingParts | None],
    ) -> None:
        """`gate` is ReadyGate.java; `parts` returns None before the Hazelcast member runs."""
        self._engine = engine
        self._gate = gate
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._parts = parts
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
        if full := self.full():
            details["full"] = full
        if (lost := self._gate.lost()) is not None:
            details["lost"] = str(lost)
        budget = self._engine.descriptors()
        if budget.short:
            details["descriptors"] = budget._asdict()
        if slow := self._query_seconds > _QUERY_SECONDS:
            details["queries"] = f"all threads for predicates have been busy for {self._query_seconds:.0f} s"
        serves = self._lifecycle.phase is Phase.SERVING and not failed and lost is None
        return serves and not budget.short and not slow, details

    def failed(self) -> dict[str, str]:
        """The logs that take no more writes: business name to error."""
        writers = {name: business.log.writer for name, business in self._engine.businesses.items()}
        return {name: str(writer.failed) for name, writer in writers.items() if writer.failed is not None}

    def full(self) -> dict[str, str]:
        """The logs whose last write found no room on the disk: business name to error."""
        writers = {name: business.log.writer for name, business in self._engine.businesses.items()}
        return {name: str(writer.full) for name, writer in writers.items() if writer.full is not None}

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
        gauges["query_wait_seconds"] = ("How long a query has waited for a thread.", self._query_seconds)
        gauges["adopting"] = (
            "Partitions of lost members that are yet to be written to the logs of others.",
            0.0 if parts is None else float(parts.adoption.partitions),
        )
        return gauges
