"""The large values of one business: an entry of the log has a claim in their place, and no claim is there without its bytes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kvwal.content.claim import Claim, claim_of, has_claim, what_of
from kvwal.content.digest import extended
from kvwal.content.folder import claim_path
from kvwal.entry import Entry, is_claimed
from kvwal.ports.disk import Disk
from kvwal_archive.layout import claim_file_key
from tests.simulation.history import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T", bound=str)


class LargeValues:
    """What clients wrote that may stand beside the log, by its length and its checksum. No value is written twice."""

    def __init__(self, name: str) -> None:
        """`name` is that of the business."""
        self._name = name
        self._written: dict[tuple[int, int], str] = {}

    def wrote(self, value: T) -> T:
        """A client is going to write it."""
        data = value.encode()
        self._written[len(data), extended(0, data)] = value
        return value

    def value_of(self, entry: Entry) -> str:
        """The value whose bytes a claim names. `Violation` if nobody ever wrote it."""
        claim = claim_of(entry)
        value = self._written.get((claim.length, claim.crc32c))
        if value is None:
            raise Violation(f"{self._name}: {what_of(entry)} names bytes that nobody wrote: {claim}")
        return value


def check_beside(entries: Iterable[Entry], disk: Disk, folder: Path, when: str) -> None:
    """Raise `Violation` unless the bytes of each claim among these entries are in a claim file of the log in `folder`."""
    for entry in entries:
        if has_claim(entry) and not is_right(claim := claim_of(entry), stored(disk, folder, claim)):
            raise Violation(f"{when}, the bytes of {what_of(entry)} are not beside the log in {folder}: {claim}")


def check_kept(entries: Iterable[Entry], world: World, folder: Path, business: str, when: str) -> None:
    """As `check_beside`, of a log that was opened: the bytes of contents may also be in the archive only."""
    for entry in entries:
        if not has_claim(entry):
            continue
        claim = claim_of(entry)
        found = stored(world.machine.memory, folder, claim)
        if not is_right(claim, found) and not is_claimed(entry.value_class):
            found = archived(world, business, claim)
        if not is_right(claim, found):
            raise Violation(f"{when}, the bytes of {what_of(entry)} are gone: {claim}")


def stored(disk: Disk, folder: Path, claim: Claim) -> bytes | None:
    """The bytes in a claim file of the log in `folder`; None without the file."""
    try:
        return disk.read_part(claim_path(folder, claim.file), claim.offset, claim.length)
    except FileNotFoundError:
        return None


def archived(world: World, business: str, claim: Claim) -> bytes | None:
    """The bytes in a claim file in the bucket; None without the file."""
    found = world.bucket.objects.get(f"bucket/{claim_file_key('default', 'local', business, claim.file)}")
    return None if found is None else found.data[claim.offset : claim.offset + claim.length]


def is_right(claim: Claim, data: bytes | None) -> bool:
    """Whether these are the bytes that a claim names."""
    return data is not None and (len(data), extended(0, data)) == (claim.length, claim.crc32c)
