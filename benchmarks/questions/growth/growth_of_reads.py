"""What opening, and the history of a key, cost as entries, segments, maps, versions and archive objects grow."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import kvwal
from benchmarks.growth import BASELINE, Curve, rows
from benchmarks.harness import Question, Row, Run, in_child
from benchmarks.pipeline.random_archive import fill, first_key
from kvwal.location.archived import ArchiveReader
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects

QUESTION = Question(
    "growth_of_reads",
    "What do opening and history cost as a store grows?",
    BASELINE,
    "starting the interpreter, and writing what is read. An archive is in a folder, where nothing waits for a network.",
)
MODULE = "benchmarks.questions.growth.growth_of_reads"
NEVER = 1e9
ENTRIES = (10_000, 100_000, 1_000_000, 5_000_000, 20_000_000)
SEGMENTS = (4, 16, 64, 256)
LARGEST = 64 << 20
"""The bytes of a full segment, by default."""
MAPS = (1, 10, 100, 1_000)
VERSIONS = (1, 10, 100, 1_000, 10_000)
OBJECTS = (1, 10, 100, 500)
OBJECT_ROWS = 2_000
MAP_KEYS = 100
IN_SEGMENTS = 200_000
"""Entries of the logs whose segments are counted."""
ENTRY_BYTES = 133
TIMES = 5
"""How often a history is asked for; the median counts."""


def settings(segment_bytes: int = LARGEST) -> kvwal.Settings:
    """Settings without checkpoints."""
    return kvwal.Settings(checkpoint_seconds=NEVER, checkpoint_bytes=1 << 50, segment_bytes=segment_bytes)


def fill_map(root: str, entries: int, segment_bytes: int) -> None:
    """Write so many keys with values of 100 bytes into a log whose segments have up to so many bytes, in many groups: a group is
    in one segment.
    """
    block = os.urandom(1 << 20)
    with kvwal.open(root, archive=None, flush="os", settings=settings(segment_bytes)) as store:
        target = store.map("bench")
        for first in range(0, entries, 100):
            start = first * 7 % (len(block) - 10_100)
            target.put_many({f"{first + n:08d}": block[start + n * 100 : start + n * 100 + 100] for n in range(100)})


def fill_maps(root: str, count: int) -> None:
    """Write `MAP_KEYS` keys into each of so many maps."""
    with kvwal.open(root, archive=None, flush="os", settings=settings()) as store:
        for number in range(count):
            store.map(f"bench-{number}").put_many({f"{key:08d}": b"x" * 100 for key in range(MAP_KEYS)})


def open_maps(root: str, names: list[str], keys: int) -> float:
    """Seconds until a store and these maps are open. Each of them has so many keys."""
    started = time.perf_counter()
    with kvwal.open(root, archive=None, settings=settings()) as store:
        maps = [store.map(name) for name in names]
        seconds = time.perf_counter() - started
        for name, found in zip(names, maps, strict=True):
            if len(found) != keys:
                raise AssertionError(f"{name}: {len(found)} of {keys} keys")
    return seconds


def past_of_versions(root: str, versions: int) -> float:
    """Milliseconds of the history of a key that was put so many times, among 10,000 other entries."""
    with kvwal.open(root, archive=None, flush="os", settings=settings()) as store:
        target = store.map("bench")
        for first in range(0, 10_000, 1_000):
            target.put_many({f"{key:08d}": b"x" * 100 for key in range(first, first + 1_000)})
        for number in range(1, versions):
            target.submit("key", f"{number:0100d}")
        target.put("key", "the last one")
        return median_ms(partial(target.history, "key"), versions)


def past_of_objects(root: str, objects: int) -> float:
    """Milliseconds of the history of a key in an archive of so many objects, of which few have it."""
    place = Place("default", "local", "bench", "local")
    archive = open_objects(root)
    fill(archive, place, objects, OBJECT_ROWS)
    reader = ArchiveReader(archive, place.namespace, place.cluster, None)
    return median_ms(lambda: reader.read_business("bench").history("str", first_key().encode()), 1)


def median_ms(ask: Callable[[], list[kvwal.DataEntry]], least: int) -> float:
    """The median time of an answer that has so many entries at least."""
    times = []
    for _ in range(TIMES):
        started = time.perf_counter()
        found = len(ask())
        times.append(time.perf_counter() - started)
        if found < least:
            raise AssertionError(f"{found} of {least} entries")
    return statistics.median(times) * 1e3


class Filled:
    """Folders that are filled once and read in every round."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._roots: dict[tuple[str, str], str] = {}

    def root(self, function: str, **arguments: int) -> str:
        """The folder that `function` filled with these arguments."""
        key = (function, repr(arguments))
        if key not in self._roots:
            self._roots[key] = str(self._run.root())
            in_child(f"{MODULE}:{function}", root=self._roots[key], **arguments)
        return self._roots[key]


def measure(run: Run) -> list[Row]:
    """A curve for each thing that grows."""
    filled = Filled(run)

    def opening(root: str, names: list[str], keys: int) -> float:
        return float(in_child(f"{MODULE}:open_maps", root=root, names=names, keys=keys))

    def by_entries(size: int) -> float:
        return opening(filled.root("fill_map", entries=size, segment_bytes=LARGEST), ["bench"], size) / size * 1e6

    def by_segments(count: int) -> float:
        entries = run.size(IN_SEGMENTS, 20_000)
        root = filled.root("fill_map", entries=entries, segment_bytes=entries * ENTRY_BYTES // count)
        if not run.quick and not count <= (found := len(list(Path(root).rglob("*.wal")))) <= 1.2 * count + 4:
            raise AssertionError(f"{found} segments, and {count} were wanted")
        return opening(root, ["bench"], entries) * 1e3

    def by_maps(count: int) -> float:
        names = [f"bench-{number}" for number in range(count)]
        return opening(filled.root("fill_maps", count=count), names, MAP_KEYS) / count * 1e3

    def past(function: str, what: str, size: int) -> float:
        return float(in_child(f"{MODULE}:{function}", root=str(run.root()), **{what: size}))

    curves = [
        Curve("opening by entries", "µs/entry", ENTRIES, by_entries),
        Curve("opening 200,000 entries by segments", "ms", SEGMENTS, by_segments),
        Curve("opening by maps of 100 keys", "ms/map", MAPS, by_maps),
        Curve("the history of a key by its versions", "ms", VERSIONS, partial(past, "past_of_versions", "versions")),
        Curve("the history of a key by archive objects", "ms", OBJECTS, partial(past, "past_of_objects", "objects")),
    ]
    return [row for curve in curves for row in rows(run, curve, 2)]
