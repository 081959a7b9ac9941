"""Every power cut of scripts that put, replace, take and delete large values: each entry that is found has all of its bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kvwal.config import Flush
from kvwal.content import files, own_file, shared, writer
from kvwal.content.claim import claim_of, has_claim
from kvwal.content.files import ContentFiles
from tests.support.disk import lives
from tests.support.disk.cuts import AcknowledgedWrites, Cuts
from tests.support.disk.lives import Life
from tests.support.disk.power import MemoryDisk

SETTINGS = msgspec.structs.replace(lives.SETTINGS, inline_bytes=100)
SMALL, LARGE, HUGE = "small", b"large" * 30, b"huge" * 300
"""One stays in the log, one goes into a shared claim file, and one into a file of its own."""


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is megabytes elsewhere is some sectors here, so that all cuts can be tried."""
    for module in (files, writer):
        monkeypatch.setattr(module, "SHARED_BYTES", 1000)
    monkeypatch.setattr(writer, "STEP_BYTES", 700)
    monkeypatch.setattr(shared, "FILE_BYTES", 300)
    monkeypatch.setattr(shared, "_LEAST_AHEAD", 512)
    monkeypatch.setattr(own_file, "_MOST_AHEAD", 512)


def files_of(life: Life) -> ContentFiles:
    return life.store._engine.businesses["b"].contents.files


def puts(life: Life) -> None:
    life.put(a=LARGE)
    life.put(b=HUGE)
    life.put(a=SMALL, c=LARGE[1:], d=HUGE[1:], e=LARGE[2:])
    life.put(b=None)


def touches(life: Life) -> None:
    """The value is kept by another entry than the one that wrote it."""
    life.put(a=LARGE)
    files_of(life).seal()
    assert life.b.touch("a", None)
    for _ in range(3):
        life.checkpoint()
    life.put(a=HUGE)


def cleans(life: Life) -> None:
    """What nothing names goes with a checkpoint, and what is named stays."""
    life.put(a=HUGE, b=LARGE, c=SMALL)
    life.put(a=LARGE[5:])
    for _ in range(2):
        life.checkpoint()
    life.put(b=None)
    for _ in range(3):
        life.checkpoint()
    named = {claim_of(entry).file for key in life.b if has_claim(entry := _stored(life, key))}
    there = {path.name for path in life.disk.seen if "content" in path.parts}
    assert there <= named | set(files_of(life)._unsettled), "bytes without a name"


def _stored(life: Life, key: Any) -> Any:
    return life.b._find(key)


SCRIPTS: list[tuple[Callable[[Life], None], Flush]] = [
    (puts, "sync"),
    (puts, "os"),
    (touches, "sync"),
    (cleans, "sync"),
]


@pytest.mark.long
@pytest.mark.parametrize(("script", "flush"), SCRIPTS, ids=lambda given: getattr(given, "__name__", str(given)[:8]))
def test_every_cut_of_a_script_with_large_values(script: Callable[[Life], None], flush: Flush) -> None:
    told, disk = AcknowledgedWrites(), MemoryDisk()
    cuts = Cuts(told)
    cuts.watch(disk)
    for number in (1, 2):
        life = Life(disk, told, number=number, flush=flush, cuts=cuts, settings=SETTINGS)
        life.open()
        script(life)
        life.close()
    print(cuts.check())
