"""Programs that use one business on a disk that forgets, one after the other: each may be killed, and the power be cut.

Under every flush policy, all that was written is durable after a rotation, a checkpoint, an archive run and a close.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from kvwal.archiver.jobs import decode_job, encode
from kvwal.archiver.work import answer
from kvwal.config import Flush, Settings
from kvwal.errors import CommitUnknown, KvwalError
from kvwal.ports.clock import Clock
from kvwal.store.sync import WritableStore
from kvwal.structures.map.map import Map
from tests.support.disk.cuts import ROOT, AcknowledgedWrites, Cuts, Model
from tests.support.disk.faults import FakeClock, make_options
from tests.support.disk.power import MemoryDisk

SETTINGS = Settings(segment_bytes=64 << 10, overflow_bytes=3000, reserve_bytes=0)
DRAWS = 1000
"""No program draws so many numbers: each has its own."""


class OnDisk:
    """The archiver without its process, on another disk than the machine's."""

    def __init__(self, disk: MemoryDisk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock

    def ask(self, line: bytes) -> bytes:
        return encode(answer(decode_job(line), self._disk, self._clock))

    def close(self) -> None:
        """Nothing to end."""


class Life:
    """A store that is opened, written to one call at a time, and closed; what it tells goes into `told`.

    Opening it tells what it found. `number` is that of the program, so that no two draw the same salts.
    """

    def __init__(
        self, disk: MemoryDisk, told: AcknowledgedWrites, *, number: int = 1, flush: Flush = "sync", archive: Path | None = None,
        cuts: Cuts | None = None, settings: Settings = SETTINGS,
    ) -> None:  # fmt: skip
        clock = FakeClock()
        clock.drawn = number * DRAWS
        self.disk = disk
        self.told = told
        self.flush = flush
        self.cuts = cuts
        self.b: Map
        given = {"flush": flush, "archive": archive, "start_archiver": lambda: OnDisk(disk, clock)}
        self.store = WritableStore(make_options(ROOT, settings=settings, disk=disk, clock=clock, **given))

    def open(self) -> None:
        """Recover the log, and tell what is in it."""
        self.b = self.store.map("b")
        self.told.take(dict(self.b))
        self._moment()

    def put(self, force: bool = False, **values: Any) -> None:
        """Values of one transaction; None deletes; `force` makes it durable under every policy. Of a write that raised only the
        outcome of a `CommitUnknown` is unknown.
        """
        state: Model = {key: value for key, value in (self.told.states[-1] | values).items() if value is not None}
        self.told.begin(state)
        try:
            self._put(values, force)
        except CommitUnknown:
            raise
        except KvwalError:
            self.told.states.pop()
            raise
        assert dict(self.b) == state
        self._moment(durable=force or self.flush == "sync")

    def _put(self, values: Model, force: bool) -> None:
        if force:
            self.b.put_many(values, sync=True)
            return
        with self.b.transaction() as transaction:
            for key, value in values.items():
                if value is None:
                    del transaction[key]
                else:
                    transaction[key] = value

    def rotate(self) -> None:
        """Seal the segment."""
        self.store._run(self.store._engine.businesses["b"].log.rotate)
        self._moment()

    def checkpoint(self) -> None:
        """Make a snapshot of what there is, and drop what it covers."""
        self.store.checkpoint()
        self._moment()

    def archive(self) -> None:
        """Archive what there is, and drop what is covered too."""
        self.store.archive()
        self._moment()

    def close(self) -> None:
        """End as a program should: no file stays open."""
        self.store.close()
        assert not self.disk.limits.held, self.disk.limits.held
        self._moment()

    def end(self) -> None:
        """End somehow: a log that has failed says so, and is left."""
        with suppress(KvwalError):
            self.store.close()

    def _moment(self, *, durable: bool = True) -> None:
        if durable:
            self.told.acknowledge()
        if self.cuts is not None:
            self.cuts.add(self.disk)
