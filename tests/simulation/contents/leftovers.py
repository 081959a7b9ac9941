"""The law of the bytes beside a log: none stays beside the log that no entry names, for longer than two checkpoints and what the
setting `content_keep_seconds` says.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvwal.archiver.kept_contents import kept_files
from kvwal.content.claim import claim_of, has_claim
from kvwal.content.folder import claim_files
from kvwal.content.named import NamedClaim, claims_of_segments, claims_of_snapshot
from kvwal.errors import ContentDamaged
from kvwal.log.files.names import CONTENT_FOLDER, partial_name
from kvwal.log.reader import entry_decoder
from kvwal.ports.disk import Disk
from kvwal.store.open_business import OpenBusiness

PARTIAL = partial_name("")


def unnamed_files(disk: Disk, business: OpenBusiness) -> set[str]:
    """The claim files beside a log that nothing names: no entry of its files or its memory, no setting; and those that a killed
    process left unfinished. On a quiet day no call is under way, so none but the open file may be in use.
    """
    folder, files = business.log.folder, business.contents.files
    named = {one.claim.file for one in _claims(disk, business)}
    named.update(claim_of(entry).file for entry in business.memory.latest_kept() if has_claim(entry))
    open_files = {home.shared._name for home in files._homes if home.shared._file is not None}
    there = [file.name for file in claim_files(disk, folder) if file.name not in open_files]
    sections = (folder / CONTENT_FOLDER / section for section in disk.names(folder / CONTENT_FOLDER))
    parts = {str(section / name) for section in sections for name in disk.names(section) if name.endswith(PARTIAL)}
    return parts | set(there) - named - kept_files(disk, folder).keys()


def _claims(disk: Disk, business: OpenBusiness) -> Iterator[NamedClaim]:
    decode = entry_decoder()
    there = [segment for segment in business.log.sealed if disk.exists(segment.path)]  # some are being dropped
    yield from claims_of_segments(disk, there, decode, _refuse)
    yield from claims_of_snapshot(disk, business.log.folder, decode, _refuse)


def _refuse(name: str, error: ContentDamaged) -> None:
    raise error
