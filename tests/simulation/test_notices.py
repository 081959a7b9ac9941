"""A simulation that finds nothing may look for nothing: here the store is broken on purpose, and some seed must notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest

from kvwal.archiver.contents import Uploads
from kvwal.content.shared import SharedFiles
from kvwal.log.appender import Appender
from kvwal.log.files.segment import Segment
from kvwal.log.recovery import RecoveryTarget
from kvwal.log.submission import GroupView
from kvwal.log.unlocked.segment_keys import _SortedPlaces
from kvwal.log.writer import Writer
from kvwal.store.contents.care import ContentCare
from kvwal.store.maintenance import Maintenance
from kvwal_archive.maintenance.tombstones import TombstoneFilter
from tests.simulation.ledger import WatchedMemory
from tests.simulation.run import is_noticed
from tests.simulation.world import World


def no_sync(patch: pytest.MonkeyPatch) -> None:
    """A group is acknowledged before it is durable."""
    patch.setattr(Appender, "_sync", lambda appender: None)


def memory_first(patch: pytest.MonkeyPatch) -> None:
    """Memory changes, and readers see it, before the log does."""
    write, apply = Writer._write, WatchedMemory.apply
    early: list[Any] = []

    def write_later(writer: Writer, group: Any) -> None:
        writer._memory.apply(group.entries)
        early.append(group.entries)
        write(writer, group)

    def apply_once(memory: Any, entries: Any) -> None:
        if not any(entries is one for one in early):
            apply(memory, entries)

    patch.setattr(Writer, "_write", write_later)
    patch.setattr(WatchedMemory, "apply", apply_once)


def blind_conditions(patch: pytest.MonkeyPatch) -> None:
    """A condition does not see what stands before it in its group."""
    patch.setattr(GroupView, "add", lambda view, entries: None)


def forgets_deletes(patch: pytest.MonkeyPatch) -> None:
    """A recovery brings back what was deleted."""
    patch.setattr(WatchedMemory, "apply", _without_deletes(WatchedMemory.apply))


def _without_deletes(apply: Callable[..., None]) -> Callable[..., None]:
    def other(state: Any, entries: list[Any]) -> None:
        recovering = state._ledger is not None and state._ledger._found is not None
        apply(state, [entry for entry in entries if not (recovering and entry.deleted)])

    return other


def halves(patch: pytest.MonkeyPatch) -> None:
    """A recovery leaves out the last entry of what it reads."""
    patch.setattr(
        "kvwal.log.log.RecoveryTarget",
        lambda apply, clear: RecoveryTarget(lambda found: apply(found[:-1]), clear),
    )


def drops_early(patch: pytest.MonkeyPatch) -> None:
    """Segments go before a snapshot or the archive has what they hold."""

    async def drop(maintenance: Maintenance) -> None:
        await maintenance.log.drop(maintenance.log.appender.next_sequence)

    patch.setattr(Maintenance, "_drop", drop)


def names_early(patch: pytest.MonkeyPatch) -> None:
    """A segment gets its name before its header is durable."""
    patch.setattr(Segment, "datasync", lambda segment: None)


def confirms_blindly(patch: pytest.MonkeyPatch) -> None:
    """The archive says that it holds what was never put."""

    async def archive(maintenance: Maintenance) -> None:
        maintenance.progress.archived = maintenance.log.appender.next_sequence - 1

    patch.setattr(Maintenance, "_archive", archive)


def lets_deletes_go_early(patch: pytest.MonkeyPatch) -> None:
    """A rewrite leaves out every delete, also those that shadow an older put."""

    def without(self: TombstoneFilter, table: Any) -> Any:
        return table.filter(pc.invert(table.column("deleted")))

    patch.setattr(TombstoneFilter, "__call__", without)


def lets_puts_expire_early(patch: pytest.MonkeyPatch) -> None:
    """A rewrite leaves out what has not expired yet."""

    def without(self: TombstoneFilter, table: Any) -> Any:
        return table.filter(pc.equal(table.column("expires"), 0))

    patch.setattr(TombstoneFilter, "__call__", without)


def keeps_no_order(patch: pytest.MonkeyPatch) -> None:
    """Seals and blocks go to the disk, but the power cut of this world takes names that were synced."""
    cut = World.cut_power

    def worse(world: World, chance: Any) -> None:
        for path in sorted(world.machine.memory.seen)[-1:]:
            world.machine.memory.unlink(path)
            world.machine.memory.sync_folder(path.parent)
        cut(world, chance)

    patch.setattr(World, "cut_power", worse)


def names_unsynced_bytes(patch: pytest.MonkeyPatch) -> None:
    """A content is named before its bytes are durable."""

    def write(files: SharedFiles, file: Any, parts: Any) -> None:
        file.write_at(files._end, parts)
        files._end += sum(map(len, parts))

    patch.setattr(SharedFiles, "_write", write)


def collects_named_bytes(patch: pytest.MonkeyPatch) -> None:
    """The cleaner does not look for names in segments."""
    patch.setattr("kvwal.archiver.contents.claims_of_segments", lambda *given: iter(()))


def collects_nothing(patch: pytest.MonkeyPatch) -> None:
    """No bytes of contents ever go."""

    async def clean(care: ContentCare, candidates: Any) -> None:
        care._cleaned = candidates.changes

    patch.setattr(ContentCare, "clean", clean)


def archives_names_alone(patch: pytest.MonkeyPatch) -> None:
    """Entries go to the archive, and the bytes that they name do not."""
    patch.setattr(Uploads, "_put", lambda uploads, named: None)


def knows_blocks_that_were_cut(patch: pytest.MonkeyPatch) -> None:
    """A reader that stays open does not look whether the last block that it knows is still there."""
    patch.setattr("kvwal.log.unlocked.known._is_there", lambda reader, keys: True)


def knows_too_few_blocks(patch: pytest.MonkeyPatch) -> None:
    """A reader that stays open passes the first block that may have what it wants."""
    between = _SortedPlaces.between
    patch.setattr(_SortedPlaces, "between", lambda places, low, high: [*between(places, low, high)][1:])


FIRST = {lets_deletes_go_early: 20_035, lets_puts_expire_early: 22_050, knows_blocks_that_were_cut: 110}
"""Few seeds do what would show it: these begin close before one that does."""
BROKEN = [
    confirms_blindly, drops_early, forgets_deletes, halves, keeps_no_order, lets_deletes_go_early, lets_puts_expire_early,
    memory_first, names_early, blind_conditions, no_sync, names_unsynced_bytes, collects_named_bytes, collects_nothing,
    archives_names_alone, knows_blocks_that_were_cut, knows_too_few_blocks,
]  # fmt: skip


@pytest.mark.parametrize("breaks", BROKEN, ids=lambda breaks: breaks.__name__)
def test_a_broken_store_is_noticed(
    breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    assert is_noticed(FIRST.get(breaks, 30_000))
