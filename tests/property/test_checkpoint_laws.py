"""A checkpoint of any segments, in any number of turns, with any parts of the snapshot, holds the latest
entry of each identity, and every delete that may not go yet.
"""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries, make_entry
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import Tombstones, checkpoint
from kvwal.log.files.snapshot_reader import open_snapshot
from kvwal.log.reader import entry_decoder, log_files
from kvwal.log.recovery import RecoveryTarget, recover
from tests.support.disk.faults import FakeClock
from tests.support.disk.power import MemoryDisk
from tests.support.log.logs import header
from tests.support.log.shapes import Shaped, shapes

FOLDER = Path("/disk/log")
CHANGE = st.tuples(st.integers(0, 5), st.booleans())
Identity = tuple[str, bytes]
Model = dict[Identity, tuple[int, bool]]
ALL = 9
"""As many parts as there are go into the new one."""


def snapshot_of(disk: MemoryDisk) -> Model:
    """What the newest snapshot holds: by identity, timestamp and whether it is a delete. Key by key it is the same."""
    decode = entry_decoder()
    snapshot = open_snapshot(disk, FOLDER, log_files(disk, FOLDER)[1])
    assert snapshot is not None
    entries = [entry for block in snapshot.whole(decode) for entry in block]
    identities = [(entry.key_class, entry.key) for entry in entries]
    assert identities == sorted(set(identities))
    for entry in entries:
        found = snapshot.find(decode, (entry.key_class, entry.key))
        assert found is not None
        assert found.public() == entry.public()
    return {(entry.key_class, entry.key): (entry.timestamp, entry.deleted) for entry in entries}


def recovered(disk: MemoryDisk) -> Model:
    """What an open finds."""
    entries: list[Entry] = []
    recover(disk, FOLDER, RecoveryTarget(entries.extend, entries.clear), entry_decoder())
    return {(entry.key_class, entry.key): (entry.timestamp, entry.deleted) for entry in entries}


def living(model: Model) -> Model:
    return {identity: last for identity, last in model.items() if not last[1]}


@given(
    segments=st.lists(st.lists(CHANGE, min_size=1, max_size=8), min_size=1, max_size=8),
    turns=st.dictionaries(st.integers(0, 7), st.integers(0, 4)),
    passed=st.integers(0, 50),
    held=st.sampled_from([1, 2, 3, 1 << 16]),
)
@example(
    segments=[[(0, False), (1, False)], [(0, True)]], turns={0: 0, 1: 0}, passed=50, held=1
)  # a delta with a delete
def test_a_snapshot_holds_the_latest_of_each_and_the_deletes_that_may_not_go(
    segments: list[list[tuple[int, bool]]], turns: dict[int, int], passed: int, held: int
) -> None:
    """`turns` says after which segments there is a checkpoint, and how many parts go into each; `held`, how many entries of the
    segments are objects at a time."""
    disk, clock = MemoryDisk(), FakeClock()
    disk.make_folders(FOLDER)
    appender = Appender(disk, clock, FOLDER, header(), Settings(), [])
    model: Model = {}
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
            merging = turns.get(number, ALL)
            with (
                patch("kvwal.log.checkpoint._worth_merging", lambda sizes, new, most=merging: min(most, len(sizes))),
                patch("kvwal.log.latest_entries.RUN_ENTRIES", held),
            ):
                checkpoint(disk, clock, FOLDER, appender.sealed, entry_decoder(), tombstones=Tombstones(passed))
            base = not any("-" in file.name for file in log_files(disk, FOLDER)[1])
            needed = {identity: last for identity, last in model.items() if not (last[1] and last[0] <= passed)}
            found = snapshot_of(disk)
            assert needed.items() <= found.items() <= model.items()
            assert found == needed or not base
    appender.close(seal=True)
    for segment in appender.sealed[:-1]:
        disk.unlink(segment.path)
    assert living(recovered(disk)) == living(model)


@settings(max_examples=15, deadline=None)
@given(shaped=shapes(400), segment=st.integers(1, 150), held=st.sampled_from([1, 50, 1 << 16]))
def test_a_checkpoint_of_data_of_any_shape_holds_the_latest_of_each(shaped: Shaped, segment: int, held: int) -> None:
    """A checkpoint after every other segment of about `segment` changes."""
    disk, clock = MemoryDisk(), FakeClock()
    disk.make_folders(FOLDER)
    appender = Appender(disk, clock, FOLDER, header(), Settings(), [])
    model: Model = {}
    changes = list(enumerate(shaped.changes, 1))
    parts = [changes[begin : begin + segment] for begin in range(0, len(changes), segment)]
    for number, part in enumerate(parts):
        entries = []
        for timestamp, (key, value, ttl_ms) in part:
            stored = (b"", "") if value is None else (value, "bytes")
            entries.append(make_entry(key.encode(), "str", *stored, value is None, timestamp, ttl_ms))
            model["str", key.encode()] = (timestamp, value is None)
        appender.append([encode_entries(entries)], len(entries), sync=True)
        appender.rotate()
        if number % 2 or number == len(parts) - 1:
            with patch("kvwal.log.latest_entries.RUN_ENTRIES", held):
                checkpoint(disk, clock, FOLDER, appender.sealed, entry_decoder(), tombstones=Tombstones(0))
            assert snapshot_of(disk) == model
    appender.close(seal=True)
    for sealed in appender.sealed[:-1]:
        disk.unlink(sealed.path)
    assert recovered(disk) == model
