"""The table of figures in the README, from benchmarks/results: a few rows of docs/benchmarks.md, each beside its baseline."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.harness import RATIO, ROOT, Result, Row, load
from benchmarks.page import anchor, number, table

README = ROOT / "README.md"
BEGIN, END = "<!-- figures of make bench -->", "<!-- end of the figures -->"
_BARE = "a bare loop of write and fdatasync"


class Shown(NamedTuple):
    """A row of the README: the question and the row that it shows, its words, and what the baseline is, if it says something."""

    question: str
    row: str
    words: str
    baseline: str = ""


ROWS = (
    Shown("threads", "1 thread (sync)", "one thread, each put durable", _BARE),
    Shown("threads", "64 threads (sync)", "64 threads", _BARE),
    Shown("aio_puts", "1,000 puts in flight (kvwal.aio, sync)", "1,000 puts in flight (`kvwal.aio`)", _BARE),
    Shown("batches", "put_many of 1,000, one producer (sync)", "transactions of 1,000 entries (`put_many`)", _BARE),
    Shown("recovery", "Opening 1M entries of 100 B", "opening a log of 1M entries", "a loop that checks and decodes it"),
    Shown("restore", "Restore of 5M entries (1M keys)", "restore from the archive alone"),
    Shown(
        "cluster_writes", "500 in flight, three nodes, backup 1 (sync)", "three nodes with a backup, 500 in flight",
        "a map in memory only",
    ),
    Shown(
        "cluster_kill", "100 puts in flight, one node of three is killed (kvwal.connect)",
        "a node of three is killed: the longest wait of a client",
    ),
    Shown("recorder", "Two-task jobs with the recorder", "a recorder: a Spark job of two tasks"),
    Shown("listing", "10,000 applications with 1M jobs", "`kvwal jobs` over 10,000 applications with 1M jobs"),
    Shown("large_archive", "Merge of 50M entries on 2 cores, written as Parquet", "merge of 50M entries by Spark"),
    Shown("one_key", "One key of 200 objects in a bucket", "one key of an archive of 200 objects, by Spark"),
)  # fmt: skip


def block(results: Iterable[Result]) -> str:
    """The part of the README between the markers, markers included."""
    by_name = {result.question.name: result for result in results}
    lines = [["", "measured", "beside"]]
    hosts = set()
    for shown in ROWS:
        result = by_name[shown.question]
        row = next(row for row in result.rows if row.name == shown.row)
        link = f"[{shown.words}](docs/benchmarks.md#{anchor(result.question.title)})"
        lines.append([link, measured(row), beside(row, shown.baseline)])
        hosts.add(f"{result.host['processor']}, {result.host['cores']} cores")
    machine = (
        f"Medians; values of about 100 bytes; machines: {'; '.join(sorted(hosts))}. [docs/benchmarks.md](docs/benchmarks.md) has"
        " the date and the spread of each, what is not counted, the peers, and what missed its target, with the reason.\n"
    )
    return "\n".join([BEGIN, table(lines), machine + END])


def measured(row: Row) -> str:
    """The median of ours with its unit; of what is added, the difference, unless the noise hides it."""
    if row.figure_is.endswith("added"):
        return f"{number(row.figure)} {row.figure_is}" if row.figure > 0 else "nothing beyond the noise"
    return f"{number(statistics.median(row.ours))} {row.unit}"


def beside(row: Row, baseline: str) -> str:
    """The ratio to a baseline, if it is named."""
    return f"{number(row.figure)} × {baseline}" if baseline and row.figure_is == RATIO else ""


def filled(text: str, results: Iterable[Result]) -> str:
    """The README with the figures of these results."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: block(results), text, flags=re.DOTALL)


def write() -> None:
    """Write the figures into the README."""
    README.write_text(filled(README.read_text(), load()))


if __name__ == "__main__":
    write()
