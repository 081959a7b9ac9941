"""What recovery passes, and what is read of it later, are together what the log holds: of any entries, blocks and checkpoints."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.key_class import is_of_content
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.ranges.stored_entries import StoredEntries
from kvwal.log.reader import entry_decoder
from kvwal.log.recovery import RecoveryTarget, recover
from tests.support.disk.faults import FakeClock
from tests.support.disk.power import MemoryDisk
from tests.support.log.logs import header

FOLDER = Path("/disk/log")
CLASSES = [
    "bytes", "content", "content/a:str", "content/b/c:str", "content0", "content:str", "content;", "contents/a:str",
    "map/content:str", "queue:_item", "str",
]  # fmt: skip
CHANGE = st.tuples(st.sampled_from(CLASSES), st.integers(0, 30), st.booleans())
Model = dict[tuple[str, bytes], int]


def latest(entries: list[Entry]) -> Model:
    """The timestamps of what is there in the end."""
    last = {(entry.key_class, entry.key): entry for entry in entries}
    return {identity: entry.timestamp for identity, entry in last.items() if not entry.deleted}


@given(
    segments=st.lists(st.lists(CHANGE, min_size=1, max_size=40), min_size=1, max_size=4),
    checkpoints=st.sets(st.integers(0, 3)),
    rows=st.integers(1, 6),
    least=st.sampled_from([1, 1000, 1 << 20]),
)
def test_what_is_passed_and_what_is_read_later_are_all(
    segments: list[list[tuple[str, int, bool]]], checkpoints: set[int], rows: int, least: int
) -> None:
    disk, clock = MemoryDisk(), FakeClock()
    disk.make_folders(FOLDER)
    appender = Appender(disk, clock, FOLDER, header(), Settings(), [])
    written: list[Entry] = []
    with (
        patch("kvwal.log.files.snapshot.BLOCK_ENTRIES", rows),
        patch("kvwal.log.ranges.passed_blocks.LEAST_BYTES", least),
    ):
        for turn, changes in enumerate(segments):
            entries = [
                Entry(b"%02d" % key, key_class, b"" if deleted else b"v", "bytes", deleted, len(written) + at)
                for at, (key_class, key, deleted) in enumerate(changes, 1)
            ]  # fmt: skip
            written += entries
            appender.append([encode_entries(entries)], len(entries), sync=True)
            appender.rotate()
            if turn in checkpoints:
                checkpoint(disk, clock, FOLDER, appender.sealed, entry_decoder())
                while appender.sealed:
                    disk.unlink(appender.sealed.pop().path)
        appender.close(seal=False)
        applied: list[Entry] = []
        passed: list[bool] = []
        target = RecoveryTarget(applied.extend, applied.clear, lambda: passed.append(True))
        recover(disk, FOLDER, target, entry_decoder())
        later = [
            entry for entries in StoredEntries(disk, clock, FOLDER, entry_decoder()).contents() for entry in entries
        ]
    contents = {identity: at for identity, at in latest(written).items() if is_of_content(identity[0])}
    assert latest([entry for entry in applied if not is_of_content(entry.key_class)]) == {
        identity: at for identity, at in latest(written).items() if identity not in contents
    }
    assert latest(later) == contents
    assert all(is_of_content(entry.key_class) for entry in later)
    if not passed:
        assert latest([entry for entry in applied if is_of_content(entry.key_class)]) == contents
