"""Metrics of tasks as a flat list, their sums, and the forms in which Spark's REST API shows them."""

from __future__ import annotations

from operator import add

import msgspec

from kvwal.console.sparkevents.task_events import (
    InputMetrics,
    OutputMetrics,
    PushMetrics,
    ReadMetrics,
    TaskMetrics,
    WriteMetrics,
)

Flat = list[int]
"""The metrics of a task, or their sums, in the order of `STAGE_FIELDS`."""
STAGE_FIELDS = (
    "executorDeserializeTime", "executorDeserializeCpuTime", "executorRunTime", "executorCpuTime", "resultSize", "jvmGcTime",
    "resultSerializationTime", "memoryBytesSpilled", "diskBytesSpilled", "peakExecutionMemory", "inputBytes", "inputRecords",
    "outputBytes", "outputRecords", "shuffleRemoteBlocksFetched", "shuffleLocalBlocksFetched", "shuffleFetchWaitTime",
    "shuffleRemoteBytesRead", "shuffleRemoteBytesReadToDisk", "shuffleLocalBytesRead", "shuffleReadRecords",
    "shuffleRemoteReqsDuration", "shuffleCorruptMergedBlockChunks", "shuffleMergedFetchFallbackCount",
    "shuffleMergedRemoteBlocksFetched", "shuffleMergedLocalBlocksFetched", "shuffleMergedRemoteChunksFetched",
    "shuffleMergedLocalChunksFetched", "shuffleMergedRemoteBytesRead", "shuffleMergedLocalBytesRead",
    "shuffleMergedRemoteReqsDuration", "shuffleWriteBytes", "shuffleWriteTime", "shuffleWriteRecords",
)  # fmt: skip
"""The names of the sums in the row of a stage."""
PLACE = {name: place for place, name in enumerate(STAGE_FIELDS)}
PEAKS = (
    "JVMHeapMemory", "JVMOffHeapMemory", "OnHeapExecutionMemory", "OffHeapExecutionMemory", "OnHeapStorageMemory",
    "OffHeapStorageMemory", "OnHeapUnifiedMemory", "OffHeapUnifiedMemory", "DirectPoolMemory", "MappedPoolMemory",
    "ProcessTreeJVMVMemory", "ProcessTreeJVMRSSMemory", "ProcessTreePythonVMemory", "ProcessTreePythonRSSMemory",
    "ProcessTreeOtherVMemory", "ProcessTreeOtherRSSMemory", "MinorGCCount", "MinorGCTime", "MajorGCCount", "MajorGCTime",
    "TotalGCTime", "ConcurrentGCCount", "ConcurrentGCTime",
)  # fmt: skip
"""Spark's executor metrics, in Spark's order."""
_NO_INPUT, _NO_OUTPUT, _NO_WRITE, _NO_READ, _NO_PUSH = (
    InputMetrics(), OutputMetrics(), WriteMetrics(), ReadMetrics(), PushMetrics()
)  # fmt: skip
_NO_METRICS = TaskMetrics()


def zeros() -> Flat:
    """The sums over no task."""
    return [0] * len(STAGE_FIELDS)


def flat(metrics: TaskMetrics | None) -> Flat:
    """The metrics of a task; zeros where the event has none, as Spark takes it."""
    m = metrics or _NO_METRICS
    read, write = m.shuffle_read_metrics or _NO_READ, m.shuffle_write_metrics or _NO_WRITE
    taken, given, push = m.input_metrics or _NO_INPUT, m.output_metrics or _NO_OUTPUT, read.push or _NO_PUSH
    return [
        m.executor_deserialize_time, m.deserialize_cpu, m.executor_run_time, m.cpu_ns, m.result_size, m.gc_ms,
        m.result_serialization_time, m.memory_bytes_spilled, m.disk_bytes_spilled, m.peak_execution_memory,
        taken.bytes_read, taken.records_read, given.bytes_written, given.records_written,
        read.remote_blocks_fetched, read.local_blocks_fetched, read.fetch_wait_time, read.remote_bytes_read,
        read.remote_bytes_read_to_disk, read.local_bytes_read, read.total_records_read, read.remote_duration,
        push.corrupt_merged_block_chunks, push.merged_fetch_fallback_count, push.merged_remote_blocks_fetched,
        push.merged_local_blocks_fetched, push.merged_remote_chunks_fetched, push.merged_local_chunks_fetched,
        push.merged_remote_bytes_read, push.merged_local_bytes_read, push.remote_duration,
        write.shuffle_bytes_written, write.shuffle_write_time, write.shuffle_records_written,
    ]  # fmt: skip


def added(one: Flat, other: Flat) -> Flat:
    """The sum of two lists of metrics."""
    return list(map(add, one, other))


class Peaks:
    """The greatest values of an executor's metrics; None until one was told."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: list[int] | None = None

    def update(self, told: dict[str, int] | None) -> None:
        """Take newer values. A metric that is not told is 0."""
        if not told:
            self.values = self.values or [0] * len(PEAKS)
            return
        new = [told.get(name, 0) for name in PEAKS]
        self.values = new if self.values is None else list(map(max, self.values, new))

    def shown(self) -> dict[str, int] | msgspec.UnsetType:
        """The values by Spark's names."""
        return msgspec.UNSET if self.values is None else dict(zip(PEAKS, self.values, strict=True))


def task_metrics(m: Flat) -> dict[str, object]:
    """The metrics of a task as its row shows them."""
    return {
        "executorDeserializeTime": m[0], "executorDeserializeCpuTime": m[1], "executorRunTime": m[2], "executorCpuTime": m[3],
        "resultSize": m[4], "jvmGcTime": m[5], "resultSerializationTime": m[6], "memoryBytesSpilled": m[7],
        "diskBytesSpilled": m[8], "peakExecutionMemory": m[9],
        "inputMetrics": {"bytesRead": m[10], "recordsRead": m[11]},
        "outputMetrics": {"bytesWritten": m[12], "recordsWritten": m[13]},
        "shuffleReadMetrics": {
            "remoteBlocksFetched": m[14], "localBlocksFetched": m[15], "fetchWaitTime": m[16], "remoteBytesRead": m[17],
            "remoteBytesReadToDisk": m[18], "localBytesRead": m[19], "recordsRead": m[20], "remoteReqsDuration": m[21],
            "shufflePushReadMetrics": {
                "corruptMergedBlockChunks": m[22], "mergedFetchFallbackCount": m[23], "remoteMergedBlocksFetched": m[24],
                "localMergedBlocksFetched": m[25], "remoteMergedChunksFetched": m[26], "localMergedChunksFetched": m[27],
                "remoteMergedBytesRead": m[28], "localMergedBytesRead": m[29], "remoteMergedReqsDuration": m[30],
            },
        },
        "shuffleWriteMetrics": {"bytesWritten": m[31], "writeTime": m[32], "recordsWritten": m[33]},
    }  # fmt: skip
