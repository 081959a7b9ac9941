"""A whole life of a store, small and always the same: what a sweep kills at each of its system calls.

Open, write, fill segments, checkpoint, archive, recycle, write little above a large snapshot, merge deltas, rewrite, collect
garbage, close, reopen, restore, lose the disk, take over. It can begin in the state that a killed run has left, like a
program that an init system starts again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import kvwal
from kvwal.content.claim import claim_of, has_claim
from kvwal.content.folder import claim_files
from kvwal.log.files.names import log_folder
from kvwal.ports.clock import SystemClock
from kvwal.ports.disk import OS_DISK
from kvwal.ports.processes import Child
from kvwal.store.sync import WritableStore
from kvwal.structures.facade import BusinessTransaction, Structures
from kvwal_archive.contents.collect import gc_contents
from kvwal_archive.errors import ArchiveError
from kvwal_archive.maintenance import compaction as rewrite
from kvwal_archive.objects import open_objects
from kvwal_archive.registry import registered
from tests.support.archive.archiver import PLACE
from tests.support.disk.faults import open_store

SETTINGS = kvwal.Settings(
    segment_bytes=64 << 10, overflow_bytes=30_000, archive_seconds=1e9, checkpoint_seconds=1e9, history_seconds=1e-9,
    gc_grace_seconds=1e-9, queue_memory=1, inline_bytes=60_000,
)  # fmt: skip
STAGES = range(1, 7)
LITTLE = (3, 4)
"""Stages that write so little that a checkpoint after them makes a delta, and merges it with the one before."""
LARGE = 17_000
"""Four of them, as one stage writes, are more than a segment: it rotates because it is full."""
BESIDE = 61_000
"""Above `inline_bytes`: the value stands beside the log."""
FAR_MS = 1 << 46
"""A moment at which everything is old enough to be rewritten, and to go."""
QUEUED = "key"
"""Its value is also put into a queue, with each change."""
WAITING, FINISHED = "waiting", "finished"
REPORT, FILE = "report", "file"
"""Two contents: the value of "key", and that of "larger" so often that it has a claim file of its own."""
TIMES = 100
HELD = 3
"""How many items stay in a queue."""
Model = dict[str, Any]
Changes = dict[str, Any]
"""One transaction: what it puts, and, as None, what it deletes."""
Tell = Callable[[str], None]


def transactions(generation: int, stage: int) -> Iterator[Changes]:
    """What a stage writes: enough for a full segment, or little; values that name the stage."""
    value = f"{generation}.{stage}"
    if stage in LITTLE:
        yield {"key": value, "all-0": None}
        return
    yield {"key": value}
    yield {f"all-{part}": value for part in range(3)}
    yield {"large": value.ljust(LARGE, ".")}
    yield {"larger": value.ljust(3 * LARGE, ".")}
    yield {"beside": value.ljust(BESIDE, ".")}
    yield {"key": None, f"kept-{stage}": value}


def apply(model: Model, changes: Changes) -> Model:
    """The model after a transaction. One that changes "key" changes contents and moves an item from queue to queue, too."""
    after = {**model, **changes}
    if "larger" in changes:
        after[FILE] = changes["larger"]
    if QUEUED in changes:
        after[REPORT] = changes[QUEUED]
        todo, done = model.get(WAITING, []), model.get(FINISHED, [])
        after[WAITING] = [*todo, changes[QUEUED]]
        if len(todo) >= HELD:
            after[WAITING] = after[WAITING][1:]
            after[FINISHED] = [*done[len(done) >= HELD :], todo[0]]
    return {key: value for key, value in after.items() if value is not None}


def held_by(store: kvwal.Store) -> Model:
    """What the map, the queues and the contents of an open store hold."""
    b = store.business("b")
    queues = {name: list(b.queue(name).browse()) for name in (WAITING, FINISHED)}
    contents = {name: b.content().get(name).decode() for name in b.content()}
    if FILE in contents:
        once = contents[FILE][: len(contents[FILE]) // TIMES]
        assert contents[FILE] == once * TIMES
        contents[FILE] = once
    return dict(b.map()) | {name: items for name, items in queues.items() if items} | contents


def in_log(store: kvwal.Store) -> Model:
    """What the map holds without the archive: all but the value that stands beside the log."""
    jobs = store.map("b")
    return {key: jobs[key] for key in jobs if key != "beside"}


def assert_nothing_is_left(store: kvwal.Store, folder: Path) -> None:
    """After an archiving and a checkpoint, each claim file beside the log has a name, and no name's file is elsewhere."""
    store.archive()
    store.checkpoint()
    contents = store.business("b").content()
    named = {claim_of(entry).file for name in contents if (entry := contents.entry(name)) is not None}
    values = [entry for key in store.map("b") if (entry := store.map("b")._find(key)) is not None]
    named |= {claim_of(entry).file for entry in values if has_claim(entry)}
    assert {file.name for file in claim_files(OS_DISK, folder)} <= named


class OneSection(SystemClock):
    """A clock whose claim files are all in one section: a life is the same each time, also in how many folders it makes."""

    def random_bits(self, bits: int) -> int:
        """See `Clock.random_bits`. The name of a claim file has 128."""
        drawn = super().random_bits(bits)
        return drawn & ((1 << 120) - 1) if bits == 128 else drawn


class Life:
    """One run. `tell` hears `begin` and `done` of every transaction, and the name of each stage."""

    def __init__(self, base: Path, generation: int, tell: Tell, start: Callable[[], Child]) -> None:
        """`start` makes the archiver's process."""
        self.base = base
        self.root = base / "root"
        self.archive = base / "archive"
        self._fresh = base / "restored"
        self._generation = generation
        self._tell = tell
        self._start = start

    def live(self) -> None:
        """All of it, from the state that is there."""
        if (self._fresh / "default" / "local").exists():
            shutil.rmtree(self._fresh)
        if self._was_lost():
            self._take_over()
        with self._open() as store:
            self._write(store, 1)
            self._ask("checkpoint", store.checkpoint)
            self._ask("archive", store.archive)
            self._write(store, 2)
            self._ask("archive", store.archive)
            self._ask("checkpoint", store.checkpoint)
            for stage in LITTLE:
                self._write(store, stage)
                self._ask("delta", store.checkpoint)
            self._ask("maintenance", lambda: store._run(store._engine.businesses["b"].maintenance._compact))
        self._compact()
        with self._open() as store:
            self._write(store, 5)
            self._ask("archive", store.archive)
        self._restore()
        self._lose()
        if self._was_lost():
            self._take_over()
        with self._open() as store:
            self._write(store, 6)

    def look(self) -> Model:
        """What a fresh open of the root finds, after a lost disk that of the take-over."""
        if self._was_lost():
            self._take_over()
        with self._open() as store:
            return held_by(store)

    def end(self) -> None:
        """A last opening, after which nothing may be left that has no name."""
        with self._open() as store:
            assert_nothing_is_left(store, log_folder(self.root, PLACE))

    @contextmanager
    def _open(self) -> Iterator[WritableStore]:
        self._tell("open")
        with open_store(
            self.root, clock=OneSection(), archive=self.archive, settings=SETTINGS, start_archiver=self._start
        ) as store:
            store.map("b")
            yield store
            self._tell("close")

    def _write(self, store: WritableStore, stage: int) -> None:
        self._tell("write")
        business = store.business("b")
        for changes in transactions(self._generation, stage):
            self._tell("begin")
            with business.transaction() as t:
                writing = t.map()
                for key, value in changes.items():
                    if value is None:
                        del writing[key]
                    else:
                        writing[key] = value
                if "larger" in changes:
                    t.content().put(FILE, changes["larger"].encode() * TIMES)
                if QUEUED in changes:
                    self._move(business, t, changes[QUEUED])
                    self._report(t, changes[QUEUED])
            self._tell("done")

    def _move(self, business: Structures, t: BusinessTransaction, value: str | None) -> None:
        """Put a value into one queue, and once that holds some take its first into the other one, which holds as many."""
        if len(business.queue(WAITING)) >= HELD:
            if len(business.queue(FINISHED)) >= HELD:
                t.queue(FINISHED).take(timeout=0)
            t.queue(FINISHED).put(t.queue(WAITING).take(timeout=0))
        t.queue(WAITING).put(value)

    def _report(self, t: BusinessTransaction, value: str | None) -> None:
        if value is None:
            t.content().delete(REPORT)
        else:
            t.content().put(REPORT, value.encode())

    def _ask(self, stage: str, job: Callable[[], None]) -> None:
        """A job of the archiver's process; should that die over it, once more, as the hint says."""
        self._tell(stage)
        try:
            job()
        except ArchiveError as error:
            if "process died" not in str(error):
                raise
            self._tell(f"{stage} again")
            job()

    def _compact(self) -> None:
        self._tell("rewrite")
        objects = open_objects(str(self.archive))
        rewrite.rewrite(objects, PLACE, now_ms=FAR_MS, history_ms=0, force=True)
        self._tell("gc")
        rewrite.gc(objects, PLACE, now_ms=FAR_MS, grace_ms=0)
        gc_contents(objects, *PLACE[:3], now_ms=FAR_MS, grace_ms=0)

    def _restore(self) -> None:
        """Into a new root, which must be what the old one is."""
        self._tell("restore")
        kvwal.restore(self.archive, self._fresh)
        with (
            kvwal.open(self._fresh, archive=self.archive, read_only=True) as restored,
            kvwal.open(self.root, archive=self.archive, read_only=True) as store,
        ):
            assert held_by(restored) == held_by(store)
        with kvwal.open(self._fresh, archive=None) as restored, kvwal.open(self.root, read_only=True) as store:
            assert in_log(restored) == in_log(store)

    def _lose(self) -> None:
        """The disk is gone, unless that fails. What it held is kept aside: a rename, so that a kill sees it whole or gone."""
        self._tell("lose")
        with suppress(OSError):
            os.rename(self.root, self.base / f"lost-{self._generation}")

    def _was_lost(self) -> bool:
        """Whether there is no log under the root, and the archive knows one."""
        if (self.root / "default" / "local").exists() or not any(self.base.glob("lost-*")):
            return False
        return bool(registered(open_objects(str(self.archive)), "default", "local"))

    def _take_over(self) -> None:
        self._tell("take over")
        kvwal.restore(self.archive, self.root, node="local", take_over=True)


def begin_again(base: Path) -> None:
    """Remove what a life has left."""
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(parents=True)
