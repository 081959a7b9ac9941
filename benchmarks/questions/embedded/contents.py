"""Contents: large bytes under a name, beside files that hold the same bytes."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run, ratio_row, unranked_row

QUESTION = Question(
    "contents",
    "How fast are contents?",
    "as many threads, which create a file for each content, write its bytes, and call fdatasync; for reads, reads of such files; "
    "for 1 KiB, files that one thread writes and syncs with fsync one after the other.",
    "opening and closing the store. A file has no checksum, no name in a log, and no history.",
)
KIB, MIB = 1 << 10, 1 << 20
PUTS = [(MIB, 1, 100), (MIB, 4, 160), (64 * MIB, 1, 5), (64 * MIB, 4, 8)]
"""Bytes of a content, writers, and contents of all writers together."""
READS = [(MIB, 200), (64 * MIB, 6)]
SMALL_WRITERS = 64
PUT_TARGET = READ_TARGET = 0.8
SMALL_TARGET = 20


def written_by(threads: int, count: int, write: Callable[[int], object]) -> float:
    """Calls of `write` a second. The threads share `count` numbers."""

    def work(first: int) -> None:
        for number in range(first, count, threads):
            write(number)

    workers = [threading.Thread(target=work, args=(first,)) for first in range(threads)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return count / (time.perf_counter() - started)


def write_files(folder: Path, size: int, threads: int, count: int, sync: Callable[[int], None] = os.fdatasync) -> float:
    """The baseline of puts: a file for each content, made durable."""
    data = os.urandom(size)

    def write(number: int) -> None:
        file = os.open(folder / f"{number}", os.O_CREAT | os.O_WRONLY)
        written = 0
        while written < size:
            written += os.write(file, data[written:] if written else data)
        sync(file)
        os.close(file)

    return written_by(threads, count, write)


def put_contents(folder: Path, size: int, threads: int, count: int) -> float:
    """Contents a second, each under a name of its own."""
    data = os.urandom(size)
    with kvwal.open(folder, archive=None) as store:
        contents = store.content("bench")
        return written_by(threads, count, lambda number: contents.put(f"{number}", data))


def put_values(folder: Path, size: int, threads: int, count: int) -> float:
    """The same bytes as values of a map."""
    data = os.urandom(size)
    with kvwal.open(folder, archive=None) as store:
        bench = store.map("bench")
        return written_by(threads, count, lambda number: bench.put(number % 32, data))


def read_files(folder: Path, count: int, is_cold: bool) -> float:
    """The baseline of reads: whole files."""
    return read_each(folder, count, is_cold, lambda number: (folder / f"{number}").read_bytes())


def get_contents(folder: Path, count: int, is_cold: bool) -> float:
    """Reads of whole contents, whose checksum is compared."""
    with kvwal.open(folder, archive=None) as store:
        contents = store.content("bench")
        return read_each(folder, count, is_cold, lambda number: contents.get(f"{number}"))


def read_each(folder: Path, count: int, is_cold: bool, read: Callable[[int], object]) -> float:
    """Reads a second, from the page cache; or from the disk, if `is_cold`."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                if is_cold:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                else:
                    while file.read(MIB):
                        pass
    started = time.perf_counter()
    for number in range(count):
        read(number)
    return count / (time.perf_counter() - started)


def measure(run: Run) -> list[Row]:
    """A row for each size and number of writers, for reads of each size, and for small contents."""
    rows = []
    for size, threads, full in PUTS:
        count = run.size(full, threads)
        baselines, ours = run.interleave(
            7,
            partial(in_folder, run, write_files, size, threads, count),
            partial(in_folder, run, put_contents, size, threads, count),
        )
        rows.append(ratio_row(_named(size, threads), "contents/s", baselines, ours, "at least", PUT_TARGET))
    given = (MIB, 1, run.size(100, 4))
    baselines, ours = run.interleave(
        7, partial(in_folder, run, put_values, *given), partial(in_folder, run, put_contents, *given)
    )
    rows.append(unranked_row("put of 1 MiB, beside a put into a map", "puts/s", baselines, ours))
    return [*rows, *_reads(run), _small(run)]


def in_folder(run: Run, work: Callable[..., float], *given: Any) -> float:
    """What `work` measures in a new folder, which is deleted then: the disk has room for one round."""
    folder = run.root()
    figure = work(folder, *given)
    shutil.rmtree(folder)
    return figure


def _reads(run: Run) -> list[Row]:
    rows = []
    for size, full in READS:
        count = run.size(full, 2)
        files, root = run.root(), run.root()
        write_files(files, size, 1, count)
        put_contents(root, size, 1, count)
        for is_cold, where in ((False, ""), (True, ", from the disk")):
            baselines, ours = run.interleave(
                7, partial(read_files, files, count, is_cold), partial(get_contents, root, count, is_cold)
            )
            name = f"get of {size // MIB} MiB{where}"
            rows.append(ratio_row(name, "contents/s", baselines, ours, "at least", READ_TARGET))
    return rows


def _small(run: Run) -> Row:
    baselines, ours = run.interleave(
        7,
        partial(in_folder, run, write_files, KIB, 1, run.size(1_000, 10), os.fsync),
        partial(in_folder, run, put_contents, KIB, SMALL_WRITERS, run.size(20_000, SMALL_WRITERS)),
    )
    return ratio_row("put of 1 KiB, 64 writers", "contents/s", baselines, ours, "at least", SMALL_TARGET)


def _named(size: int, threads: int) -> str:
    return f"put of {size // MIB} MiB, {threads} writer{'' if threads == 1 else 's'}"
