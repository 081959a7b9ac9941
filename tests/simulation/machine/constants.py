"""Constants of the product that a seed shrinks, so that a few kilobytes go through the code that is for gigabytes.

A part, a run, a batch or a group of a few entries has many borders, and each border is where a number off by one shows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

_ROWS, _BYTES = (1, 2, 7), (1, 300, 5000)
SHRUNK: dict[str, tuple[int, ...]] = {
    "kvwal.archiver.remote.SMALL_BYTES": (0,),
    "kvwal.archiver.work.OBJECT_BYTES": _BYTES,
    "kvwal.history.restore.restore.BLOCK_BYTES": _BYTES,
    "kvwal.history.restore.restore.BLOCK_ENTRIES": _ROWS,
    "kvwal.history.reads.key_scan._PIECE_ENTRIES": _ROWS,
    "kvwal.log.appender._FIRST_LIMIT": (4096,),
    "kvwal.log.checkpoint.ROUND_BYTES": _BYTES,
    "kvwal.log.files.compression._LEAST_BYTES": (0, 100),
    "kvwal.log.files.snapshot_reader._NEAR_BYTES": (8, 500),
    "kvwal.log.files.preallocation._STEP": (1000, 4096),
    "kvwal.log.files.external_sort.RUN_BYTES": (128, 300, 5000),
    "kvwal.log.files.external_sort._PIECE_BYTES": _BYTES,
    "kvwal.log.files.external_sort._PIECE_ROWS": _ROWS,
    "kvwal.log.files.snapshot.BLOCK_BYTES": _BYTES,
    "kvwal.log.files.snapshot.BLOCK_ENTRIES": _ROWS,
    "kvwal.log.files.snapshot._WRITE_BYTES": _BYTES,
    "kvwal.log.latest_entries.RUN_BYTES": _BYTES,
    "kvwal.log.latest_entries.RUN_ENTRIES": _ROWS,
    "kvwal.log.reader.READ_BYTES": _BYTES,
    "kvwal.log.reader._PART_BYTES": (1000, 5000),
    "kvwal.log.ring.GROUP_BYTES": _BYTES,
    "kvwal.log.ring.TICK_BYTES": _BYTES,
    "kvwal.log.writer.BLOCK_BYTES": _BYTES,
    "kvwal.log.writer.GROUP_BYTES": _BYTES,
    "kvwal.store.expiry._SWEEP_AT_ONCE": _ROWS,
    "kvwal.store.maintenance.JOB_BYTES": _BYTES,
    "kvwal_archive.maintenance.compaction.MIN_INPUTS": (2, 3),
    "kvwal_archive.maintenance.compaction.SMALL_BYTES": (0, 100),
    "kvwal_archive.maintenance.tombstones.BATCH_ROWS": _ROWS,
    "kvwal_archive.merge.BATCH_BYTES": _BYTES,
    "kvwal_archive.merge.BATCH_ROWS": _ROWS,
    "kvwal_archive.parquet.object_file.ROW_GROUP_BYTES": _BYTES,
    "kvwal_archive.parquet.object_file.ROW_GROUP_ROWS": _ROWS,
    "kvwal_archive.parquet.object_file.WRITE_BATCH_ROWS": _ROWS,
    "kvwal.archiver.contents.MANY_SMALL": (2, 4),
    "kvwal.archiver.contents.SMALL_BYTES": (1, 500),
    "kvwal.archiver.work._CONTENT_GC_MS": (0, 1000),
    "kvwal.content.files.SHARED_BYTES": (0, 100, 5000),
    "kvwal.content.transfer._FETCH_BYTES": (7, 300),
    "kvwal.content.shared.BESIDE_BYTES": (0, 100),
    "kvwal.content.shared.FILE_BYTES": (1, 1000),
    "kvwal.content.shared._GROUP_BYTES": (1, 1000),
    "kvwal.content.shared._HEADS": (1, 2),
    "kvwal.content.writer.SHARED_BYTES": (0, 100, 5000),
    "kvwal.content.writer.STEP_BYTES": (50, 1000),
    "kvwal.store.contents.care._ROUND_BYTES": (1, 1000),
    "kvwal.log.unlocked.known._READS": (0, 1),
    "kvwal.log.unlocked.segment_keys._ALIKE": (2,),
    "kvwal.log.unlocked.segment_keys._MOST_FRESH": (1, 5),
    "kvwal.log.unlocked.segment_keys._PIECE": (1, 3),
    "kvwal_archive.merge.FEW_ROWS": (0, 5),
}
"""Values of each constant, by the module that reads it."""


def draw(chance: random.Random) -> dict[str, int]:
    """The constants of a seed: none in some seeds, and in the others a share of them, each with one of its values."""
    share = chance.choice((0.0, 0.1, 0.5, 1.0))
    drawn = {name: (chance.random() < share, chance.choice(values)) for name, values in SHRUNK.items()}
    return {name: value for name, (is_shrunk, value) in drawn.items() if is_shrunk}


@contextmanager
def shrunk(values: dict[str, int]) -> Iterator[None]:
    """Have these constants for the block. AttributeError if the product has one no more."""
    with ExitStack() as undo:
        for name, value in values.items():
            undo.enter_context(patch(name, value))
        yield
