"""Rows of executors, processes and stored RDDs, with the names and in the order of Spark's REST API.

A field that is unset is left out of the answer, as Spark leaves it out.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from kvwal.console.sparkstate.rows import Text


class ResourceRow(msgspec.Struct, gc=False):
    """The addresses of one kind of resource."""

    name: str
    addresses: list[str]


class StorageMemory(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """The memory of an executor for blocks: used and whole, on the heap and off it."""

    used_on_heap_storage_memory: int
    used_off_heap_storage_memory: int
    total_on_heap_storage_memory: int
    total_off_heap_storage_memory: int


def _executor_name(field: str) -> str:
    """The name of a field of an executor: one of them has three capital letters."""
    first, *rest = field.split("_")
    return "totalGCTime" if field == "total_gc_time" else first + "".join(part.title() for part in rest)


class ExecutorRow(msgspec.Struct, rename=_executor_name, kw_only=True, gc=False):
    """An executor, or the driver."""

    id: str
    host_port: str
    is_active: bool
    rdd_blocks: int | UnsetType = UNSET
    memory_used: int | UnsetType = UNSET
    disk_used: int | UnsetType = UNSET
    total_cores: int
    max_tasks: int | UnsetType = UNSET
    active_tasks: int | UnsetType = UNSET
    failed_tasks: int
    completed_tasks: int
    total_tasks: int
    total_duration: int | UnsetType = UNSET
    total_gc_time: int | UnsetType = UNSET
    total_input_bytes: int
    total_shuffle_read: int
    total_shuffle_write: int
    is_blacklisted: bool
    max_memory: int
    add_time: str
    remove_time: Text = UNSET
    remove_reason: Text = UNSET
    executor_logs: dict[str, str]
    memory_metrics: StorageMemory | UnsetType = UNSET
    blacklisted_in_stages: list[int] | UnsetType = UNSET
    peak_memory_metrics: dict[str, int] | UnsetType = UNSET
    attributes: dict[str, str]
    resources: dict[str, ResourceRow]
    resource_profile_id: int
    is_excluded: bool
    excluded_in_stages: list[int] | UnsetType = UNSET


class ProcessRow(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """A process of the cluster manager beside the executors."""

    id: str
    host_port: str
    is_active: bool
    total_cores: int
    add_time: str
    remove_time: Text = UNSET
    process_logs: dict[str, str]


class DistributionRow(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """The part of an RDD that one executor stores."""

    address: str
    memory_used: int
    memory_remaining: int
    disk_used: int
    on_heap_memory_used: int | UnsetType = UNSET
    off_heap_memory_used: int | UnsetType = UNSET
    on_heap_memory_remaining: int | UnsetType = UNSET
    off_heap_memory_remaining: int | UnsetType = UNSET


class PartitionRow(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """A stored partition of an RDD."""

    block_name: str
    storage_level: str
    memory_used: int
    disk_used: int
    executors: list[str]


class RddRow(msgspec.Struct, rename="camel", kw_only=True, gc=False):
    """An RDD that Spark was told to keep."""

    id: int
    name: Text = UNSET
    num_partitions: int
    num_cached_partitions: int
    storage_level: str
    memory_used: int
    disk_used: int
    data_distribution: list[DistributionRow] | UnsetType = UNSET
    partitions: list[PartitionRow]
