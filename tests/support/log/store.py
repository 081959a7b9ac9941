"""Small stores with files of known ranges, for what looks at them, damages them and repairs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kvwal
from kvwal.store.sync import WritableStore
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import make_options

EACH = 3
"""Entries of a segment."""


def open_with_archiver(root: Path, archive: Path | None, **given: kvwal.Settings) -> WritableStore:
    """A store whose archiver works in this process."""
    return WritableStore(make_options(root, archive=archive, start_archiver=lambda: InProcess(""), **given))


@contextmanager
def busy(root: Path, archive: Path) -> Iterator[None]:
    """A store with the business `b` is at work: writes, rotations, archiving and checkpoints, as fast as they go."""
    stop = threading.Event()
    with open_with_archiver(root, archive, settings=kvwal.Settings(segment_bytes=64 << 10)) as store:
        b = store.map("b")
        b["key"] = 0

        def work() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                b[f"key-{number % 50}"] = bytes(3000)
                if number % 15 == 0:
                    store.archive()
                if number % 40 == 0:
                    store.checkpoint()

        worker = threading.Thread(target=work)
        worker.start()
        try:
            yield
        finally:
            stop.set()
            worker.join()


def fill_segments(
    root: Path, *, segments: int, archived: int, checkpointed: int = 0, archive: Path | None = None
) -> dict[str, int]:
    """The business `b` in segments of three puts each, one a transaction, closed. Of the first `archived` the archive has an
    object each; the first `checkpointed` of them are in a snapshot. Returns what the map holds: `key-N` is N.
    """
    held = {}
    for number in range(segments):
        store = open_with_archiver(root, (archive or root / "_archive") if number < archived else None)
        b = store.map("b")
        for sequence in range(EACH * number + 1, EACH * (number + 1) + 1):
            b[f"key-{sequence}"] = held[f"key-{sequence}"] = sequence
        if number < archived:
            store.archive()
        if number + 1 == checkpointed:
            store.checkpoint()
        store.close(archive=False)
    return held
