"""Every power cut of a short script, on a disk that forgets, and what recovery makes of each of them.

At every change of the disk all states are made that a power cut may leave there: all, where they are few enough, else the
durable one, the one that programs see, each with one or two choices made the other way, and some drawn by chance. Each is
recovered by the real code, cut again at each step of that, and so on, until nothing new turns up.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from kvwal.codecs import registry
from kvwal.content.claim import Claim, claim_of
from kvwal.content.digest import extended
from kvwal.content.folder import claim_path
from kvwal.entry import Entry, class_of_bytes, is_claimed
from kvwal.log.files.names import log_folder
from kvwal.log.overflow.read import open_segment
from kvwal.log.reader import SegmentEnd, entry_decoder
from kvwal.log.recovery import Recovered, RecoveryTarget, recover
from kvwal_archive.layout import Place
from tests.support.disk.durability import Choice, Image
from tests.support.disk.power import Cut, MemoryDisk

ROOT = Path("/disk")
PLACE = Place("default", "local", "b", "local")
FOLDER = log_folder(ROOT, PLACE)
MOST = 200
"""States of one moment, when there are more than can be tried."""
Model = dict[Any, Any]


def cuts(disk: MemoryDisk, chance: random.Random) -> tuple[list[Image], int]:
    """The states that a power cut may leave now, and how many there would be of them (before renames are made whole)."""
    cut = Cut(disk)
    choices = cut.choices
    number = prod(len(choice.versions) for choice in choices)
    if number <= MOST:
        picks: list[tuple[int, ...]] = list(product(*(range(len(choice.versions)) for choice in choices)))
    else:
        picks = list(dict.fromkeys(_some(choices, chance)))
    return [cut.image(pick) for pick in picks], number


def _some(choices: Sequence[Choice], chance: random.Random) -> Iterator[tuple[int, ...]]:
    last = [len(choice.versions) - 1 for choice in choices]
    for base, other in (([0] * len(last), last), (last, [0] * len(last))):
        yield tuple(base)
        for count in (1, 2):
            flips = list(combinations(range(len(last)), count))
            for places in chance.sample(flips, min(len(flips), MOST // 5)):
                yield tuple(other[at] if at in places else base[at] for at in range(len(last)))
    for _ in range(MOST // 5):
        yield tuple(chance.randint(0, most) for most in last)


def after_changes(disk: MemoryDisk, call: Callable[[], None]) -> None:
    """Have `call` called after every change but a sync: what may be left after one might have been left before it."""

    def watch() -> None:
        if "sync" not in disk.call:
            call()

    disk.watch = watch


class Found(NamedTuple):
    """What recovery made of a disk: the values, and what it said of the log."""

    values: Model
    log: Recovered


def recovered(disk: MemoryDisk, folder: Path = FOLDER) -> Found:
    """Recover the log, and read what it calls sealed: the archive will rely on that."""
    latest: dict[bytes, Entry] = {}

    def apply(entries: list[Entry]) -> None:
        latest.update({entry.key: entry for entry in entries})

    found = recover(disk, folder, RecoveryTarget(apply, latest.clear), entry_decoder())
    _check_sealed(disk, found)
    values = {
        key.decode(): registry.decode(_value(disk, folder, entry), class_of_bytes(entry.value_class))
        for key, entry in latest.items()
        if not entry.deleted
    }
    return Found(values, found)


def _value(disk: MemoryDisk, folder: Path, entry: Entry) -> bytes:
    """The bytes of a value, which must all be there if they stand beside the log."""
    return claimed_bytes(disk, folder, claim_of(entry)) if is_claimed(entry.value_class) else entry.value


def claimed_bytes(disk: MemoryDisk, folder: Path, claim: Claim) -> bytes:
    """The bytes that a claim names, which must be those that were written."""
    data = disk.read_part(claim_path(folder, claim.file), claim.offset, claim.length) if claim.length else b""
    assert len(data) == claim.length, (claim, "bytes are missing")
    assert extended(0, data) == claim.crc32c, (claim, "the bytes are others")
    return data


def _check_sealed(disk: MemoryDisk, found: Recovered) -> None:
    for at, segment in enumerate(found.sealed):
        data = disk.read(segment.path)
        reader = open_segment(disk, segment.path, data)
        assert sum(len(entries) for entries in reader.entries(entry_decoder())) == segment.last - segment.first + 1
        assert reader.ending(data, last=False) is SegmentEnd.SEALED
        assert reader.seal_crc == segment.crc
        if at:
            assert segment.first == found.sealed[at - 1].last + 1, "segments without a gap"
            assert segment.previous_crc == found.sealed[at - 1].crc


Waiting = deque[tuple[int, Image, Found | None, str]]
"""Disks to recover: the key and the disk, what an earlier recovery found if it was cut while recovering, and when that was."""


class Possible(NamedTuple):
    """A disk after a cut, and which of the states of the model may be found on it."""

    image: Image
    least: int
    most: int
    moment: str


class AcknowledgedWrites:
    """The states that transactions made, one each, and up to which of them a caller was told that they are durable."""

    def __init__(self, *states: Model, acknowledged: int = 0) -> None:
        self.states: list[Model] = list(states) or [{}]
        self.acknowledged = acknowledged

    def begin(self, state: Model) -> None:
        """A transaction is on its way that makes this of it."""
        self.states.append(state)

    def acknowledge(self) -> None:
        """All of them are durable: that was acknowledged, or what they left was found by a new program and read."""
        self.acknowledged = len(self.states) - 1

    def take(self, found: Model) -> None:
        """A new program found this, and told it: what was on its way and is not there, never was."""
        at = max(at for at, state in enumerate(self.states) if state == found)
        assert at >= self.acknowledged, "a power cut took something back"
        del self.states[at + 1 :]
        self.acknowledge()


class Cuts:
    """All that may be left of a disk, each once, with the narrowest bounds of all moments at which it may be left."""

    def __init__(
        self, told: AcknowledgedWrites, *, damaged: bool = False, known: dict[int, Found] | None = None
    ) -> None:
        """`damaged`: there is a file that is. `known` is what was recovered before."""
        self.told = told
        self.damaged = damaged
        self.chance = random.Random(0)
        self.left: dict[int, Possible] = {}
        self.known: dict[int, Found] = {} if known is None else known
        self.moments = 0
        self.sampled = 0

    def watch(self, disk: MemoryDisk, moment: str = "") -> None:
        """Have every state added that this disk may leave from now on."""
        after_changes(disk, lambda: self.add(disk, moment))
        self.add(disk, moment)

    def add(self, disk: MemoryDisk, moment: str = "") -> None:
        """All that may be left now."""
        images = self._cuts(disk)
        least, most = self.told.acknowledged, len(self.told.states) - 1
        for image in images:
            key = image.key()
            before = self.left.get(key)
            if before is not None:
                least_of_all, most_of_all = max(least, before.least), min(most, before.most)
                self.left[key] = before._replace(least=least_of_all, most=most_of_all)
            else:
                self.left[key] = Possible(image, least, most, moment or f"moment {self.moments}")

    def _cuts(self, disk: MemoryDisk) -> list[Image]:
        images, number = cuts(disk, self.chance)
        self.moments += 1
        self.sampled += number > MOST
        return images

    def check(self) -> str:
        """Recover from each of them, and from every cut of that. Returns how many states were tried, in a sentence."""
        states = self.told.states
        waiting: Waiting = deque((key, left.image, None, left.moment) for key, left in self.left.items())
        while waiting:
            key, image, before, moment = waiting.popleft()
            found = self.known.get(key)
            if found is None:
                found = self.known[key] = self._recover(image, moment, waiting)
            if key in self.left:
                left = self.left[key]
                assert found.values in states[left.least : left.most + 1], (left, found.values)
            if before is not None:
                assert found.values == before.values, (moment, "cut again while recovering")
                _check_evidence(before, found, image)
        return (
            f"{len(self.known):,} states, {len(self.left):,} of the script and the others of its recovery;"
            f" of {self.moments:,} moments {self.sampled:,} had more than {MOST:,} states, of which some were tried"
        )

    def _recover(self, image: Image, moment: str, waiting: Waiting) -> Found:
        disk = MemoryDisk(image)
        again: list[Image] = []
        after_changes(disk, lambda: again.extend(self._cuts(disk)))
        try:
            found = recovered(disk)
        except BaseException as error:
            error.add_note(f"{moment}: {image}")
            raise
        assert self.damaged or not found.log.set_aside, (moment, "a power cut was taken for damage", image)
        waiting.extend((other.key(), other, found, f"recovery of {moment}") for other in again)
        return found


def _check_evidence(before: Found, after: Found, image: Image) -> None:
    """What a recovery cut off is kept, however often the power is cut on the way."""
    if before.log.torn is not None:
        assert after.log.torn is not None or before.log.torn.evidence in image
