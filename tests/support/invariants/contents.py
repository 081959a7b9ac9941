"""Each name of a content, and each key of a large value, leads to its bytes: its claim file is under the root or in the archive,
and is long enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvwal.content.claim import claim_of, has_claim, name_of
from kvwal.content.containers.record import claim_folders
from kvwal.content.folder import found_path
from kvwal.log.files.names import find_places, log_folder
from kvwal.ports.disk import Disk
from kvwal.store.contents.sources import archived_contents
from kvwal.store.open_business import OpenBusiness


def names_without_bytes(disk: Disk, business: OpenBusiness) -> Iterator[str]:
    """The contents and the large values of maps of a business, as its memory has them, whose bytes are nowhere."""
    archived: dict[str, int] | None = None
    now_ms = business.now_ms()
    for entry in business.memory.latest_kept():
        if not has_claim(entry) or 0 < entry.expires <= now_ms:
            continue
        claim = claim_of(entry)
        end = claim.offset + claim.length
        if not claim.length or _size(disk, business, claim.file) >= end:
            continue
        if archived is None:
            objects = archived_contents(business._archive(), *business.place[:3])
            archived = {} if objects is None else objects.sizes()
        if archived.get(claim.file, -1) < end:
            yield f"{business.log.folder}: {name_of(entry)!r} names {claim.file} up to byte {end}, which is nowhere"


def _size(disk: Disk, business: OpenBusiness, file: str) -> int:
    """The size of a claim file under the root, -1 if it is not there."""
    context = business._context
    logs = [log_folder(context.root, place) for place in find_places(disk, context.root, *business.place[:3])]
    folders = [one for log in (business.log.folder, *logs) for one in claim_folders(disk, log)]
    path = found_path(disk, folders, file)
    return disk.size(path) if disk.exists(path) else -1
