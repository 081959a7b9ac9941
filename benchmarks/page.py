"""The generator of docs/benchmarks.md and its plots from benchmarks/results: no figure is typed by hand."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from benchmarks import growth
from benchmarks.harness import LOAD, RATIO, RESULTS, ROOT, Result, Row, load
from benchmarks.peers import chart, reasons

PAGE = ROOT / "docs" / "benchmarks.md"
ORDER = [
    "aio_puts", "threads", "batches", "large_values", "contents", "large_transactions", "long_queues", "recovery", "shapes",
    "restore", "restore_contents",
    "gets", "command", "archiver", "archiver_memory", "archive_requests", "size", "recorder", "cluster_recorder", "many_drivers",
    "provenance_cost",
    "opening",
    "event_logs", "kept_logs", "follower", "listing", "cluster_listing", "lineage", "history_server", "typed_query",
    "console_start", "console_pages", "console_hour", "console_large", "console_live",
    "archive_merge",
    "archive_rewrite", "large_archive", "one_key", "frame_writes", "streams", "cluster_writes", "cluster_transactions",
    "cluster_kill", "cluster_loading", "cluster_maps", "cluster_idle", "peers_durability", "peers_producers",
    "peers_in_flight", "peers_transactions", "peers_queues", "peers_queue_opening",
    "peers_values", "peers_recovery", "peers_size", "peers_ycsb",
    "peers_redis_mix", "peers_changes", "growth_of_puts", "growth_of_reads", "growth_of_nodes",
]  # fmt: skip
LATENCY = (" of kvwal, ms", " of the peer, ms")
MOST_PLOTTED = 20
"""Rows of a question that one plot has room for."""
BUSY = 3
"""Processes for each core from which a result says that the machine was busy. The benchmarks alone come to less."""
PEERS = "peers_"
"""How the names of the questions about peers begin."""

_FAST_DISK = (
    "the baseline waits for the disk at each put, and the disk was faster in this run than in those that reached the target. "
    "kvwal's own figure was about the same: its threads and its interpreter are the limit."
)

_ONE_LOCK = (
    "all threads of a process share one interpreter lock. Each put takes about 20 µs of it, and up to 55 after a wait for the "
    "disk, so that more threads make a group larger and not its put cheaper (docs/decisions/0063-no-compiled-write-path.md)."
)
_MAPS = (
    "the logs write side by side, but their threads share one interpreter lock. In an earlier run with an fdatasync of a fixed "
    "120 µs two maps reached 1.48 × and eight maps 3.2 × (docs/decisions/0055-a-waiting-thread-writes.md)."
)
_TWO_SYNCS = (
    "the bytes are durable before the entry that names them, so that no name is without its bytes: two waits for the disk, one "
    "after the other, where the baseline has one."
)
_CHECKSUM = (
    "the baseline copies the bytes out of the page cache, at 7 GB/s. A checksum of as many bytes takes 0.12 ms a MiB, nearly as "
    "long as the copy."
)

# The reason of each missed target, by the row's name. A test fails for a miss without a reason, and for a reason whose row has
# reached its target.
MISSES: dict[str, str] = {
    "1,000 puts in flight (kvwal.aio, sync)": _FAST_DISK,
    "1 thread (sync)": (
        "beside the wait for the disk a put takes the interpreter about 55 µs (docs/decisions/0063-no-compiled-write-path.md). "
        "The row lies at its target: its rounds are on both sides of it."
    ),
    "2 threads (sync)": _ONE_LOCK,
    "8 threads (sync)": _ONE_LOCK,
    "32 threads (sync)": _ONE_LOCK,
    "64 threads (sync)": _ONE_LOCK,
    "2 threads, a map each (sync)": _MAPS,
    "8 threads, a map each (sync)": _MAPS,
    "1 put at a time, on the main thread (sync)": (
        "the main thread hands its put to another thread, because a signal handler may run between any two of its steps: two "
        "switches of threads for each put (docs/decisions/0056-what-a-put-costs.md)."
    ),
    "put_many of 100, one producer (sync)": (
        "encoding an entry, and inserting it into memory, each take longer than the entry's share of the write."
    ),
    "put_many of 1,000, one producer (sync)": (
        "encoding an entry, and inserting it into memory, each take longer than the entry's share of the write."
    ),
    "put of 1 MiB, 1 writer": _TWO_SYNCS,
    "put of 1 MiB, 4 writers": (
        f"{_TWO_SYNCS} The files of the baseline are synced side by side. Shared files for each writer were a tenth faster."
    ),
    "put of 64 MiB, 1 writer": (
        "the row lies at its target: its rounds are on both sides of it. A checksum and a digest of the bytes come to the write."
    ),
    "put of 1 KiB, 64 writers": (
        "the disk of this run synced 2,000 to 3,000 files a second, one after the other. A put takes the interpreter about 58 µs "
        "beside that, so 64 writers on one interpreter end near 10,000 a second. On a busier disk it was 35 × in an earlier run."
    ),
    "get of 1 MiB": _CHECKSUM,
    "get of 64 MiB": _CHECKSUM,
    "get of 64 MiB, from the disk": (
        "the row lies at its target: its rounds are on both sides of it. The checksum of a piece comes after its read."
    ),
    "Batch write of 1M rows into a folder": (
        "a worker reads each row, turns it into text in Arrow's columns and hands it on, on the same two cores on which the "
        "store encodes and writes it. The row lies at its target: its rounds are on both sides of it."
    ),
    "Event logs in a bucket, first round": (
        "these logs are small, 0.12 MB of text each; the last row has larger ones. Of the time for one, the client of the object "
        "store takes more than half. Three transactions come to each log."
    ),
    "one by one, one node (sync)": (
        "a put into memory is one round trip. A durable one also waits until the group is in the log: a hand-over from Java to "
        "Python, an fdatasync, and the way back, on the two cores of client and node."
    ),
    "500 in flight, three nodes, backup 1 (sync)": (
        "each entry is in the logs of two members before it is acknowledged. So two interpreters encode it and two logs sync it, "
        "on the two cores that client and three nodes share."
    ),
    "put_many of 100 keys, one node (sync), p50": (
        "the intent is in the log before the changes are, and the changes before the call returns: one wait for the log, and "
        "then another, where the call in memory has none (docs/decisions/0075-locks-of-transactions.md)."
    ),
    "put_many of 100 keys, three nodes (sync), p50": (
        "the row lies at its target: its rounds are on both sides of it. Each step is a message to all members, and three nodes "
        "and the client have two cores. The warm-up ended by its time, and Java's compilers still took part of them."
    ),
    "each of three nodes, idle": (
        "the members exchange bounds of clocks, leases and reports on links, which decide within seconds "
        "(docs/decisions/0078-idle-nodes-wait.md). Each is a message of its own to both others, eleven a second with their "
        "answers."
    ),
    "1M entries into three nodes, backup 1": (
        "the baseline drops its rows. Here three JVMs make Hazelcast's records of each entry in two memories, on the "
        "two cores on which one of the nodes reads the archive. All three JVMs have just started. Their compilers and collectors "
        "take more processor time than the records, and the reading takes about as much. Only longer batches, and Java's C1 "
        "compiler alone, helped beyond the noise. C1 alone would slow down every client afterwards."
    ),
    "Any page, 20 people, while an application is recorded": (
        "the interpreter makes the pages of all on one core, about 17 ms each, while the lists and the graph are made anew "
        "beside the recorder and those who ask. On the machine of this run the style sheet, too, took half as long again as on "
        "that of the run before, in which this row reached its target (886 ms)."
    ),
    "Memory after another minute of 20 people, over the archive alone": (
        "people go another way in the second minute, and parts of objects are read that nobody has read before. They are kept up "
        "to a fixed number of bytes. What an hour does to the memory is asked by a question of its own."
    ),
    "2,600 applications, from a cluster of three nodes": (
        "Hazelcast's client takes 0.13 s of this to be imported, and then connects to three nodes on the same two cores. The "
        "logs are small, 0.12 MB of text each, so that a History Server has its list of them in seconds."
    ),
}

HEAD = """# Benchmarks

This page is the reference of the measurements. `make bench` writes it from benchmarks/results, and a test compares the two.

Every figure stands beside a baseline: the plainest program with the same result, measured in the same run on the same disk,
in turn: baseline, ours, baseline, ours. A ratio is the median of the ratios of those pairs, so that a noisy spell of the disk
affects both. The spread of the rounds stands beside it. Absolute figures are medians and hold for this machine only.

Ratios to a baseline that waits for the disk hold for this machine only, too. The interpreter and its threads limit kvwal there.
So these ratios are lower where an fdatasync takes less time (1,000 puts in flight, threads, put_many), or where the disk is
already at its bandwidth (1 MiB values). On a machine whose disk was twice as fast, their rows missed their targets.

The questions whose rows name a peer set kvwal beside other logs and stores (`make bench ARGS=peers`). Their workloads are in
benchmarks/peers/workloads.py. All contestants of a workload run in turn, then all again. A row shows the peer as its baseline.
Every write is durable before it returns, and the first of these questions counts the calls that make it so. Rows without a
target are in their section only. A peer that is not installed is left out; the run names it, and what installs it.

The last questions are about growth (`make bench ARGS=growth`): what one operation costs as one thing grows. Where a curve costs
twice what it costs at its smallest size, the section says why.
"""


def order(name: str) -> int:
    """The place of a question on the page."""
    return ORDER.index(name)


def number(value: float) -> str:
    """A figure as text, with three significant digits."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.3g}M"
    if value >= 1_000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def table(lines: Iterable[Iterable[str]]) -> str:
    """A markdown table; the first line is its head."""
    head, *body = [list(line) for line in lines]
    rows = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def verdict(row: Row) -> str:
    """The figure, and a mark if it missed its target."""
    return f"{number(row.figure)} {row.figure_is}" if row.met else f"**{number(row.figure)} {row.figure_is}: missed**"


def spread(row: Row) -> str:
    """The lowest and the highest round of a figure."""
    return f"{number(min(row.rounds))} … {number(max(row.rounds))}" if len(row.rounds) > 1 else "–"


def explanation(row: Row) -> str:
    """The reason of a missed target; empty if the target was reached or no reason is known."""
    return "" if row.met else MISSES.get(row.name, "") or reasons.reason(row.name)


def summary(results: list[Result]) -> str:
    """The first table: every row of every question that has a target."""
    lines = [["question", "measured", "target"]]
    for result in results:
        for row in result.rows:
            if row.must == "no target":
                continue
            link = f"[{row.name}](#{anchor(result.question.title)})"
            lines.append([link, verdict(row), f"{row.must} {number(row.target)} {row.figure_is}"])
    return table(lines)


def anchor(title: str) -> str:
    """The anchor of a heading."""
    return "".join(letter for letter in title.lower().replace(" ", "-") if letter.isalnum() or letter in "-_")


def noted(row: Row) -> dict[str, float]:
    """The notes of a row that stand below the table: latencies have a table of their own."""
    return {name: value for name, value in row.notes.items() if not name.endswith(LATENCY)}


def latency_table(result: Result) -> list[str]:
    """The table of latencies of a question, kvwal's beside the baseline's; empty if it measured none."""
    lines = [["latency in ms, p50 / p99 / p99.9 / max", "baseline", "kvwal"]]
    for row in result.rows:
        shares = ("p50", "p99", "p99.9", "max")
        both = [
            " / ".join(number(row.notes[f"{share} of {owner}, ms"]) for share in shares)
            if f"max of {owner}, ms" in row.notes
            else "–"
            for owner in ("the peer", "kvwal")
        ]
        if both[0] != "–":
            lines.append([row.name, *both])
    return [table(lines)] if len(lines) > 1 else []


def busy(result: Result) -> str:
    """A sentence on a machine that did much else while it measured; empty if it did not, or is not known to have."""
    load, cores = float(result.host.get(LOAD, 0)), float(result.host["cores"])
    if load < BUSY * cores:
        return ""
    return (
        f" **The machine was busy with other work: on {cores:.0f} cores, {load:.0f} processes ran or waited. An fdatasync took "
        "from 0.1 ms to several, so a row whose rounds lie far apart tells little.**"
    )


def section(result: Result) -> str:
    """The section of one question: the baseline, the medians, the notes, the plot."""
    question = result.question
    lines = [["", "unit", "baseline (median)", "ours (median)", "rounds", "figure", "lowest … highest round"]]
    for row in result.rows:
        baseline = number(statistics.median(row.baselines)) if row.baselines else "–"
        ours = number(statistics.median(row.ours))
        lines.append([row.name, row.unit, baseline, ours, str(len(row.ours)), verdict(row), spread(row)])
    notes = [f"- {row.name}: {name} {number(value)}" for row in result.rows for name, value in noted(row).items()]
    notes += [f"- {row.name}: {explanation(row)}" for row in result.rows if explanation(row)]
    if question.name.startswith(growth.PREFIX):
        notes += [f"- {reason}" for reason in growth.reasons(result)]
    return "\n".join(
        [
            f"## {question.title}\n",
            f"The baseline: {question.baseline} Not counted: {question.not_counted}{busy(result)}\n",
            table(lines),
            *latency_table(result),
            *([*notes, ""] if notes else []),
            f"![{question.title}](../benchmarks/results/{question.name}.png)\n",
        ]
    )


def render(results: list[Result]) -> str:
    """The whole page."""
    ordered = sorted(results, key=lambda result: order(result.question.name))
    hosts = list(
        dict.fromkeys(
            ", ".join(f"{name} {value}" for name, value in result.host.items() if name != LOAD) for result in ordered
        )
    )
    machine = "".join(f"Measured on: {line}.\n" for line in hosts)
    return "\n".join([HEAD, machine, summary(ordered), *(section(result) for result in ordered)])


def plot(result: Result) -> None:
    """The plot of one question: for each row the rounds as dots, the medians as bars, the target as a line.

    Of very many rows it has those with a target.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    ranked = [row for row in result.rows if row.must != "no target"]
    rows = ranked if len(result.rows) > MOST_PLOTTED else result.rows
    figure, axes = pyplot.subplots(
        len(rows), 1, figsize=(6.4, 0.5 + 1.15 * len(rows)), squeeze=False, layout="constrained"
    )
    for row, axis in zip(rows, axes[:, 0], strict=True):
        series = [("ours", row.ours, "#2a6f97"), ("baseline", row.baselines, "#a9a9a9")]
        for position, (_, values, colour) in enumerate(series):
            if values:
                axis.barh(position, statistics.median(values), color=colour, alpha=0.55, height=0.6)
                axis.plot(values, [position] * len(values), "o", color=colour, markersize=4)
        target = row.target * (statistics.median(row.baselines) if row.figure_is == RATIO else 1)
        if row.figure_is in (RATIO, row.unit) and row.must != "no target":
            axis.axvline(target, color="#c1121f", linestyle="--", linewidth=1)
        axis.set_yticks([0, 1], [name for name, _, _ in series])
        axis.set_xlim(left=0)
        wanted = "no target" if row.must == "no target" else f"{row.must} {number(row.target)}"
        title = f"{row.name} [{row.unit}]: {number(row.figure)} {row.figure_is}, {wanted}"
        axis.set_title(title, fontsize=9, loc="left")
        axis.tick_params(labelsize=8)
        axis.xaxis.set_major_formatter(lambda value, _: number(value))
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(RESULTS / f"{result.question.name}.png", dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def write() -> None:
    """Write the page and every plot from the stored results."""
    results = load()
    for result in results:
        if result.question.name.startswith(PEERS):
            chart.draw(result, RESULTS / f"{result.question.name}.png")
        elif result.question.name.startswith(growth.PREFIX):
            growth.draw(result, RESULTS / f"{result.question.name}.png")
        else:
            plot(result)
    PAGE.write_text(render(results))


if __name__ == "__main__":
    write()
