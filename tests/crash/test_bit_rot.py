"""Bits that flip on a disk or in a bucket: never a wrong or a missing value without an error or a reported repair.

A flip may change nothing that is read (zeros after a seal, stale bytes of a recycled file, an object that another one
supersedes); then every value is right. Of a log that was not closed, a flip in the last group is cut as a crash's trace, and
said: `torn` in the stats, and the evidence kept. Of each change `kvwal log verify` and `kvwal archive verify`
find.

KVWAL_SEED=N draws other flips.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvwal.entry import Entry
from kvwal.history.reads.tail_reader import read_local
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.names import OVERFLOW, log_folder
from kvwal.log.reader import entry_decoder
from kvwal.log.recovery import RecoveryTarget, recover
from kvwal.ports.clock import SYSTEM
from kvwal.scrub.inspect import examine
from tests.support.disk import rot
from tests.support.disk.rot import Built, ReadAnswers, RottenDisk, tried
from tests.support.log.logs import PLACE, Writer

SEED = int(os.environ.get("KVWAL_SEED", "1"))
FLIPS = 1000
SAMPLE = 200
DEEP_EVERY = 4
ROOT = Path("/disk")
FOLDER = log_folder(ROOT, PLACE)
DECODE = entry_decoder()
LOUD, CUT, RIGHT = "an error", "a reported cut", "every value right"


class Flip(NamedTuple):
    """One bit of one file."""

    path: Path
    at: int
    bit: int

    def of(self, data: bytes) -> bytes:
        """The file with the bit flipped."""
        changed = bytearray(data)
        changed[self.at] ^= 1 << self.bit
        return bytes(changed)


class Expected(NamedTuple):
    """What every way of reading says as long as nothing is flipped; `cut` is what may be said of a cut `jobs`."""

    logs: dict[str, ReadAnswers]
    cut: ReadAnswers
    pasts: dict[str, dict[str, bytes]]
    merges: dict[str, list[Any]]
    restored: ReadAnswers


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return rot.build(tmp_path_factory.mktemp("rot"), SEED)


@pytest.fixture(scope="module")
def expected(built: Built) -> Expected:
    """Read once, and compared with the dicts that the businesses should be."""
    disk = RottenDisk(built.files)
    logs = {name: rot.read_unlocked(built, disk, name)[0] for name in built.models}
    pasts = {name: rot.read_past(built, disk, name) for name in built.models}
    assert {name: answers["scan"] for name, answers in logs.items()} == built.models
    assert pasts["jobs"] == built.cut
    cut = {"scan": built.cut, "history": logs["jobs"]["history"] | {"last": []}}
    merges = {name: rot.read_archive(built, name) for name in ("jobs", "old")}
    restored = rot.restore_all(built)
    assert restored["old"] == built.models["old"]
    return Expected(logs, cut, pasts, merges, restored)


def judge(answer: tuple[str, Any], right: Any, cut: Any = None, torn: str = "") -> str:
    """What became of the values; a value that is none of the three is silent damage."""
    said, found = answer
    if said == "error":
        return LOUD
    if found == right:
        return RIGHT
    return CUT if torn and found == cut else "SILENT"


def in_the_log(built: Built, expected: Expected, flip: Flip, *, deep: bool) -> tuple[set[str], bool]:
    """What the readers and the writer of a log make of a flip, and whether verify finds it."""
    business = rot.business_of(built, flip.path)
    files = {**built.files, flip.path: flip.of(built.files[flip.path])}
    cut = expected.cut if business == "jobs" else None
    outcomes = set()
    for read in (rot.read_unlocked, rot.read_opened):
        said, found = tried(partial(read, built, RottenDisk(files), business))
        answers, torn = found if said == "answer" else (found, "")
        outcomes.add(judge((said, answers), expected.logs[business], cut, torn))
    if deep:
        past = tried(partial(rot.read_past, built, RottenDisk(files), business))
        outcomes.add(judge(past, expected.pasts[business]))
    return outcomes, bool(rot.verify_log(built, RottenDisk(files), business))


@contextmanager
def flipped(flip: Flip) -> Iterator[None]:
    """The bit is flipped in the file itself."""
    whole = flip.path.read_bytes()
    flip.path.write_bytes(flip.of(whole))
    try:
        yield
    finally:
        flip.path.write_bytes(whole)


def in_the_archive(built: Built, expected: Expected, flip: Flip, *, deep: bool) -> tuple[set[str], bool]:
    """What readers of the archive, with a log beside it or alone, make of a flip, and whether verify finds it."""
    business = rot.business_of(built, flip.path)
    disk = RottenDisk(built.files)
    with flipped(flip):
        outcomes = {judge(tried(lambda: rot.read_unlocked(built, disk, business)[0]), expected.logs[business])}
        if deep:
            outcomes.add(judge(tried(lambda: rot.read_past(built, disk, business)), expected.pasts[business]))
            outcomes.add(judge(tried(lambda: rot.read_archive(built, business)), expected.merges[business]))
            outcomes.add(judge(tried(lambda: rot.restore_all(built)), expected.restored))
        return outcomes, bool(rot.verify_archive(built, business))


def check(flip: Flip, outcomes: set[str], found: bool) -> None:
    """Nothing is silent, and verify finds all damage that matters."""
    where = f"{flip} (KVWAL_SEED={SEED})"
    assert outcomes <= {LOUD, CUT, RIGHT}, f"{where}: {outcomes}"
    assert found or outcomes == {RIGHT}, f"{where}: verify does not find what ends as {outcomes}"


def random_flip(chance: random.Random, built: Built, path: Path) -> Flip:
    """A bit of the file; where it has blocks, more often one of its header, of a block's head, or of its last block."""
    data = built.files.get(path) or path.read_bytes()
    places = range(len(data))
    if path.suffix in (".wal", ".snapshot") or path.parent.name == OVERFLOW:
        found = rot.heads(data, snapshot=path.suffix == ".snapshot")
        places = chance.choice([places, found[0], found[-1], chance.choice(found)])
    return Flip(path, chance.choice(places), chance.randrange(8))


@pytest.mark.long
@pytest.mark.loop
def test_a_thousand_flips_over_every_kind_of_file(built: Built, expected: Expected, whole: bool) -> None:
    chance = random.Random(SEED)
    kinds: dict[str, list[Path]] = {}
    for path in (*built.files, *(path for path in built.archive.rglob("*") if path.is_file())):
        if path.stat().st_size == 0:  # the file of the locks: it has no bit to flip
            continue
        kinds.setdefault(rot.kind_of(built, path), []).append(path)
    assert len(kinds) == 11
    counts: Counter[tuple[str, str]] = Counter()
    for number in range(FLIPS if whole else SAMPLE):
        kind = sorted(kinds)[number % len(kinds)]
        flip = random_flip(chance, built, chance.choice(kinds[kind]))
        deep = number // len(kinds) % DEEP_EVERY == 0
        if built.archive in flip.path.parents:
            outcomes, found = in_the_archive(built, expected, flip, deep=deep)
        else:
            outcomes, found = in_the_log(built, expected, flip, deep=deep)
        check(flip, outcomes, found)
        counts[kind, next(outcome for outcome in (LOUD, CUT, RIGHT) if outcome in outcomes)] += 1
        counts[kind, "found by verify"] += found
    tell(counts)
    if not whole:  # of so few flips of a kind, all may miss what matters
        return
    for kind in (
        "sealed segment",
        "last segment, closed",
        "snapshot",
        "overflow file",
        "object",
        "object with a horizon",
        "registration",
    ):
        assert counts[kind, LOUD], kind
    assert counts["last segment, open", CUT]


def tell(counts: Counter[tuple[str, str]]) -> None:
    """The counts, by kind of file and outcome."""
    columns = (LOUD, CUT, RIGHT, "found by verify")
    print(f"\n{'':28}" + "".join(f"{column:>20}" for column in columns))
    for kind in sorted({kind for kind, _ in counts}):
        print(f"{kind:28}" + "".join(f"{counts[kind, column]:20}" for column in columns))


def small_log() -> dict[Path, bytes]:
    """A log with a snapshot, a sealed segment under it, one after it, and an open one of three groups."""
    disk = RottenDisk()
    writer = Writer(FOLDER, disk=disk)
    for _ in range(2):
        writer.group(2, 1)
        writer.appender.rotate()
    checkpoint(disk, SYSTEM, FOLDER, list(writer.sealed), DECODE)
    writer.group(3)
    writer.appender.rotate()
    for _ in range(3):
        writer.group(1)
    writer.crash()
    return {path: bytes(content.seen[:1024]) for path, content in disk.seen.items()}


def recovered(files: dict[Path, bytes]) -> tuple[list[bytes], bool]:
    """The keys that recovery finds, and whether it says that it cut something."""
    entries: list[Entry] = []
    found = recover(RottenDisk(files), FOLDER, RecoveryTarget(entries.extend, entries.clear), DECODE)
    return sorted({entry.key for entry in entries}), found.torn is not None


def read(disk: RottenDisk) -> tuple[list[bytes], bool]:
    """The keys that a reader without the lock finds, and whether it says that something is torn."""
    found = read_local(disk, ROOT, PLACE)
    return sorted({entry.key for entry in (*found.snapshot, *found.tail.entries)}), found.torn is not None


@pytest.mark.loop
def test_every_bit_of_every_header_head_and_seal(whole: bool) -> None:
    """Few rounds are one bit of each byte."""
    files, chance = small_log(), random.Random(SEED)
    every, cut = (recovered(files)[0][:count] for count in (12, 11))
    assert len(every) == 12
    counts: Counter[tuple[str, str]] = Counter()
    for path, data in files.items():
        found = rot.heads(data, snapshot=path.suffix == ".snapshot")
        for flip in (
            Flip(path, at, bit)
            for part in found
            for at in part
            for bit in (range(8) if whole else [chance.randrange(8)])
        ):
            changed = {**files, path: flip.of(data)}
            disk = RottenDisk(changed)
            answers = [tried(partial(recovered, changed)), tried(partial(read, disk))]
            outcomes = {named(answer, every, cut) for answer in answers}
            problems = [file for file in examine(disk, ROOT, PLACE) if file.problem or file.state == "torn"]
            check(flip, outcomes, bool(problems))
            counts[path.name, "found by verify"] += bool(problems)
            counts[path.name, next(outcome for outcome in (LOUD, CUT, RIGHT) if outcome in outcomes)] += 1
    tell(counts)
    assert sum(count for (_, outcome), count in counts.items() if outcome != "found by verify") > (
        5000 if whole else 600
    )


def named(answer: tuple[str, Any], whole: list[bytes], cut: list[bytes]) -> str:
    """What became of the keys of the small log."""
    if answer[0] == "error":
        return LOUD
    keys, torn = answer[1]
    return CUT if keys == cut and torn else RIGHT if keys == whole else "SILENT"
