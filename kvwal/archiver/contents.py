"""The archiver's work on contents: claim files are archived before the entries that name them, and deleted when none does.

Nothing is counted by hand: what names a file is read from the log each time. Both jobs can be killed at any instruction and run
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

from kvwal.archiver.jobs import Clean, Cleaned
from kvwal.archiver.kept_contents import Archived, choose, note_kept
from kvwal.content.containers.record import claim_folders
from kvwal.content.digest import checksum_of
from kvwal.content.folder import claim_path, found_path, home_of
from kvwal.content.named import NamedClaim, by_file, claims_of_segments, claims_of_snapshot
from kvwal.entry import Decode
from kvwal.errors import ContentDamaged
from kvwal.log.files.segment import SealedSegment
from kvwal.ports.disk import Disk, OsDisk
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
        self._folders = list(claim_folders(disk, folder))
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
            path = found_path(self._disk, self._folders, file)
            if file in self._there:
                continue
            if not self._disk.exists(path):
                self._tell(claims[0], "its claim file is neither here nor in the archive")
                continue
            for one in claims:
                if checksum_of(self._disk, path, one.claim) != (one.claim.length, one.claim.crc32c):
                    self._tell(one, "its bytes are not those that were written")
            # The archive reads files of the machine; it gets the bytes of a disk of a simulation.
            self._archived.put(file, path if isinstance(self._disk, OsDisk) else self._disk.read(path))
            self._there[file] = self._disk.size(path)

    def _unreadable(self, name: str, error: ContentDamaged) -> None:
        self._note(error.what)

    def _tell(self, one: NamedClaim, why: str) -> None:
        self._note(f"{one.name!r}: {why} (claim file {one.claim.file}, from byte {one.claim.offset} on)")

    def _note(self, sentence: str) -> None:
        if len(self.missing) < _MOST_TOLD:
            self.missing.append(sentence)


def clean(job: Clean, disk: Disk, now_ms: int, decode: Decode, archived: Archived) -> Cleaned:
    """Delete the files of `job.candidates` that nothing in the log names, and that are not kept. See `Clean`.

    Raises `ContentDamaged`, and deletes nothing, if an entry may name a file that this version cannot read.
    """
    folder, segments = Path(job.folder), [ref.segment() for ref in job.segments]
    live: dict[str, int] = {}
    for one in claims_of_snapshot(disk, folder, decode, _refuse):
        # copies count twice: nothing is moved too early
        live[one.claim.file] = live.get(one.claim.file, 0) + one.claim.length
    named = set(live)
    named.update(one.claim.file for one in claims_of_segments(disk, segments, decode, _refuse))
    folders = list(claim_folders(disk, folder))
    paths = {file: found_path(disk, folders, file) for file in job.candidates}
    sizes = {file: disk.size(path) for file, path in paths.items() if disk.exists(path)}
    unnamed = {file: size for file, size in sizes.items() if file not in named}
    elsewhere = cache(archived)
    homes = {file: home_of(paths[file]) for file in unnamed}
    chosen = choose(disk, folder, unnamed, homes, job.keep, now_ms, elsewhere)
    gone = chosen.old + chosen.for_room
    for file in gone:
        for home in folders:
            disk.unlink(claim_path(home, file))  # after a power cut it may be there again: a later job deletes it
    note_kept(disk, folder, chosen.kept)
    return Cleaned(
        len(gone), sum(unnamed[file] for file in gone), _sparse({file: sizes[file] for file in live if file in sizes}, live),
        waiting=sum(file in named and file not in live for file in job.candidates),
        kept=len(chosen.kept), due_ms=min(chosen.kept.values(), default=0) + job.keep.ms,
        for_room=len(chosen.for_room), room_bytes=sum(unnamed[file] for file in chosen.for_room),
        nowhere=sum(file not in elsewhere() for file in chosen.for_room),
    )  # fmt: skip


def _sparse(sizes: dict[str, int], live: dict[str, int]) -> list[str]:
    """The claim files, given with their sizes, whose live bytes are to be written again."""
    sparse = [file for file, size in sizes.items() if size >= SMALL_BYTES and live[file] * SPARSE_SHARE < size]
    small = [file for file, size in sizes.items() if size < SMALL_BYTES]
    return sparse + small if len(small) >= MANY_SMALL else sparse


def _refuse(name: str, error: ContentDamaged) -> NoReturn:
    raise error
