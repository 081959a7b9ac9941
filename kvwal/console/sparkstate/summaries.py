"""Quantiles of the metrics of a stage's tasks and of its executors, as Spark computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from kvwal.console.sparkevents.metrics import PEAKS, PLACE
from kvwal.console.sparkstate.rows import ExecutorStageRow, StageState, TaskRow

T = TypeVar("T")
Distributions = dict[str, Any]
_OF_TASK = (
    "executorDeserializeTime", "executorDeserializeCpuTime", "executorRunTime", "executorCpuTime", "resultSize", "jvmGcTime",
    "resultSerializationTime",
)  # fmt: skip
_PUSH = {
    "corruptMergedBlockChunks": "shuffleCorruptMergedBlockChunks",
    "mergedFetchFallbackCount": "shuffleMergedFetchFallbackCount",
    "remoteMergedBlocksFetched": "shuffleMergedRemoteBlocksFetched",
    "localMergedBlocksFetched": "shuffleMergedLocalBlocksFetched",
    "remoteMergedChunksFetched": "shuffleMergedRemoteChunksFetched",
    "localMergedChunksFetched": "shuffleMergedLocalChunksFetched",
    "remoteMergedBytesRead": "shuffleMergedRemoteBytesRead",
    "localMergedBytesRead": "shuffleMergedLocalBytesRead",
    "remoteMergedReqsDuration": "shuffleMergedRemoteReqsDuration",
}
_EXECUTOR_FIELDS = (
    "taskTime", "failedTasks", "succeededTasks", "killedTasks", "inputBytes", "inputRecords", "outputBytes", "outputRecords",
    "shuffleRead", "shuffleReadRecords", "shuffleWrite", "shuffleWriteRecords", "memoryBytesSpilled", "diskBytesSpilled",
)  # fmt: skip


def _place(quantile: float, count: int) -> int:
    """The place of a quantile among sorted values."""
    return max(0, min(int(quantile * count), count - 1))


def task_distributions(tasks: Sequence[TaskRow], quantiles: Iterable[float]) -> Distributions | None:
    """The quantiles of each metric over the tasks that succeeded; None if none has.

    As Spark has it, `duration`, `gettingResultTime` and `schedulerDelay` count all tasks that have metrics, or that have ended.
    """
    shares = sorted(quantiles)
    well = [task.metrics for task in tasks if task.status == "SUCCESS" and task.metrics is not None]
    if not well:
        return None
    places = [_place(share, len(well)) for share in shares]
    told = [task for task in tasks if task.metrics is not None]

    def of(*names: str) -> list[float]:
        """The quantiles of a metric, or of a sum of metrics."""
        get = [itemgetter(PLACE[name]) for name in names]
        values = sorted(sum(each(metrics) for each in get) for metrics in well)
        return [float(values[place]) for place in places]

    def among(chosen: Sequence[TaskRow], get: Callable[[TaskRow], int]) -> list[float]:
        values = sorted(map(get, chosen))
        return [float(values[place]) for place in places]

    return {
        "quantiles": shares,
        "duration": among([task for task in tasks if task.duration >= 0], attrgetter("duration")),
        **{name: of(name) for name in _OF_TASK},
        "gettingResultTime": among(told, attrgetter("getting_result_time")),
        "schedulerDelay": among(told, attrgetter("scheduler_delay")),
        **{name: of(name) for name in ("peakExecutionMemory", "memoryBytesSpilled", "diskBytesSpilled")},
        "inputMetrics": {"bytesRead": of("inputBytes"), "recordsRead": of("inputRecords")},
        "outputMetrics": {"bytesWritten": of("outputBytes"), "recordsWritten": of("outputRecords")},
        "shuffleReadMetrics": {
            "readBytes": of("shuffleLocalBytesRead", "shuffleRemoteBytesRead"),
            "readRecords": of("shuffleReadRecords"),
            "remoteBlocksFetched": of("shuffleRemoteBlocksFetched"),
            "localBlocksFetched": of("shuffleLocalBlocksFetched"),
            "fetchWaitTime": of("shuffleFetchWaitTime"),
            "remoteBytesRead": of("shuffleRemoteBytesRead"),
            "remoteBytesReadToDisk": of("shuffleRemoteBytesReadToDisk"),
            "totalBlocksFetched": of("shuffleLocalBlocksFetched", "shuffleRemoteBlocksFetched"),
            "remoteReqsDuration": of("shuffleRemoteReqsDuration"),
            "shufflePushReadMetricsDist": {name: of(metric) for name, metric in _PUSH.items()},
        },
        "shuffleWriteMetrics": {
            "writeBytes": of("shuffleWriteBytes"),
            "writeRecords": of("shuffleWriteRecords"),
            "writeTime": of("shuffleWriteTime"),
        },
    }


def executor_distributions(stage: StageState, quantiles: Iterable[float]) -> Distributions | None:
    """The quantiles over the executors of a stage; None if it had none."""
    shares, sums = sorted(quantiles), list(stage.executors.values())
    if not sums:
        return None
    peaks = [each.peak_memory_metrics for each in sums if isinstance(each.peak_memory_metrics, dict)]
    return {
        "quantiles": shares,
        **{name: _quantiles(sums, attrgetter(_attribute(name)), shares) for name in _EXECUTOR_FIELDS},
        "peakMemoryMetrics": {name: _quantiles(peaks, itemgetter(name), shares) for name in PEAKS},
    }


def _attribute(name: str) -> str:
    """The attribute of a field."""
    return next(field for field, shown in zip(_ATTRIBUTES, _SHOWN, strict=True) if shown == name)


_ATTRIBUTES, _SHOWN = ExecutorStageRow.__struct_fields__, ExecutorStageRow.__struct_encode_fields__


def _quantiles(rows: Sequence[T], get: Callable[[T], int], shares: Sequence[float]) -> list[float]:
    values = sorted(map(get, rows))
    return [float(values[_place(share, len(values))]) if values else 0.0 for share in shares]
