"""The jobs of one log's maintenance, tick by tick: none starves, failures back off, and writers are slowed when it lags."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal import aio
from kvwal.errors import CorruptLog
from kvwal.node.health.metrics import Metrics
from kvwal.store.maintenance import Maintenance
from kvwal.store.scheduling.backpressure import MOST_SHARE
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeClock, open_aio

SMALL = kvwal.Settings(segment_bytes=64 << 10, archive_seconds=1, checkpoint_seconds=2, checkpoint_bytes=256 << 10)
VALUE = "x" * 1000


class Ticking:
    """The business `b` of a store whose time is told by the test."""

    def __init__(self, store: aio.Store, clock: FakeClock, maintenance: Maintenance) -> None:
        self.store = store
        self.maintenance = maintenance
        self._clock = clock
        self._number = 0

    async def write(self, entries: int = 80) -> None:
        self._number += 1
        await self.store.map("b").put_many({f"{self._number}-{entry}": VALUE for entry in range(entries)})

    async def tick(self, seconds: float = 1.0) -> str:
        """The next tick, and the name of the job that it began and that has ended, "" if none did."""
        self._clock.seconds += seconds
        await self.maintenance.tick()
        running: Any = self.maintenance._running
        if running is None:
            return ""
        job = min(self.maintenance._schedule.timetable._rows.items(), key=lambda row: -row[1].began)[0]
        await running
        return job

    async def tick_while_busy(self) -> None:
        """The next tick. The job that is under way goes on."""
        self._clock.seconds += 1
        await self.maintenance.tick()

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = self.store.stats()["businesses"]["b"]
        return found


def ticking(tmp_path: Path, check: Callable[[Ticking], Awaitable[None]], *, archive: bool = True) -> None:
    """Run `check` on a store whose own timer does not run."""
    clock = FakeClock()

    async def main() -> None:
        async with open_aio(
            tmp_path / "root", clock=clock, archive=tmp_path / "archive" if archive else None, settings=SMALL,
            start_archiver=lambda: InProcess(""),
        ) as store:  # fmt: skip
            engine = store._engine_now()
            engine._ticker.cancel()
            await check(Ticking(store, clock, (await engine.business("b")).maintenance))

    asyncio.run(main())


def test_the_archive_does_not_starve_the_checkpoint(tmp_path: Path) -> None:
    """Each tick finds a sealed segment that the archive lacks; still the log behind the snapshot stays small."""

    async def check(b: Ticking) -> None:
        jobs = []
        for _ in range(30):
            await b.write()
            jobs.append(await b.tick())
            assert b.stats()["segments"] <= 12
        assert {"archive", "checkpoint"} <= set(jobs)
        for first in range(5, 25):
            assert "checkpoint" in jobs[first : first + 6], "its interval of 2 s, and one run of each other job"

    ticking(tmp_path, check)


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    path.write_bytes(data)


def test_a_job_that_meets_damage_backs_off_and_the_damage_is_told(tmp_path: Path) -> None:
    """In `stats` and metrics, also when a caller's own call met it, and until a try succeeds."""

    async def check(b: Ticking) -> None:
        await b.write()
        await b.store.checkpoint()
        assert b.stats()["damage"] is None
        (base,) = (tmp_path / "root" / "default" / "local" / "b" / "local").glob("*.snapshot")
        whole = base.read_bytes()
        flip_a_bit(base)
        tries = []
        for second in range(70):
            await b.write(400)
            if await b.tick() == "checkpoint":
                tries.append(second)
        assert [later - earlier for earlier, later in pairwise(tries)] == [1, 2, 4, 8, 16, 32]
        with pytest.raises(CorruptLog, match="snapshot"):
            await b.store.checkpoint()
        assert str(base) in b.stats()["damage"]
        assert b.stats()["damage"] == b.stats()["maintenance"]["checkpoint"]
        assert 'kvwal_damaged{business="b"} 1.0' in metrics(b)
        assert not list(base.parent.glob("*.snapshot.*"))
        base.write_bytes(whole)
        assert [await b.tick(), await b.tick()].count("checkpoint") == 1, "the call began the waits anew"
        assert b.stats()["damage"] is None
        assert 'kvwal_damaged{business="b"} 0.0' in metrics(b)

    ticking(tmp_path, check, archive=False)


def metrics(b: Ticking) -> str:
    return Metrics().page({}, b.store.stats()["businesses"], {}).decode()


def test_writers_are_slowed_when_maintenance_lags_and_no_longer_when_it_has_caught_up(tmp_path: Path) -> None:
    """A log of twice the window behind costs the writers most of their time. The archive is held up here by the test."""

    async def check(b: Ticking) -> None:
        turn = b.maintenance._turn
        await b.tick()
        async with turn:  # what every job waits for
            for _ in range(40):
                await b.write()
                await b.tick_while_busy()
            assert b.stats()["slowed"] == MOST_SHARE
            assert 'kvwal_slowed{business="b"} 0.9' in metrics(b)
            groups = b.stats()["groups"]
            await b.write(1)
            assert b.stats()["groups"] > groups, "slowed, not stopped"
            assert b.stats()["slowed_seconds"] > 0
        for _ in range(10):
            await b.tick()
        assert b.stats()["slowed"] == 0.0
        assert b.stats()["segments"] <= 12

    ticking(tmp_path, check)


def test_writers_are_not_slowed_for_an_archive_that_does_not_answer(tmp_path: Path) -> None:
    """A slower writer does not mend it. When it answers again, they are not slowed for what waited for it either."""

    async def check(b: Ticking) -> None:
        place = tmp_path / "archive" / "default" / "local" / "b"
        place.parent.mkdir(parents=True)
        place.touch()
        for _ in range(60):
            await b.write()
            await b.tick()
            assert b.stats()["slowed"] == 0.0
        assert "archive" in b.stats()["maintenance"]
        place.unlink()
        for _ in range(20):
            await b.write(1)
            await b.tick()
            assert b.stats()["slowed"] == 0.0
        assert b.stats()["archived_sequence"] >= 60 * 80

    ticking(tmp_path, check)
