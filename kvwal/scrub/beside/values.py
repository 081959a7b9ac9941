"""The check of the large values of one business by their keys, and their repair with the bytes of the archive.

A claim file never changes, so a damaged one is replaced by a copy with the right bytes: no entry is written, an item of a queue
keeps its place, and history reads the mended bytes, too. The log may be in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kvwal.content.claim import Claim, claim_of, may_stand_beside
from kvwal.content.containers.record import claim_folders
from kvwal.content.digest import extended
from kvwal.content.folder import found_path
from kvwal.content.named import claims_range, newest_format
from kvwal.entry import Entry, is_claimed
from kvwal.errors import ContentDamaged, ContentFailed
from kvwal.history.reads.range_reader import live_entries
from kvwal.log.files.atomic_file import atomic_file
from kvwal.log.files.names import log_folder
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk
from kvwal.scrub.beside.contents import bytes_problem
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import Place

_STEP = 8 << 20
"""Bytes that are read or copied at a time."""


class DamagedValue(NamedTuple):
    """A large value whose bytes are not those that were written, and why. Without a claim its entry is of a newer version."""

    key: bytes
    key_class: str
    claim: Claim | None
    problem: str


class LargeValues:
    """The large values of the maps and queues of a business, whose logs are at `places` under `root`."""

    def __init__(
        self, disk: Disk, clock: Clock, root: Path, places: Sequence[Place],
        archived: Callable[[], ArchivedContents | None],
    ) -> None:  # fmt: skip
        """`archived` is asked when its bytes are needed; it gives None without an archive."""
        self.values = 0
        """How many values `damaged` has read, and `bytes` of how many bytes."""
        self.bytes = 0
        self._disk = disk
        self._clock = clock
        self._root = root
        self._places = places
        self._archived = archived
        self._folders = [one for place in places for one in claim_folders(disk, log_folder(root, place))]

    def damaged(self, report: Callable[[int], None] = lambda size: None) -> list[DamagedValue]:
        """The damaged values, in the order of identity. Bytes are read where a read of the value looks first: beside the logs,
        else in the archive. `report` gets the bytes that were read so far. Raises `CorruptLog`, `ArchiveError`.
        """
        found: list[DamagedValue] = []
        for entry in self._entries():
            self.values += 1
            try:
                claim = claim_of(entry)
            except ContentDamaged as error:
                found.append(DamagedValue(entry.key, entry.key_class, None, error.what))
                continue
            if problem := self._problem(claim):
                found.append(DamagedValue(entry.key, entry.key_class, claim, problem))
            self.bytes += claim.length
            report(self.bytes)
        return self._still_there(found) if found else found

    def repair(self, damaged: Iterable[DamagedValue]) -> list[DamagedValue]:
        """Mend claim files with the bytes of the archive. Returns the values that stay damaged.

        Raises `ContentFailed` if a file cannot be written, `ArchiveError`: then it is as it was.
        """
        damaged = list(damaged)
        if (archived := self._archived()) is not None:
            self._mend_files(archived, [one.claim for one in damaged if one.claim is not None])
        return [one for one in damaged if one.claim is None or self._problem(one.claim)]

    def _mend_files(self, archived: ArchivedContents, claims: Iterable[Claim]) -> None:
        by_file: dict[str, list[Claim]] = {}
        for claim in claims:
            if _is_sound(archived, claim):
                by_file.setdefault(claim.file, []).append(claim)
        for file, sound in by_file.items():
            path = found_path(self._disk, self._folders, file)
            if not self._disk.exists(path) or self._disk.is_written(path):
                continue
            try:
                self._mend(archived, path, sound)
            except OSError as error:
                raise ContentFailed(
                    f"{path}: the file could not be mended ({error.strerror}); it is as it was.",
                    hint="Make room on its disk, or replace the disk; then repair again.",
                ) from error

    def _entries(self) -> Iterator[Entry]:
        formats = [newest_format(self._disk, log_folder(self._root, place)) for place in self._places]
        low, high = claims_range(max(formats, default=0))
        now_ms = self._clock.wall_ms()
        entries = live_entries(self._disk, self._root, self._places, low, high, now_ms, may_stand_beside)
        return (entry for entry in entries if is_claimed(entry.value_class))

    def _still_there(self, found: list[DamagedValue]) -> list[DamagedValue]:
        """Those that were not replaced meanwhile: in a running store their files may go."""
        there = {(entry.key_class, entry.key, entry.value) for entry in self._entries()}
        return [one for one in found if one.claim is None or (one.key_class, one.key, one.claim.value()) in there]

    def _problem(self, claim: Claim) -> str:
        path = found_path(self._disk, self._folders, claim.file)
        if self._disk.exists(path):
            try:
                return bytes_problem(self._disk, path, claim)
            except OSError as error:
                return f"it cannot be read: {error.strerror}"
        archived = self._archived()
        if archived is None:
            return "the file is missing, and there is no archive"
        try:
            is_sound = _crc_of(archived, claim) == claim.crc32c
        except ObjectMissing:
            return "the file is missing, and the archive has it neither"
        return "" if is_sound else "its bytes in the archive, which alone has them, are not those that were written"

    def _mend(self, archived: ArchivedContents, path: Path, claims: list[Claim]) -> None:
        """Replace a claim file by a copy that has these claims' bytes of the archive, and else its own."""
        with atomic_file(self._disk, path, tag=f"{self._clock.random_bits(64):016x}") as copy:
            for offset in range(0, self._disk.size(path), _STEP):
                copy.write_at(offset, [self._own_or_archived(archived, path, offset)])
            for claim in claims:
                for offset, data in _parts(archived, claim):
                    copy.write_at(offset, [data])

    def _own_or_archived(self, archived: ArchivedContents, path: Path, offset: int) -> bytes:
        """A part of a claim file: that of the archive where the disk does not give it."""
        try:
            return self._disk.read_part(path, offset, _STEP)
        except OSError:
            return archived.part(path.name, offset, _STEP)


def _parts(archived: ArchivedContents, claim: Claim) -> Iterator[tuple[int, bytes]]:
    """The bytes of a claim in the archive, in parts, each with its offset in the file. Raises `ObjectMissing`, `ArchiveError`."""
    for at in range(0, claim.length, _STEP):
        offset = claim.offset + at
        yield offset, archived.part(claim.file, offset, min(_STEP, claim.length - at))


def _crc_of(archived: ArchivedContents, claim: Claim) -> int:
    crc = 0
    for _, data in _parts(archived, claim):
        crc = extended(crc, data)
    return crc


def _is_sound(archived: ArchivedContents, claim: Claim) -> bool:
    """Whether the archive has the right bytes."""
    try:
        return _crc_of(archived, claim) == claim.crc32c
    except ObjectMissing:
        return False
