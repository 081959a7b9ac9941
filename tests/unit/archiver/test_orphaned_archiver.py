"""An archiver that outlived its parent finishes a checkpoint while another process makes one, or recovers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from kvwal.log import recovery
from kvwal.log.checkpoint import checkpoint
from kvwal.log.reader import entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK, Buffer, File, OsDisk
from tests.support.log.logs import keys, recovered, segments, three_segments


class MeanwhileDisk(OsDisk):
    """A disk on which something happens when the first unfinished snapshot is begun."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile: Callable[[], object] | None = meanwhile

    def create(self, path: Path) -> File:
        if self._meanwhile is not None and ".snapshot." in path.name:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return super().create(path)


@pytest.mark.parametrize("orphans", [0, 1, 2])
@pytest.mark.parametrize("own", [0, 1, 2])
@pytest.mark.parametrize("further", [2, 3])
def test_an_orphaned_archiver_that_merges_other_parts_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: int, orphans: int, further: int
) -> None:
    """Each has seen a base and a delta, and removes what it has merged; the log has all of its entries after it.

    What the orphan removed can be merged no more: then the checkpoint fails, and the next one goes on from what is there.
    """
    writer = three_segments(tmp_path)

    def run(count: int, segments: int, disk: OsDisk = OS_DISK) -> None:
        monkeypatch.setattr("kvwal.log.checkpoint._worth_merging", lambda sizes, new: min(count, len(sizes)))
        checkpoint(disk, SYSTEM, tmp_path, writer.sealed[:segments], entry_decoder())

    run(0, 1)
    run(0, 2)
    writer.group(2)
    writer.appender.rotate()
    if own and orphans and further == 3:
        with pytest.raises(FileNotFoundError):
            run(own, 4, MeanwhileDisk(lambda: run(orphans, further)))
        run(own, 4)
    else:
        run(own, 4, MeanwhileDisk(lambda: run(orphans, further)))
    writer.close()
    for path in segments(tmp_path):
        path.unlink()
    assert sorted(set(recovered(tmp_path)[1])) == keys(11)


class WithAnOrphan(OsDisk):
    """A disk on which an archiver that outlived its parent finishes a checkpoint when the first snapshot is looked at."""

    def __init__(self, finish: Callable[[], object]) -> None:
        self._finish: Callable[[], object] | None = finish

    def view(self, path: Path) -> AbstractContextManager[Buffer]:
        if self._finish is not None and path.suffix == ".snapshot":
            finish, self._finish = self._finish, None
            finish()
        return super().view(path)


def test_a_snapshot_that_an_orphaned_archiver_replaces_meanwhile(tmp_path: Path) -> None:
    writer = three_segments(tmp_path)
    checkpoint(OS_DISK, SYSTEM, tmp_path, writer.sealed[:1], entry_decoder())
    writer.close()
    disk = WithAnOrphan(lambda: checkpoint(OS_DISK, SYSTEM, tmp_path, writer.sealed, entry_decoder()))
    seen: list[bytes] = []
    target = recovery.RecoveryTarget(lambda entries: seen.extend(entry.key for entry in entries), seen.clear)
    found = recovery.recover(disk, tmp_path, target, entry_decoder())
    assert found.snapshot is not None
    assert (found.snapshot.number, seen) == (9, keys(9))
