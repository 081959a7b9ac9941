"""The model of docs/scale.md: what a large installation costs, from what `make bench` measured and a few assumptions.

All of it is pure: stored results in, figures out. benchmarks/scale_page.py writes them down.
"""

from __future__ import annotations

import statistics

import msgspec

from benchmarks.harness import Result, Row

DAY, MONTH = 86_400.0, 30 * 86_400.0
GB, TB = 10**9, 10**12
MIB = 1 << 20


class Measured(msgspec.Struct, frozen=True):
    """What benchmarks/results says of one machine of two cores. Entries have values of 100 bytes."""

    node_writes: float
    log_bytes: float
    archive_bytes: float
    memory_bytes: float
    recovery_rate: float
    restore_rate: float
    load_rate: float
    spark_core_rate: float
    spark_start: float
    job_puts: float
    job_lists: float
    job_gets: float
    """Requests of an archive job with one new object. The gets are the confirmation of its put, and a read of a footer."""


COMPACTION_LISTS = 3
"""List requests of a compaction, at most."""
OBJECTS_A_COMPACTION = 8
COMPACTION_GETS = 1
"""Reads of an object's rows, by the compaction that takes it."""


class Assumed(msgspec.Struct, frozen=True):
    """What no measurement says: prices as public object stores ask them, the network, and the machines of a node."""

    put_price: float = 0.005 / 1_000
    get_price: float = 0.0004 / 1_000
    storage_price: float = 0.023
    """Dollars: a request, a request, a gigabyte for a month."""
    network: float = 1.25e9
    """Bytes a second of one machine."""
    node_cores: int = 8
    compacted_object: int = 256 * MIB
    archive_interval: float = 60.0
    retries: float = 1.02


class Case(msgspec.Struct, frozen=True):
    """An installation."""

    name: str
    nodes: int
    archive: float
    writes: float
    drivers: int
    businesses: int = 3
    live_keys: float = 0


CASES = (
    Case("one node", 1, 10 * GB, 1_000, 10, live_keys=1e6),
    Case("three nodes", 3, 100 * GB, 10_000, 30, live_keys=1e7),
    Case("ten nodes", 10, TB, 100_000, 100, live_keys=1e8),
    Case("a hundred nodes", 100, 10 * TB, 1_000_000, 1_000, live_keys=1e9),
)
SPARK_CORES = (2, 4, 8, 32, 200, 800)


def row(results: list[Result], question: str, name: str) -> Row:
    """The row of a question whose name begins so."""
    rows = next(result.rows for result in results if result.question.name == question)
    return next(each for each in rows if each.name.startswith(name))


def measured(results: list[Result]) -> Measured:
    """The parameters from stored results."""

    def ours(question: str, name: str) -> float:
        return statistics.median(row(results, question, name).ours)

    million = 1_000_000
    restored = ours("restore", "Restore of 5M")
    # Beside a restore in the same run, so that what else the machine did then divides out.
    spark = row(results, "archive_merge", "Merge of 5M entries")
    job = row(results, "archive_requests", "An archive job, 100 objects").notes
    cores = 2
    return Measured(
        node_writes=ours("cluster_writes", "500 in flight, one node"),
        log_bytes=ours("size", "The log"),
        archive_bytes=ours("size", "The archive") / million,
        memory_bytes=row(results, "cluster_loading", "1M entries into one node").notes["resident memory, MiB"] * MIB / million,
        recovery_rate=million / ours("recovery", "Opening 1M entries"),
        restore_rate=restored,
        load_rate=ours("cluster_loading", "1M entries into one node"),
        spark_core_rate=spark.figure * restored / cores,
        spark_start=spark.notes["start of the session, s"] * statistics.median(spark.baselines) / restored,
        job_puts=job["HTTP puts"],
        job_lists=job["HTTP lists"],
        job_gets=job["HTTP gets"] + job["HTTP heads"],
    )  # fmt: skip


class Cost(msgspec.Struct, frozen=True):
    """What one case comes to."""

    share: float
    """Of what a node of two cores was measured to write; above one, it needs more cores or more nodes."""
    log_rate: float
    archive_rate: float
    upload: float
    """The part of the network that archiving takes, of each node."""
    objects: float
    puts_a_day: float
    gets_a_day: float
    lists_a_day: float
    """Requests. A list is priced as a put."""
    compacted: float
    pages: float
    """Objects of an archive of that size after compaction, and list requests for all of them."""
    request_money: float
    storage_money: float
    """Dollars a month."""
    memory: float
    connections: int
    driver_writes: float


def cost(case: Case, of: Measured, assume: Assumed) -> Cost:
    """Requests, bytes and money of a case in which all nodes write evenly."""
    each = case.writes / case.nodes
    archived = each * of.archive_bytes
    # A segment is sealed by the interval, or once it is full; each business of a node has a log of its own.
    per_business = max(1 / assume.archive_interval, each / case.businesses * of.log_bytes / (64 * MIB))
    objects = case.nodes * case.businesses * per_business
    # Each segment is a job of its own; compaction reads its inputs once, and puts few objects.
    puts = of.job_puts * objects * DAY * assume.retries + case.writes * of.archive_bytes * DAY / assume.compacted_object
    gets = (of.job_gets + COMPACTION_GETS) * objects * DAY * assume.retries
    lists = (of.job_lists + COMPACTION_LISTS / OBJECTS_A_COMPACTION) * objects * DAY * assume.retries
    compacted = case.archive / assume.compacted_object
    return Cost(
        share=each / of.node_writes,
        log_rate=each * of.log_bytes,
        archive_rate=case.writes * of.archive_bytes,
        upload=archived / assume.network,
        objects=objects,
        puts_a_day=puts,
        gets_a_day=gets,
        lists_a_day=lists,
        compacted=compacted,
        pages=compacted / 1_000,
        request_money=((puts + lists) * assume.put_price + gets * assume.get_price) * MONTH / DAY,
        storage_money=case.archive / GB * assume.storage_price,
        memory=min(2, case.nodes) * case.live_keys * of.memory_bytes / case.nodes,
        connections=case.drivers + case.nodes - 1,
        driver_writes=case.writes / case.drivers,
    )


class Restore(msgspec.Struct, frozen=True):
    """Seconds until everything is back, by each way."""

    entries: float
    own_disks: float
    one_process: float
    load: float
    spark: float
    """With every core of the nodes."""


def restore(case: Case, of: Measured, assume: Assumed) -> Restore:
    """How long each way takes. Nodes recover their own logs side by side; a merge by one process does not divide."""
    entries = case.archive / of.archive_bytes
    cores = case.nodes * assume.node_cores
    reading = case.archive / (case.nodes * assume.network)
    return Restore(
        entries=entries,
        own_disks=case.live_keys / case.nodes / of.recovery_rate,
        one_process=entries / of.restore_rate,
        load=case.live_keys / of.load_rate,
        spark=of.spark_start + max(reading, entries / (of.spark_core_rate * cores)),
    )


def takes_over(of: Measured, cores: int) -> float | None:
    """The entries from which Spark on so many cores is sooner done than one process; None if it never is."""
    gain = 1 / of.restore_rate - 1 / (of.spark_core_rate * cores)
    return of.spark_start / gain if gain > 0 else None
