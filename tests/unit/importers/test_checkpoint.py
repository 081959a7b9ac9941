"""The checkpoint of a channel with several data folders: an event whose take is in a deleted log does not come back."""

from __future__ import annotations

import hashlib
import shutil
import struct
from pathlib import Path

import pytest

from kvwal.importers.flume.checkpoint import Checkpoint, checkpoint_in
from kvwal.importers.flume.folders import log_paths
from kvwal.importers.flume.records import COMMIT
from kvwal.importers.flume.replay import QueuedEvent, Replay, split
from kvwal.ports.disk import OS_DISK
from tests.support.java.golden_logs import Found
from tests.support.java.logs import GOLDEN

CAPACITY = 50
LATER = 1 << 62
"""A write order behind all records of the golden log."""


def queued(folder: Path, checkpoint: Checkpoint | None = None) -> list[QueuedEvent]:
    return list(Replay(OS_DISK, log_paths(OS_DISK, folder), Found(), checkpoint=checkpoint))


def place(event: QueuedEvent) -> int:
    return event.number << 32 | event.offset


def tag(number: int, form: str, value: int) -> bytes:
    return bytes([number << 3 | (5 if form == "i" else 1)]) + struct.pack(f"<{form}", value)


def write(folder: Path, order: int, places: list[int], *, head: int = 45, in_flight: list[int] | None = None) -> None:
    """A checkpoint as Flume writes it: a ring of places behind a header, and the takes in flight with their checksum."""
    folder.mkdir()
    meta = tag(1, "i", 3) + tag(2, "q", order) + tag(3, "i", len(places)) + tag(4, "i", head)
    (folder / "checkpoint.meta").write_bytes(bytes([len(meta)]) + meta)
    longs = [3, order, 0, 0, 0, *[0] * 1024, *[0] * CAPACITY]
    for index, each in enumerate(places):
        longs[1029 + (head + index) % CAPACITY] = each
    (folder / "checkpoint").write_bytes(struct.pack(f">{len(longs)}q", *longs))
    if in_flight is not None:
        numbers = struct.pack(f">{len(in_flight) + 4}q", 7, len(in_flight), *in_flight, 0, 0)
        (folder / "inflighttakes").write_bytes(hashlib.md5(numbers).digest() + numbers)


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "flume", tmp_path / "channel"))


def test_what_a_checkpoint_does_not_have_is_gone(channel: Path) -> None:
    events = queued(channel)
    kept = events[3:]
    write(
        channel / "checkpoint", LATER, [place(each) for each in kept[2:]], in_flight=[place(each) for each in kept[:2]]
    )
    found = checkpoint_in(OS_DISK, channel)
    assert found == Checkpoint(LATER, {place(each) for each in kept})
    assert queued(channel, found) == kept


def test_what_was_committed_after_the_checkpoint_stays(channel: Path) -> None:
    events = queued(channel)
    write(channel / "checkpoint", events[0].order - 1, [])
    assert queued(channel, checkpoint_in(OS_DISK, channel)) == events
    assert COMMIT == 4


def test_a_checkpoint_that_names_what_is_no_put_is_not_believed(channel: Path) -> None:
    events = queued(channel)
    places = [place(each) for each in events[3:]]
    for wrong in (places[0] + 1, places[0] ^ 1 << 40, -1):
        assert split(wrong) != split(places[0])
        assert queued(channel, Checkpoint(LATER, {*places[1:], wrong})) == events


@pytest.mark.parametrize("cut", ["marker", "meta", "digest", "short", "order"])
def test_a_checkpoint_that_is_not_complete_is_none(channel: Path, cut: str) -> None:
    folder = channel / "checkpoint"
    write(folder, LATER, [place(each) for each in queued(channel)], in_flight=[])
    file = {"meta": "checkpoint.meta", "digest": "inflighttakes"}.get(cut, "checkpoint")
    data = bytearray((folder / file).read_bytes())
    if cut in ("marker", "order"):
        data[8 * (5 if cut == "marker" else 2) - 1] ^= 1
    else:
        data = data[:5] if cut != "digest" else data[:-1] + b"\x01"
    (folder / file).write_bytes(data)
    assert checkpoint_in(OS_DISK, channel) is None


def test_a_channel_without_a_checkpoint_has_none(channel: Path) -> None:
    assert checkpoint_in(OS_DISK, channel) is None
