"""The generator of docs/scale.md: the model of benchmarks/scale.py in words and tables. A test compares page and figures.

python -m benchmarks.scale_page      write the page anew, as `make bench` does
"""

from __future__ import annotations

import msgspec

from benchmarks.harness import ROOT, Result, load
from benchmarks.page import number, table
from benchmarks.scale import (
    CASES,
    DAY,
    GB,
    SPARK_CORES,
    TB,
    Assumed,
    Measured,
    cost,
    measured,
    restore,
    takes_over,
)  # fmt: skip

PAGE = ROOT / "docs" / "scale.md"
BUSINESSES = (1, 8, 64, 1_000)


def many(count: float) -> str:
    """A number as a person says it, billions too."""
    return f"{number(count / 1e9)} billion" if count >= 1e9 else number(count)


def span(seconds: float) -> str:
    """A time as a person says it."""
    for length, unit in ((DAY, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{number(seconds / length)} {unit}"
    return f"{number(seconds)} s"


def amount(count: float) -> str:
    """A number of bytes as a person says it."""
    for length, unit in ((TB, "TB"), (GB, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= length:
            return f"{number(count / length)} {unit}"
    return f"{number(count)} B"


def money(dollars: float) -> str:
    """Dollars."""
    return f"${number(dollars)}"


def parameters(of: Measured, assume: Assumed) -> str:
    """The table of parameters: measured ones first."""
    lines = [["parameter", "value", "from"]]
    lines += [
        ["writes of one node, 500 in flight", f"{number(of.node_writes)}/s", "cluster_writes"],
        ["an entry in the log", f"{number(of.log_bytes)} B", "size"],
        ["an entry in the archive, random values", f"{number(of.archive_bytes)} B", "size"],
        ["an entry in the memory of a node", f"{number(of.memory_bytes)} B", "cluster_loading"],
        ["recovery from a log", f"{number(of.recovery_rate)} entries/s", "recovery"],
        ["restore and merge by one process", f"{number(of.restore_rate)} entries/s", "restore"],
        ["a cluster's memory from its archive", f"{number(of.load_rate)} entries/s", "cluster_loading"],
        ["merge on Spark, a core", f"{number(of.spark_core_rate)} entries/s", "archive_merge, beside a restore"],
        ["start of a Spark session", span(of.spark_start), "archive_merge, beside a restore"],
        ["puts, lists and gets of an archive job", f"{number(of.job_puts)}, {number(of.job_lists)}, {number(of.job_gets)}",
         "archive_requests"],
        ["a put, a get", f"{money(assume.put_price * 1_000)}, {money(assume.get_price * 1_000)} a thousand", "assumed"],
        ["a gigabyte for a month", money(assume.storage_price), "assumed"],
        ["network of a machine", f"{amount(assume.network)}/s", "assumed"],
        ["cores of a node", str(assume.node_cores), "assumed"],
        ["archive interval; objects after compaction",
         f"{span(assume.archive_interval)}; {amount(assume.compacted_object)}", "the defaults"],
    ]  # fmt: skip
    return table(lines)


def columns(labels: list[str], cases: list[list[str]]) -> str:
    """A table with a column for each case."""
    heads = ["", *(case.name for case in CASES)]
    return table([heads, *([label, *values] for label, values in zip(labels, cases, strict=True))])


def cost_table(of: Measured, assume: Assumed) -> str:
    """The table of cases: load, requests, bytes and money."""
    costs = [cost(case, of, assume) for case in CASES]
    lines: list[tuple[str, list[str]]] = [
        ("nodes; drivers", [f"{case.nodes}; {number(case.drivers)}" for case in CASES]),
        ("writes a second", [number(case.writes) for case in CASES]),
        ("archive", [amount(case.archive) for case in CASES]),
        ("live keys", [many(case.live_keys) for case in CASES]),
        ("businesses a node", [str(case.businesses) for case in CASES]),
        ("writes of a node, of what two cores did", [f"{number(100 * one.share)} %" for one in costs]),
        ("writes of a driver, a second", [number(one.driver_writes) for one in costs]),
        ("connections of a node", [number(one.connections) for one in costs]),
        ("log of a node, a second", [amount(one.log_rate) for one in costs]),
        ("archived by all, a second", [amount(one.archive_rate) for one in costs]),
        ("of a node's network", [f"{number(100 * one.upload)} %" for one in costs]),
        ("archived by all, a day", [amount(one.archive_rate * DAY) for one in costs]),
        ("new objects an hour", [number(one.objects * 3_600) for one in costs]),
        ("puts a day", [number(one.puts_a_day) for one in costs]),
        ("gets a day", [number(one.gets_a_day) for one in costs]),
        ("lists a day, of archive and compaction", [number(one.lists_a_day) for one in costs]),
        ("requests an hour", [number((one.puts_a_day + one.gets_a_day + one.lists_a_day) / 24) for one in costs]),
        ("objects of the archive, compacted", [number(one.compacted) for one in costs]),
        ("list requests for all of them", [number(max(1, one.pages)) for one in costs]),
        ("requests, a month", [money(one.request_money) for one in costs]),
        ("storage, a month", [money(one.storage_money) for one in costs]),
        ("memory of a node, one backup", [amount(one.memory) for one in costs]),
    ]  # fmt: skip
    return columns([label for label, _ in lines], [values for _, values in lines])


def restore_table(of: Measured, assume: Assumed) -> str:
    """The table of cases: how long until everything is back."""
    all_of_them = [restore(case, of, assume) for case in CASES]
    lines: list[tuple[str, list[str]]] = [
        ("entries of the archive", [many(one.entries) for one in all_of_them]),
        ("each node from its own disk", [span(one.own_disks) for one in all_of_them]),
        ("the live keys into the cluster's memory, by its oldest member", [span(one.load) for one in all_of_them]),
        ("the whole archive by one process", [span(one.one_process) for one in all_of_them]),
        ("the whole archive on Spark, on the cores of the nodes", [span(one.spark) for one in all_of_them]),
    ]
    return columns([label for label, _ in lines], [values for _, values in lines])


def spark_table(of: Measured) -> str:
    """From what size Spark is sooner done, by its cores."""
    lines = [["cores", "entries a second", "sooner than one process from", "which is an archive of"]]
    for cores in SPARK_CORES:
        entries = takes_over(of, cores)
        size = ["never", "–"] if entries is None else [f"{many(entries)} entries", amount(entries * of.archive_bytes)]
        lines.append([str(cores), number(of.spark_core_rate * cores), *size])
    return table(lines)


def business_table(of: Measured, assume: Assumed) -> str:
    """What the number of businesses costs the largest case, if all of them are written to all the time."""
    lines = [["businesses a node", "new objects an hour", "puts a day", "requests, a month"]]
    for businesses in BUSINESSES:
        one = cost(msgspec.structs.replace(CASES[-1], businesses=businesses), of, assume)
        lines.append(
            [number(businesses), number(one.objects * 3_600), number(one.puts_a_day), money(one.request_money)]
        )
    return table(lines)


HEAD = """\
# How far kvwal goes

This page is the reference of a model: what an installation of many nodes costs in requests, bytes, money and time, and where
Spark takes over. `make bench` writes it from [the measurements](benchmarks.md) and from benchmarks/scale.py, and a test
compares the two. Nothing larger than three nodes was ever run: a figure here is a measurement of two cores, multiplied.
So take it for the size of a thing, not for a promise.
"""

CASES_TEXT = """\
The writes are spread evenly over nodes and time, every business is written to all the time, and every entry has 100 bytes
of value. The archive is all of the object store, history included. The live keys are what the nodes hold in memory, with one
backup. A node of more cores than two does more: its share is of what two cores did, the client's work included. The memory
counts what a node's processes take for an entry, with garbage and buffers, so it is too much rather than too little.
"""

READING = """\
What follows from it:

- **The archive grows by what is written, not by what is live.** At a million writes a second, 10 TB are {day} of writing.
  Either the history is short (`history`, default seven days), or the archive is larger. Compaction drops what is older.
- **Requests are cheap, unless there are many businesses.** A log puts an object for each interval in which it was written to.
  An archive job lists the business twice, before its put and after it, and reads nothing that it knows. An idle business costs
  nothing. A node that starts puts one registration again, to see that the store refuses it.
  `archive_requests` of `store.stats()` counts the requests.
- **Connections**: each driver and each member keeps one to each node. A thousand are ordinary for a member of Hazelcast.
"""

RESTORE_TEXT = """\
If the disks are there, every node recovers by itself, and the number of nodes does not matter. If all disks are lost, the
oldest member merges the live keys from the archive into the cluster's memory: it does so alone, which bounds a total loss. A
query over the whole archive, or a root restored from it, takes one process the time of the third row.
"""

SPARK_TEXT = """\
Spark takes over where the whole archive is read: reports over all history, rewrites, verification, a merge of every
node. It merges by ranges of keys, so its cores divide the work, and its session takes {start} to start. One process of
kvwal is sooner done below these sizes. The memory of a process does not grow with the archive, so only time decides.
A restore of live keys stays with the nodes at any size: Spark would have to hand every key to them over the network.
"""


def render(results: list[Result]) -> str:
    """The whole page."""
    of, assume = measured(results), Assumed()
    day = span(TB * 10 / cost(CASES[-1], of, assume).archive_rate)
    return "\n".join(
        [
            HEAD,
            f"## The parameters\n\n{parameters(of, assume)}",
            f"## Load, requests, bytes and money\n\n{CASES_TEXT}",
            cost_table(of, assume),
            READING.format(day=day),
            f"The largest case, by the number of businesses:\n\n{business_table(of, assume)}",
            f"## Until everything is back\n\n{restore_table(of, assume)}",
            RESTORE_TEXT,
            f"## Where Spark takes over\n\n{SPARK_TEXT.format(start=span(of.spark_start))}",
            spark_table(of),
        ]
    )


def write() -> None:
    """Write the page from the stored results."""
    PAGE.write_text(render(load()))


if __name__ == "__main__":
    write()
