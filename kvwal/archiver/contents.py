"""The archiver's work on contents: claim files are archived before the entries that name them, and deleted when none does.

Nothing is counted by hand: what names a file is read from the log each time. Both jobs can be killed at any instruction and run
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from kvwal.archiver.jobs import Clean, Cleaned
from kvwal.content.digest import checksum_of
from kvwal.content.folder import claim_path
from kvwal.content.named import NamedClaim, by_file, claims_of_segments, claims_of_snapshot
from kvwal.entry import Decode
from kvwal.errors import ContentDamaged
from kvwal.log.files.segment import SealedSegment
from kvwal.ports.disk import Disk
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects

_MOST_TOLD = 10
"""Contents that an answer names."""
SMALL_BYTES = 1 << 20
"""A smaller claim file is not worth writing again for what is dead in it."""
SPARSE_SHARE = 4
"""The latest entries name a part of a claim file. If it is less than one in `SPARSE_SHARE`, the file is to be written again."""
MANY_SMALL = 64
"""`MANY_SMALL` small files are to be written again as one: each archiving ends a file, and a month has many of them."""


class Uploads:
    """The claim files that one job has put. `missing` are contents that could not be: each with its file and the reason."""

    def __init__(self, objects: Objects, place: Place, disk: Disk, folder: Path) -> None:
        self.missing: list[str] = []
        self._archived = ArchivedContents(objects, place.namespace, place.cluster, place.business)
        self._disk = disk
        self._folder = folder
        self._there: dict[str, int] | None = None

    def segments(self, segments: Sequence[SealedSegment], decode: Decode) -> None:
        """Put the files that these segments name. Raises `ArchiveError`: then their entries are not to be archived."""
        self._put(claims_of_segments(self._disk, segments, decode, self._unreadable))

    def snapshot(self, decode: Decode) -> None:
        """Put the files that the snapshot names. Raises as `segments`."""
        self._put(claims_of_snapshot(self._disk, self._folder, decode, self._unreadable))

    def _put(self, named: Iterable[NamedClaim]) -> None:
        for file, claims in by_file(named).items():
            if self._there is None:
                self._there = self._archived.sizes()
            path = claim_path(self._folder, file)
            if file in self._there:
                continue
            if not self._disk.exists(path):
                self._tell(claims[0], "its claim file is neither here nor in the archive")
                continue
            for one in claims:
                if checksum_of(self._disk, path, one.claim) != (one.claim.length, one.claim.crc32c):
                    self._tell(one, "its bytes are not those that were written")
            self._archived.put(file, path)
            self._there[file] = self._disk.size(path)

    def _unreadable(self, name: str, error: ContentDamaged) -> None:
        self._note(error.what)

    def _tell(self, one: NamedClaim, why: str) -> None:
        self._note(f"{one.name!r}: {why} (claim file {one.claim.file}, from byte {one.claim.offset} on)")

    def _note(self, sentence: str) -> None:
        if len(self.missing) < _MOST_TOLD:
            self.missing.append(sentence)


def clean(job: Clean, disk: Disk, decode: Decode) -> Cleaned:
    """Delete the files of `job.candidates` that nothing in the log names. See `Clean`.

    Raises `ContentDamaged`, and deletes nothing, if an entry may name a file that this version cannot read.
    """
    folder, segments = Path(job.folder), [ref.segment() for ref in job.segments]
    live: dict[str, int] = {}
    for one in claims_of_snapshot(disk, folder, decode, _refuse):
        # copies count twice: nothing is moved too early
        live[one.claim.file] = live.get(one.claim.file, 0) + one.claim.length
    named = set(live)
    named.update(one.claim.file for one in claims_of_segments(disk, segments, decode, _refuse))
    removed = freed = 0
    sparse, small = [], []
    for file in job.candidates:
        path = claim_path(folder, file)
        size = disk.size(path) if disk.exists(path) else 0
        if file not in named:
            disk.unlink(path)  # after a power cut it may be there again: a later job deletes it
            removed, freed = removed + 1, freed + size
        elif size < SMALL_BYTES:
            small += [file] if file in live else []
        elif live.get(file, 0) * SPARSE_SHARE < size:
            sparse.append(file)
    waiting = sum(file in named and file not in live for file in job.candidates)
    return Cleaned(removed, freed, sparse + small if len(small) >= MANY_SMALL else sparse, waiting)


def _refuse(name: str, error: ContentDamaged) -> NoReturn:
    raise error
