"""A map with few changes fills the archive with few objects, and an embedded store keeps its interval all the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kvwal.config import Settings
from kvwal.entry import Entry
from kvwal.log.submission import Submission, size_of
from kvwal.store.engine import Engine
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects
from kvwal_archive.reader import live_objects
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeClock, make_options

EVERY = 10
INTERVALS = 20


class Written:
    """A business that gets one change an interval, and what the archive then has of it."""

    def __init__(self, folder: Path, *, archive_interval_factor: int, size: int = 10) -> None:
        self.folder = folder
        self.archive_interval_factor = archive_interval_factor
        self.size = size
        self.most_waiting = 0.0
        self.puts: set[str] = set()

    def run(self) -> Written:
        """For some intervals."""
        asyncio.run(self._run())
        return self

    async def _run(self) -> None:
        clock = FakeClock()
        options = make_options(
            self.folder / "root", clock=clock, archive=self.folder / "archive", start_archiver=lambda: InProcess(""),
            settings=Settings(archive_seconds=EVERY),
        )  # fmt: skip
        engine = Engine(options, own_loop=True, archive_interval_factor=lambda: self.archive_interval_factor)
        business = await engine.business("b")
        for number in range(INTERVALS):
            done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            entries = [Entry(b"%d" % number, "str", bytes(self.size), "bytes", False, 0)]
            await business.submit_soon(Submission(entries, size_of(entries), done))
            await done
            for _ in range(EVERY):
                clock.seconds += 1
                clock.ms += 1000
                await business.maintenance.tick()
                if business.maintenance._running is not None:
                    await business.maintenance._running
                self.most_waiting = max(self.most_waiting, business.maintenance.archive_lag_seconds())
            self.puts |= {path.name for path in (self.folder / "archive").rglob("*.parquet")}
        await engine.close(archive=False)

    @property
    def live(self) -> int:
        """Objects that a reader opens."""
        return len(live_objects(open_objects(str(self.folder / "archive")), Place("default", "local", "b", "local")))


def test_an_embedded_store_keeps_its_interval_and_its_objects_become_one_soon(tmp_path: Path) -> None:
    written = Written(tmp_path, archive_interval_factor=1).run()
    assert written.most_waiting <= EVERY + 2
    assert len(written.puts) >= INTERVALS - 2
    assert written.live <= 9


@pytest.mark.parametrize(("size", "waits"), [(10, True), (100_000, False)])
def test_where_others_hold_what_a_disk_has_only_small_segments_wait(tmp_path: Path, size: int, waits: bool) -> None:
    written = Written(tmp_path, archive_interval_factor=5, size=size).run()
    assert (written.most_waiting > 3 * EVERY) is waits
    assert written.most_waiting <= (5 if waits else 1) * EVERY + 2
    if waits:
        assert len(written.puts) <= INTERVALS // 5 + 2
