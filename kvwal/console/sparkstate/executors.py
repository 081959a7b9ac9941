"""Executors while the events of their application are told."""

from __future__ import annotations

import msgspec

from kvwal.console.sparkevents.events import BlockManagerAdded, BlockUpdate
from kvwal.console.sparkevents.metrics import PLACE, Peaks
from kvwal.console.sparkevents.moments import known_moment, moment_text
from kvwal.console.sparkstate.executor_rows import ExecutorRow, ResourceRow, StorageMemory
from kvwal.spark.events.application import ExecutorAdded
from kvwal.spark.redaction import redacted

UNSET = msgspec.UNSET
DRIVER = "driver"


def lowered(value: int, by: int) -> int:
    """A value after a change, never below 0."""
    return max(0, value + by)


class LiveExecutor:
    """An executor, or the driver."""

    __slots__ = (
        "active_tasks", "added", "attributes", "completed_tasks", "cores", "disk_used", "excluded", "excluded_stages",
        "failed_tasks", "gc_time", "host", "host_port", "id", "input_bytes", "is_active", "logs", "max_memory", "max_tasks",
        "memory_used", "peaks", "profile", "rdd_blocks", "reason", "removed", "resources", "shuffle_read", "shuffle_write",
        "total_duration", "total_off_heap", "total_on_heap", "total_tasks", "used_off_heap", "used_on_heap",
    )  # fmt: skip

    def __init__(self, executor: str, added: int) -> None:
        self.id, self.added = executor, added
        self.host = self.host_port = ""
        self.is_active, self.excluded = True, False
        self.excluded_stages: set[int] = set()
        self.removed: int | None = None
        self.reason: str | None = None
        self.cores = self.max_tasks = self.max_memory = self.profile = 0
        self.rdd_blocks = self.memory_used = self.disk_used = 0
        self.active_tasks = self.failed_tasks = self.completed_tasks = self.total_tasks = 0
        self.total_duration = self.gc_time = self.input_bytes = self.shuffle_read = self.shuffle_write = 0
        self.logs: dict[str, str] = {}
        self.attributes: dict[str, str] = {}
        self.resources: dict[str, list[str]] = {}
        self.total_on_heap: int | None = None
        self.total_off_heap = self.used_on_heap = self.used_off_heap = 0
        self.peaks = Peaks()

    @property
    def hostname(self) -> str:
        """Its host."""
        return self.host or self.host_port.split(":")[0]

    def joined(self, event: ExecutorAdded, cpus_per_task: int) -> None:
        """It has joined."""
        info = event.executor_info
        self.host, self.is_active, self.cores = info.host, True, info.total_cores
        self.max_tasks = info.total_cores // max(1, cpus_per_task)
        self.logs, self.attributes, self.profile = info.log_urls, info.attributes, info.profile
        self.resources = {kind: told.addresses for kind, told in info.resources.items()}

    def has_memory(self, event: BlockManagerAdded) -> None:
        """It has memory for blocks."""
        self.host_port = f"{event.block_manager.host}:{event.block_manager.port}"
        if event.on_heap is not None:
            self.total_on_heap, self.total_off_heap = event.on_heap, event.off_heap
            self.used_on_heap = self.used_off_heap = 0
        self.is_active, self.max_memory = True, event.maximum_memory

    def task_ended(self, duration: int, *, well: bool, failed: bool, metrics: list[int] | None) -> None:
        """A task ended. `metrics` is None if they do not count."""
        self.active_tasks -= 1
        self.completed_tasks += well
        self.failed_tasks += failed
        self.total_duration += duration
        if metrics is not None:
            self.gc_time += metrics[PLACE["jvmGcTime"]]
            self.input_bytes += metrics[PLACE["inputBytes"]]
            self.shuffle_read += metrics[PLACE["shuffleLocalBytesRead"]] + metrics[PLACE["shuffleRemoteBytesRead"]]
            self.shuffle_write += metrics[PLACE["shuffleWriteBytes"]]

    def block_changed(self, block: BlockUpdate, memory: int, disk: int) -> None:
        """The memory and the disk that its blocks take have changed by so much."""
        if self.total_on_heap is not None:
            if block.storage_level.use_off_heap:
                self.used_off_heap = lowered(self.used_off_heap, memory)
            else:
                self.used_on_heap = lowered(self.used_on_heap, memory)
        self.memory_used = lowered(self.memory_used, memory)
        self.disk_used = lowered(self.disk_used, disk)

    def row(self, duration: int | None) -> ExecutorRow:
        """The row. `duration` is that of the application, which is shown for the driver."""
        is_driver = self.id == DRIVER
        peaks = self.peaks.shown()
        gc_time = peaks["TotalGCTime"] if is_driver and peaks is not UNSET else self.gc_time
        memory: StorageMemory | msgspec.UnsetType = UNSET
        if self.total_on_heap is not None:
            memory = StorageMemory(
                used_on_heap_storage_memory=self.used_on_heap, used_off_heap_storage_memory=self.used_off_heap,
                total_on_heap_storage_memory=self.total_on_heap, total_off_heap_storage_memory=self.total_off_heap,
            )  # fmt: skip
        return ExecutorRow(
            id=self.id, host_port=self.host_port or self.host, is_active=self.is_active, rdd_blocks=self.rdd_blocks,
            memory_used=self.memory_used, disk_used=self.disk_used, total_cores=self.cores, max_tasks=self.max_tasks,
            active_tasks=self.active_tasks, failed_tasks=self.failed_tasks, completed_tasks=self.completed_tasks,
            total_tasks=self.total_tasks,
            total_duration=duration if is_driver and duration is not None else self.total_duration, total_gc_time=gc_time,
            total_input_bytes=self.input_bytes, total_shuffle_read=self.shuffle_read, total_shuffle_write=self.shuffle_write,
            is_blacklisted=self.excluded, max_memory=self.max_memory, add_time=moment_text(self.added),
            remove_time=known_moment(self.removed), remove_reason=UNSET if self.reason is None else redacted(self.reason),
            executor_logs=self.logs, memory_metrics=memory, blacklisted_in_stages=sorted(self.excluded_stages),
            peak_memory_metrics=peaks, attributes=self.attributes,
            resources={kind: ResourceRow(kind, addresses) for kind, addresses in self.resources.items()},
            resource_profile_id=self.profile, is_excluded=self.excluded, excluded_in_stages=sorted(self.excluded_stages),
        )  # fmt: skip
