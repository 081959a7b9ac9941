"""The check of contents in the archive: every claim of its objects against the bytes of the claim files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import google_crc32c

from kvwal_archive.contents.claims import ArchivedClaim, claims_of
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import Place, claim_file_key
from kvwal_archive.objects import Objects, open_copy, scratch
from kvwal_archive.parquet.rows import ObjectInfo

_PART_BYTES = 1 << 20
Progress = Callable[[int, int, str], None]


class ContentFault(NamedTuple):
    """A content whose bytes in the archive are not what its claim says: the key of its claim file, and a sentence."""

    key: str
    text: str


def check_contents(
    objects: Objects, place: Place, infos: Iterable[ObjectInfo], progress: Progress | None = None
) -> Iterator[ContentFault]:
    """Check what these objects of one log name. Each claim file is read once, if anything names it. Raises ArchiveError."""
    named: dict[str, dict[ArchivedClaim, str]] = {}
    for info in infos:
        for name, claim in claims_of(objects, info):
            named.setdefault(claim.file, {}).setdefault(claim, name)
    if not named:
        return
    archived = ArchivedContents(objects, place.namespace, place.cluster, place.business)
    done, total = 0, sum(archived.sizes().get(file, 0) for file in named)
    for file, claims in sorted(named.items()):
        key = claim_file_key(place.namespace, place.cluster, place.business, file)
        with scratch() as folder:
            try:
                path = archived.fetch(file, folder)
            except ObjectMissing:
                first = next(iter(claims.values()))
                more = f" and {len(claims) - 1:,} more" if len(claims) > 1 else ""
                yield ContentFault(key, f"The claim file of the content {first!r}{more} is missing.")
                continue
            for claim, name in claims.items():
                if not _is_sound(path, claim):
                    yield ContentFault(
                        key, f"The content {name!r} is damaged: {claim.length:,} bytes from byte {claim.offset} on."
                    )
            done += path.stat().st_size
        if progress:
            progress(done, total, f"verifying the contents of {place.prefix}")


def _is_sound(path: Path, claim: ArchivedClaim) -> bool:
    crc, left = 0, claim.length
    with open_copy(path) as file:
        file.seek(claim.offset)
        while left and (part := file.read(min(_PART_BYTES, left))):
            crc, left = int(google_crc32c.extend(crc, part)), left - len(part)
    return not left and crc == claim.crc32c
