"""The workloads: each has its name and its sizes here and nowhere else. What runs them takes these and adds nothing.

The mixes of YCSB are those of its published definitions (the files workloada to workloadf of its repository).
"""

from __future__ import annotations

from typing import Literal

import msgspec

Style = Literal["threads", "tasks"]

PRODUCERS = (1, 2, 8, 32, 64)
BATCHES = (1, 10, 100, 1_000)
VALUES = (10, 100, 1_000, 10_000, 100_000, 1 << 20, 4 << 20)
IN_FLIGHT = (32, 50, 1_000)
RECOVERED = 1_000_000
MIB = 1 << 20


class Load(msgspec.Struct, frozen=True):
    """Producers that put transactions of `batch` values of `value` bytes, each after the one before was acknowledged.

    `memory` is the most that the process may take, in MiB, where the workload has a limit: the heap of a Java program.
    """

    name: str
    producers: int = 1
    batch: int = 1
    value: int = 100
    style: Style = "threads"
    memory: int | None = None


def producers(count: int, style: Style = "threads") -> Load:
    """Producers that put one value of 100 bytes at a time."""
    return Load(f"{count} {'producer' if count == 1 else 'producers'} ({style})", producers=count, style=style)


def transactions(entries: int) -> Load:
    """Transactions of so many entries from one producer."""
    return Load(f"{entries:,} a transaction", batch=entries)


def values(size: int) -> Load:
    """Two producers of values of a size."""
    return Load(f"values of {size_name(size)}", producers=2, value=size)


SEED_SMALL = Load("two producers, values of 100 B in 512 MiB", producers=2, value=100, memory=512)
SEED_LARGE = Load("two producers, values of 1 MiB in 5 GiB", producers=2, value=MIB, memory=5_120)
"""The workloads for which the project was begun: two producers, and the log's writer as the one consumer."""


def size_name(size: int) -> str:
    """A number of bytes as a person says it."""
    for unit, name in ((MIB, "MiB"), (1_000, "kB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


class Mix(msgspec.Struct, frozen=True):
    """A workload of YCSB: the parts of each operation, and how keys are chosen."""

    name: str
    read: float = 0
    update: float = 0
    insert: float = 0
    scan: float = 0
    read_modify_write: float = 0
    keys: Literal["zipfian", "latest"] = "zipfian"

    @property
    def parts(self) -> dict[str, float]:
        """The operations that occur, with the part of each."""
        every = {
            "read": self.read, "update": self.update, "insert": self.insert, "scan": self.scan,
            "read_modify_write": self.read_modify_write,
        }  # fmt: skip
        return {operation: part for operation, part in every.items() if part}


YCSB = (
    Mix("A, half updates", read=0.5, update=0.5),
    Mix("B, mostly reads", read=0.95, update=0.05),
    Mix("C, only reads", read=1.0),
    Mix("D, reads of the latest", read=0.95, insert=0.05, keys="latest"),
    Mix("E, short ranges", scan=0.95, insert=0.05),
    Mix("F, read-modify-write", read=0.5, read_modify_write=0.5),
)
YCSB_RECORDS = 20_000
YCSB_VALUE = 1_000
"""Ten fields of 100 bytes, as YCSB's default; here one value."""
YCSB_THREADS = 8
YCSB_MAX_SCAN = 100

REDIS_MIX = ("SET", "GET", "INCR", "HSET", "MSET (10 keys)")
"""What redis-benchmark does by default that a map of keys and values can do, too."""
REDIS_CLIENTS = 50
REDIS_PIPELINE = 16
REDIS_VALUE = 100
