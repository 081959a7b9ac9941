"""The merge of an archive on Spark, beside a restore by one process, and beside the merges that one writes by hand."""

from __future__ import annotations

from benchmarks.harness import Question, Row, Run, in_child, ratio_row, unranked_row
from benchmarks.pipeline import by_hand
from benchmarks.pipeline.by_hand import CORES, MERGE, SOURCE, WAYS
from benchmarks.questions.archive import restore

QUESTION = Question(
    "archive_merge",
    "How fast is the merge of an archive on Spark?",
    "of the first row, kvwal.restore of the same archive, which merges in one process, and writes a root; of the others, the"
    " fastest of three merges by hand (a window, max_by, max of a struct) of the same objects, read by Spark's own reader.",
    "making the archive, and the start of the session, which stands beside the first row. Its rows on Spark are counted and not"
    " written. The last row makes text of keys and values and drops it.",
)
MODULE = "benchmarks.questions.pipeline.archive_merge"
ROUNDS = 2


def merge_once(archive: str, keys: int) -> dict[str, float]:
    """The seconds of a session's start, and of a merge on its two cores. Raises AssertionError if keys are missing."""
    from kvwal_archive.spark import merge

    with by_hand.timed_session() as (spark, times):
        rows = merge(spark, archive, **by_hand.PLACE).count()
    if rows != keys:
        raise AssertionError(f"{rows} of {keys} keys came back")
    return times


def beside_restore(run: Run, keys: int) -> Row:
    """The row beside a restore by one process."""
    entries, archive = keys * restore.VERSIONS, str(run.root())
    in_child(f"{restore.MODULE}:fill", root=str(run.root()), archive=archive, keys=keys)
    starts: list[float] = []

    def baseline() -> float:
        answer = in_child(f"{restore.MODULE}:restore_once", root=str(run.root()), archive=archive, keys=keys)
        return float(entries / answer["seconds"])

    def ours() -> float:
        answer = in_child(f"{MODULE}:merge_once", archive=archive, keys=keys)
        starts.append(answer["start"])
        return float(entries / answer["seconds"])

    baselines, figures = run.interleave(ROUNDS, baseline, ours)
    notes = {"start of the session, s": sorted(starts)[len(starts) // 2]}
    return unranked_row(f"Merge of 5M entries on {CORES} cores", "entries/s", baselines, figures, notes)


def beside_hand(run: Run, keys: int) -> list[Row]:
    """The rows beside the merges by hand. All three run once; the fastest is the baseline."""
    entries, archive = keys * restore.VERSIONS, str(run.root())
    in_child(f"{by_hand.MODULE}:fill", root=str(run.root()), archive=archive, first=0, entries=entries, keys=keys)

    def rate(way: str, written: bool) -> float:
        into = str(run.root() / "rows") if written else None
        answer = in_child(f"{by_hand.MODULE}:run", archive=archive, way=way, keys=keys, into=into)
        return float(entries / answer["seconds"])

    once = {way: rate(way, True) for way in WAYS}
    best = max(once, key=once.__getitem__)
    written = run.interleave(ROUNDS, lambda: rate(best, True), lambda: rate(MERGE, True))
    read = run.interleave(ROUNDS, lambda: rate(best, False), lambda: rate(SOURCE, False))
    notes = {f"{way}, entries/s": found for way, found in once.items()}
    return [
        ratio_row(f"Latest of 5M entries on {CORES} cores, written as Parquet", "entries/s", *written, "at least", 1, notes),
        ratio_row(f"Data source: latest of 5M entries on {CORES} cores", "entries/s", *read, "at least", 0.8),
    ]  # fmt: skip


def measure(run: Run) -> list[Row]:
    """Three rows: entries of the archive a second."""
    keys = run.size(1_000_000, 2_000)
    return [beside_restore(run, keys), *beside_hand(run, keys)]
