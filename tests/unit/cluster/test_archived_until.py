"""What a member tells the others of its archive: every entry up to that timestamp is there, and the rest is at its end only."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.node.local_logs import ArchivedUntil
from kvwal.ports.clock import SYSTEM
from kvwal.store.engine import Engine
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import make_options
from tests.support.log.submissions import entry, put

MINUTE_MS = 60_000


def test_it_comes_to_an_entry_when_the_archive_has_it_and_never_goes_back(tmp_path: Path) -> None:
    async def main() -> None:
        options = make_options(tmp_path / "root", archive=tmp_path / "archive", start_archiver=lambda: InProcess(""))
        engine = Engine(options, own_loop=True)
        told = ArchivedUntil(engine)
        first = await put(await engine.business("jobs"), entry("a"))
        assert 0 <= told(SYSTEM.wall_ms()) < first
        business = engine.businesses["jobs"]
        business.maintenance.progress.note(1, engine.options.clock.elapsed() - 3600.0)
        assert told(SYSTEM.wall_ms() + MINUTE_MS) < first
        await business.maintenance.archive()
        later = told(SYSTEM.wall_ms() + MINUTE_MS)
        assert first < later < SYSTEM.wall_ms() + MINUTE_MS << TIMESTAMP_SHIFT
        second = await put(business, entry("b"))
        assert told(SYSTEM.wall_ms()) == later  # the clock went back, and the tail may not be measured yet
        assert second > first
        await engine.close(archive=False)

    asyncio.run(main())


def test_a_log_of_which_the_archive_was_not_asked_says_nothing(tmp_path: Path) -> None:
    async def main(*, is_new: bool) -> int:
        options = make_options(tmp_path / "root", archive=tmp_path / "archive", start_archiver=lambda: InProcess(""))
        engine = Engine(options, own_loop=True)
        business = await engine.business("jobs")
        if is_new:
            await put(business, entry("a"))
        told = ArchivedUntil(engine)(SYSTEM.wall_ms())
        await engine.close(archive=False)
        return told

    asyncio.run(main(is_new=True))
    assert asyncio.run(main(is_new=False)) == 0
