"""RDDs that Spark keeps, and where their blocks are, while the events of their application are told."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kvwal.console.sparkevents.events import BlockUpdate, Rdd
from kvwal.console.sparkstate.executor_rows import DistributionRow, PartitionRow, RddRow
from kvwal.console.sparkstate.executors import LiveExecutor, lowered
from kvwal.spark.events.jobs import StorageLevel
from kvwal.spark.redaction import redacted

UNSET = msgspec.UNSET


class _Partition:
    """A stored partition: the executors that have it, and what it takes in all of them."""

    __slots__ = ("disk", "executors", "memory")

    def __init__(self) -> None:
        self.executors: list[str] = []
        self.memory = self.disk = 0


class _Distribution:
    """The part of an RDD that one executor stores. `row` has what was left of its memory at the last update of an RDD's block."""

    __slots__ = ("disk", "executor", "memory", "off_heap", "on_heap", "row")

    def __init__(self, executor: LiveExecutor) -> None:
        self.executor = executor
        self.memory = self.disk = self.on_heap = self.off_heap = 0
        self.update()

    def update(self) -> None:
        """Make the row anew."""
        on, executor = self.executor.total_on_heap, self.executor
        self.row = DistributionRow(
            address=executor.host_port, memory_used=self.memory, memory_remaining=executor.max_memory - executor.memory_used,
            disk_used=self.disk, on_heap_memory_used=UNSET if on is None else self.on_heap,
            off_heap_memory_used=UNSET if on is None else self.off_heap,
            on_heap_memory_remaining=UNSET if on is None else on - executor.used_on_heap,
            off_heap_memory_remaining=UNSET if on is None else executor.total_off_heap - executor.used_off_heap,
        )  # fmt: skip


class LiveRdd:
    """An RDD that Spark keeps."""

    def __init__(self, info: Rdd) -> None:
        self.info = info
        self.memory = self.disk = 0
        self.partitions: dict[str, _Partition] = {}
        self.distributions: dict[str, _Distribution] = {}

    def lost_executor(self, executor: str) -> None:
        """An executor was removed with the blocks that it had."""
        self.distributions.pop(executor, None)
        for name, partition in list(self.partitions.items()):
            if executor not in partition.executors:
                continue
            count = len(partition.executors)
            self.memory = lowered(self.memory, -(partition.memory // count))
            self.disk = lowered(self.disk, -(partition.disk // count))
            if count == 1:
                del self.partitions[name]
            else:
                partition.executors.remove(executor)
                partition.memory = lowered(partition.memory, -(partition.memory // count))
                partition.disk = lowered(partition.disk, -(partition.disk // count))

    def row(self) -> RddRow:
        """The row."""
        level = self.info.storage_level
        return RddRow(
            id=self.info.rdd_id, name=UNSET if self.info.name is None else redacted(self.info.name),
            num_partitions=self.info.partitions, num_cached_partitions=len(self.partitions), storage_level=str(level),
            memory_used=self.memory, disk_used=self.disk,
            data_distribution=[each.row for each in self.distributions.values()] if self.distributions else UNSET,
            partitions=[
                PartitionRow(
                    block_name=name, storage_level=_level_of(each, level), memory_used=each.memory, disk_used=each.disk,
                    executors=each.executors,
                )
                for name, each in self.partitions.items()
            ],
        )  # fmt: skip


def _level_of(partition: _Partition, level: StorageLevel) -> str:
    """The storage level that a partition has, which may be less than its RDD asks for."""
    in_memory = partition.memory > 0
    return str(
        StorageLevel(
            use_disk=partition.disk > 0, use_memory=in_memory, use_off_heap=level.use_off_heap,
            deserialized=in_memory and level.deserialized, replication=len(partition.executors),
        )
    )  # fmt: skip


def block_updated(block: BlockUpdate, rdds: dict[int, LiveRdd], executors: Mapping[str, LiveExecutor]) -> None:
    """Apply the update of a block of an RDD, or of a broadcast."""
    kind, _, rest = block.block_id.partition("_")
    executor = executors.get(block.block_manager.executor_id)
    level = block.storage_level
    memory = block.memory_size if level.use_memory else -block.memory_size
    disk = block.disk_size if level.use_disk else -block.disk_size
    if kind not in ("rdd", "broadcast"):
        return
    if executor is not None:
        executor.block_changed(block, memory, disk)
    number = rest.partition("_")[0]
    if kind == "rdd" and number.isdecimal():
        rdd = rdds.get(int(number))
        if rdd is not None:
            _update_rdd(rdd, block, executor, rdds, memory, disk)


def _update_rdd(
    rdd: LiveRdd, block: BlockUpdate, executor: LiveExecutor | None, rdds: dict[int, LiveRdd], memory: int, disk: int
) -> None:
    name, holder = block.block_id, block.block_manager.executor_id
    partition = rdd.partitions.setdefault(name, _Partition())
    blocks = 0
    if block.storage_level.is_kept:
        if holder not in partition.executors:
            blocks = 1
            partition.executors = [*partition.executors, holder]
    else:
        blocks = -1
        partition.executors = [each for each in partition.executors if each != holder]
    if partition.executors:
        partition.memory, partition.disk = lowered(partition.memory, memory), lowered(partition.disk, disk)
    else:
        del rdd.partitions[name]
    if executor is not None:
        _update_distribution(rdd, block, executor, blocks, memory, disk)
        for each in rdds.values():  # the memory that is left has changed for all of them
            if holder in each.distributions:
                each.distributions[holder].update()
        executor.rdd_blocks += blocks
    rdd.memory, rdd.disk = lowered(rdd.memory, memory), lowered(rdd.disk, disk)


def _update_distribution(
    rdd: LiveRdd, block: BlockUpdate, executor: LiveExecutor, blocks: int, memory: int, disk: int
) -> None:
    if executor.rdd_blocks + blocks <= 0:
        rdd.distributions.pop(executor.id, None)
        return
    part = rdd.distributions.setdefault(executor.id, _Distribution(executor))
    part.memory, part.disk = lowered(part.memory, memory), lowered(part.disk, disk)
    if executor.total_on_heap is not None:
        if block.storage_level.use_off_heap:
            part.off_heap = lowered(part.off_heap, memory)
        else:
            part.on_heap = lowered(part.on_heap, memory)


def unpersisted(rdd: LiveRdd, executors: Mapping[str, LiveExecutor]) -> None:
    """Spark was told to drop an RDD: its executors have the memory again."""
    for partition in rdd.partitions.values():
        for holder in partition.executors:
            if holder in executors:
                executors[holder].rdd_blocks -= 1
    for holder, part in rdd.distributions.items():
        executor = executors.get(holder)
        if executor is None:
            continue
        if executor.total_on_heap is not None:
            if rdd.info.storage_level.use_off_heap:
                executor.used_off_heap = lowered(executor.used_off_heap, -part.off_heap)
            else:
                executor.used_on_heap = lowered(executor.used_on_heap, -part.on_heap)
        executor.memory_used = lowered(executor.memory_used, -part.memory)
        executor.disk_used = lowered(executor.disk_used, -part.disk)
