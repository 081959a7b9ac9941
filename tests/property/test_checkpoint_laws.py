"""Whatever segments a checkpoint merges, and in however many turns, the snapshot holds the latest entry of each identity, and
every delete that may not go yet.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.reader import SnapshotReader, entry_decoder, log_files
from tests.support.faults import FakeClock
from tests.support.logs import header
from tests.support.power import MemoryDisk

FOLDER = Path("/disk/log")
CHANGE = st.tuples(st.integers(0, 5), st.booleans())
Identity = tuple[str, bytes]


def snapshot_of(disk: MemoryDisk) -> dict[Identity, tuple[int, bool]]:
    """What the newest snapshot holds: by identity, timestamp and whether it is a delete."""
    path = FOLDER / log_files(disk, FOLDER)[1][-1].name
    with disk.view(path) as buffer:
        entries = [entry for block in SnapshotReader(path, buffer).whole(entry_decoder()) for entry in block]
    assert [(e.key_class, e.key) for e in entries] == sorted({(e.key_class, e.key) for e in entries})
    return {(entry.key_class, entry.key): (entry.timestamp, entry.deleted) for entry in entries}


@given(
    segments=st.lists(st.lists(CHANGE, min_size=1, max_size=8), min_size=1, max_size=6),
    turns=st.sets(st.integers(0, 5)),
    passed=st.integers(0, 50),
)
def test_a_snapshot_holds_the_latest_of_each_and_the_deletes_that_may_not_go(
    segments: list[list[tuple[int, bool]]], turns: set[int], passed: int
) -> None:
    disk, clock = MemoryDisk(), FakeClock()
    disk.make_folders(FOLDER)
    appender = Appender(disk, clock, FOLDER, header(), Settings(), [])
    model: dict[Identity, tuple[int, bool]] = {}
    timestamp = 0
    for number, changes in enumerate(segments):
        for key, deleted in changes:
            timestamp += 1
            name = b"key-%d" % key
            value = (b"", "") if deleted else (b"v", "bytes")
            appender.append([encode_entries([Entry(name, "str", *value, deleted, timestamp)])], 1, sync=True)
            model["str", name] = (timestamp, deleted)
        appender.rotate()
        if number in turns or number == len(segments) - 1:
            checkpoint(disk, clock, FOLDER, appender.sealed, entry_decoder(), tombstones_before=passed)
            model = {identity: last for identity, last in model.items() if not (last[1] and last[0] <= passed)}
            assert snapshot_of(disk) == model
    appender.close(seal=True)
