"""The memory of the archiver's jobs as the log grows tenfold."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Question, Row, Run, ratio_row
from tests.support.archive.archiver_memory import SMALL, VALUE_BYTES, grown

QUESTION = Question(
    "archiver_memory",
    "Does the archiver's memory grow with the log?",
    "the same job on a tenth of the log.",
    "what the process takes before the job: a figure is the growth of its resident memory, from before the job to its highest."
    f" The bounds of rows in memory are {SMALL['kvwal_archive.merge.BATCH_BYTES'] >> 20} MiB here, so that a log of"
    " 160 MB is many times as large as they are. In use a row group ends at 8 MiB.",
)
JOBS = {"seed": "An archive that begins with the snapshot", "put": "Segments of a log"}
MIB = 1 << 20


def measure(run: Run) -> list[Row]:
    """A row for each job.

    A compaction is left out: its process makes the objects first, and what that leaves resident may hide the growth.
    """
    values = run.size(16_000, 8_000)

    def mib(job: str, values: int) -> float:
        return grown(job, values, run.root() / "log") / MIB

    rows = []
    for job, name in JOBS.items():
        baselines, ours = run.interleave(3, partial(mib, job, values), partial(mib, job, 10 * values))
        sizes = {
            "values of the smaller log, MB": values * VALUE_BYTES / 1e6,
            "of the larger": values * VALUE_BYTES / 1e5,
        }
        rows.append(ratio_row(f"{name}, ten times the log", "MiB", baselines, ours, "at most", 2, sizes))
    return rows
