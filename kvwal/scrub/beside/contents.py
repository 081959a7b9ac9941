"""The check of a log's contents and large values: each claim of the latest entries against the claim files beside the log.

Nothing is changed, and the log may be in use. A file that only the archive has is no fault: after a restore bytes come back when
they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from kvwal.content.claim import Claim, is_content, may_stand_beside
from kvwal.content.containers.record import claim_folders
from kvwal.content.digest import checksum_of
from kvwal.content.folder import found_path
from kvwal.content.named import NamedClaim, by_file, claims_of, claims_range, newest_format
from kvwal.counted import counted
from kvwal.history.reads.range_reader import live_entries
from kvwal.log.files.names import CONTENT_FOLDER, log_folder
from kvwal.ports.disk import Disk
from kvwal.scrub.inspect import Inspection
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects

Check = Callable[[Disk, Path, Claim], str]
"""What is wrong with the bytes of a claim in a file, or ""."""


def check_contents(
    disk: Disk, root: Path, place: Place, now_ms: int, objects: Objects | None, *, whole: bool
) -> Iterator[Inspection]:
    """The claim files of a log, each with its first problem, or "". With `whole` all claimed bytes are read, else only sizes.

    Without an archive, `objects`, a file that is not beside the log is missing. Raises `CorruptLog`, `ArchiveError`.
    """
    unreadable: list[str] = []
    folder = log_folder(root, place)
    low, high = claims_range(newest_format(disk, folder))
    entries = live_entries(
        disk, root, [place], low, high, now_ms, lambda name: is_content(name) or may_stand_beside(name)
    )
    named = by_file(claims_of(entries, lambda name, error: unreadable.append(error.what)))
    for sentence in unreadable:
        yield _inspected(CONTENT_FOLDER, 0, 0, sentence)
    folders = list(claim_folders(disk, folder))
    archived: dict[str, int] | None = None
    check = bytes_problem if whole else _size_problem
    for file, claims in sorted(named.items()):
        path = found_path(disk, folders, file)
        name = str(path.relative_to(folder) if path.is_relative_to(folder) else path)
        if disk.exists(path):
            yield _inspected(name, len(claims), disk.size(path), _first_problem(disk, path, claims, check))
            continue
        if objects is not None and archived is None:
            archived = ArchivedContents(objects, place.namespace, place.cluster, place.business).sizes()
        if archived is None or file not in archived:
            where = "the archive has it neither" if archived is not None else "there is no archive"
            yield _inspected(name, len(claims), 0, f"{claims[0].what}: the file is missing, and {where}.")


def _first_problem(disk: Disk, path: Path, claims: list[NamedClaim], check: Check) -> str:
    for one in claims:
        try:
            problem = check(disk, path, one.claim)
        except OSError as error:
            problem = f"it cannot be read: {error.strerror}"
        if problem:
            return f"{one.what}: {problem}."
    return ""


def _size_problem(disk: Disk, path: Path, claim: Claim) -> str:
    missing = claim.offset + claim.length - disk.size(path)
    return f"the file ends {counted(missing, 'byte')} too early" if missing > 0 else ""


def bytes_problem(disk: Disk, path: Path, claim: Claim) -> str:
    """What is wrong with the bytes of a claim in a file, or "". All of them are read. Raises `OSError`."""
    length, crc = checksum_of(disk, path, claim)
    if length < claim.length:
        return f"the file ends {counted(claim.length - length, 'byte')} too early"
    if crc != claim.crc32c:
        return f"{claim.length:,} bytes from byte {claim.offset} on are not those that were written"
    return ""


def _inspected(name: str, contents: int, size: int, problem: str) -> Inspection:
    return Inspection(name, 0, 0, contents, size, "damaged" if problem else "sealed", problem)
