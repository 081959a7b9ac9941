"""Reading the bytes of contents: from the claim files beside logs, and else from the archive.

A claim file has the same bytes wherever it is, so any copy of it will do: that of this node, of another node under the same root,
or the one in the archive.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from contextlib import closing
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from kvwal.content.claim import Claim
from kvwal.content.digest import extended
from kvwal.content.folder import claim_path
from kvwal.errors import ConfigError, ContentDamaged, ContentMissing
from kvwal.log.appender import NO_FILES, storage_full
from kvwal.log.files.atomic_file import created
from kvwal.ports.disk import Disk, OpenedFile
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.faults import ObjectMissing

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

READ_BYTES = 1 << 20
"""Bytes that are read at a time."""


BringBack = Callable[[ArchivedContents, str], None]
"""Copies a claim file from the archive to the folder of a log, if there is room. Raises nothing but `ArchiveError`."""


def _stays_away(archived: ArchivedContents, file: str) -> None:
    """What is only read brings nothing back."""


class ContentSource:
    """Where the claim files of one business are read. Any thread may use it."""

    def __init__(
        self, disk: Disk, folders: Callable[[], Iterable[Path]], archived: Callable[[], ArchivedContents | None],
        bring_back: BringBack = _stays_away,
    ) -> None:  # fmt: skip
        """`folders` are those of the logs that may have a file, the likeliest first; `archived` is None without an archive.

        `bring_back` is asked for a file that is in none of the folders, before all of a content in it is read.
        """
        self._disk = disk
        self._folders = folders
        self._archived = archived
        self._bring_back = bring_back
        self._is_of_past = False

    def of_past(self) -> Self:
        """The same source, for contents as they were: of one that is missing, the error says how long such bytes are kept."""
        past = copy(self)
        past._is_of_past = True
        return past

    def read(self, what: str, claim: Claim) -> bytes:
        """All bytes of a content: those in the archive, if the ones beside the log are damaged.

        `ContentMissing`, `ContentDamaged` with the name `what`, `ArchiveError`.
        """
        try:
            return self.check(what, claim)
        except ContentDamaged:
            if (mended := self._archived_bytes(what, claim)) is None:
                raise
            return mended

    def check(self, what: str, claim: Claim) -> bytes:
        """As `read`, of the first place that has the file: damaged bytes there are an error, also if the archive has others."""
        file = self._opened_whole(what, claim)
        if file is None:
            data = self.part(what, claim, 0, claim.length)
        else:
            with closing(file):
                data = self.part_of(file, what, claim, 0, claim.length)
        if extended(0, data) != claim.crc32c:
            raise self.damaged(what, claim)
        return data

    def _archived_bytes(self, what: str, claim: Claim) -> bytes | None:
        """The bytes of a content in the archive; None if they are not there, or damaged there, too."""
        archived = self._archived()
        if archived is None:
            return None
        try:
            data = self._from_archive(what, claim, 0, claim.length)
        except ContentDamaged:
            return None
        return data if extended(0, data) == claim.crc32c else None

    def open(self, what: str, claim: Claim, offset: int, length: int | None) -> io.BufferedReader:
        """A file over the bytes of a content from `offset` on, up to `length`. A whole content is checked at its end.

        Its claim file is open meanwhile, if it is beside a log: the bytes can be read to the end, also if they are replaced.
        """
        begin = min(offset, claim.length)
        size = claim.length - begin if length is None else min(length, claim.length - begin)
        file = self._opened_whole(what, claim) if size == claim.length else self._opened(what, claim)
        return self._over(what, claim, begin, size, file)

    def open_checked(self, what: str, claim: Claim) -> io.BufferedReader:
        """A file over all bytes of a content: those in the archive, if the ones beside the log are damaged.

        Bytes beside the log are compared with their checksum before the first one is given, those of the archive at the end.
        Raises as `read`.
        """
        file = self._opened_whole(what, claim)
        if file is None or self._is_right(file, claim):
            return self._over(what, claim, 0, claim.length, file)
        file.close()
        if not self._is_archived(claim):
            raise self.damaged(what, claim)
        read = partial(self._from_archive, what, claim)
        return io.BufferedReader(_Raw(self, what, claim, 0, claim.length, None, read), READ_BYTES)

    def _over(self, what: str, claim: Claim, begin: int, size: int, file: OpenedFile | None) -> io.BufferedReader:
        """A file over some bytes of a content, of its claim file if that is open."""
        read = partial(self.part, what, claim) if file is None else partial(self.part_of, file, what, claim)
        return io.BufferedReader(_Raw(self, what, claim, begin, size, file, read), READ_BYTES)

    def _is_right(self, file: OpenedFile, claim: Claim) -> bool:
        """Whether the bytes of a content in a claim file are those that were written."""
        crc = at = 0
        try:
            while at < claim.length and (part := file.read_at(claim.offset + at, min(READ_BYTES, claim.length - at))):
                crc, at = extended(crc, part), at + len(part)
        except OSError:
            return False
        return (at, crc) == (claim.length, claim.crc32c)

    def _is_archived(self, claim: Claim) -> bool:
        """Whether the archive has the claim file, with as many bytes as the claim needs."""
        archived = self._archived()
        try:
            return archived is not None and archived.size(claim.file) >= claim.offset + claim.length
        except ObjectMissing:
            return False

    def export(self, what: str, claim: Claim, path: Path) -> int:
        """Write all bytes into the new file `path`, durably; returns their number. After an error no file is left.

        Raises as `read`, and `ConfigError` if the file is there, or cannot be written.
        """
        at = 0
        try:
            with self.open_checked(what, claim) as source, created(self._disk, path) as file:
                while part := source.read(READ_BYTES):
                    file.write_at(at, [part])
                    at += len(part)
                file.datasync()
                self._disk.sync_folder(path.parent)
        except FileExistsError as error:
            raise ConfigError(f"{path} is there already; nothing was written.", hint="Name a new file.") from error
        except OSError as error:
            raise ConfigError(f"{path} cannot be written ({error.strerror}).", hint="Name another file.") from error
        return at

    def part(self, what: str, claim: Claim, offset: int, size: int) -> bytes:
        """Some bytes of a content, unchecked. Raises as `read`."""
        if not size:
            return b""
        file = self._opened(what, claim)
        if file is None:
            return self._from_archive(what, claim, offset, size)
        with closing(file):
            return self.part_of(file, what, claim, offset, size)

    def part_of(self, file: OpenedFile, what: str, claim: Claim, offset: int, size: int) -> bytes:
        """As `part`, from a claim file that is open."""
        try:
            data = file.read_at(claim.offset + offset, size)
        except OSError as error:
            raise self.damaged(what, claim, f"its file cannot be read ({error})") from error
        if len(data) != size:
            raise self.damaged(what, claim, f"its file ends {size - len(data):,} bytes too early")
        return data

    def _opened(self, what: str, claim: Claim) -> OpenedFile | None:
        """The claim file, open; None if it is beside no log, or the content is empty."""
        if not claim.length:
            return None
        for folder in self._folders():
            try:
                return self._disk.open_to_read(claim_path(folder, claim.file))
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno in NO_FILES:
                    raise storage_full(folder, error) or error from error
                raise self.damaged(what, claim, f"its file cannot be read ({error})") from error
        return None

    def _opened_whole(self, what: str, claim: Claim) -> OpenedFile | None:
        """As `_opened`, and a file that is in the archive only is brought back: what is read whole is read again, or its
        neighbours are.
        """
        file = self._opened(what, claim)
        if file is None and claim.length and (archived := self._archived()) is not None:
            self._bring_back(archived, claim.file)
            file = self._opened(what, claim)
        return file

    def damaged(
        self, what: str, claim: Claim, why: str = "its bytes are not those that were written"
    ) -> ContentDamaged:
        """The error for a content whose bytes are wrong."""
        return ContentDamaged(
            f"{what}: {why}: claim file {claim.file}, from byte {claim.offset} on, {claim.length:,} bytes.",
            hint="`kvwal content verify` lists what is damaged; with --repair it brings the file back from the archive.",
        )

    def _from_archive(self, what: str, claim: Claim, offset: int, size: int) -> bytes:
        archived = self._archived()
        if archived is None:
            raise self.missing(what, claim, "not beside the log, and there is no archive")
        try:
            data = archived.part(claim.file, claim.offset + offset, size)
        except ObjectMissing:
            raise self.missing(what, claim, f"neither beside the log nor in the archive {archived.url}") from None
        if len(data) != size:
            raise self.damaged(what, claim, f"its file in the archive ends {size - len(data):,} bytes too early")
        return data

    def missing(self, what: str, claim: Claim, where: str) -> ContentMissing:
        """The error for a content whose file is gone."""
        if self._is_of_past:
            return ContentMissing(
                f"{what}: its bytes of that time are {where} (claim file {claim.file}). What was replaced or deleted stays beside"
                " the log for content_keep_seconds, then only in an archive, for history_seconds.",
                hint="Open the store with the archive that has it, or copy the file from a backup into its folder `content`."
                " Raise these settings to keep what is replaced from now on for longer.",
            )
        return ContentMissing(
            f"{what}: its claim file {claim.file} is {where}.",
            hint="Open the store with the archive that has it, or copy the file from a backup into its folder `content`.",
        )


class Reader(Protocol):
    """What reads the bytes of claims: see `ContentSource`."""

    def of_past(self) -> Reader:
        """See `ContentSource.of_past`."""
        ...

    def read(self, what: str, claim: Claim) -> bytes:
        """See `ContentSource.read`."""
        ...

    def open(self, what: str, claim: Claim, offset: int, length: int | None) -> io.BufferedReader:
        """See `ContentSource.open`."""
        ...

    def open_checked(self, what: str, claim: Claim) -> io.BufferedReader:
        """See `ContentSource.open_checked`."""
        ...

    def export(self, what: str, claim: Claim, path: Path) -> int:
        """See `ContentSource.export`."""
        ...

    def check(self, what: str, claim: Claim) -> bytes:
        """See `ContentSource.check`."""
        ...


class _Raw(io.RawIOBase):
    """The bytes [begin, begin + size) of a content, as an unbuffered file. The checksum is that of bytes read from the start."""

    def __init__(
        self, source: ContentSource, what: str, claim: Claim, begin: int, size: int, file: OpenedFile | None,
        read: Callable[[int, int], bytes],
    ) -> None:  # fmt: skip
        """`read` gives the bytes at an offset of the content, as many as it is asked for; `file` is closed at the end."""
        self._file = file
        self._read = read
        self._source = source
        self._what = what
        self._claim = claim
        self._begin = begin
        self._size = size
        self._at = 0
        self._checked = 0 if size == claim.length else -1
        self._crc = 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it has positions."""
        return True

    def tell(self) -> int:
        """The position, from the start of what was opened."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a position of what was opened."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}.get(whence)
        if start is None:
            raise ValueError(f"whence={whence!r} is not 0, 1 or 2")
        if start + offset < 0:
            raise ValueError(f"a position before the start: {start + offset}")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read up to the size of `buffer`. 0 at the end."""
        view = memoryview(buffer).cast("B")
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """Read the rest."""
        return self._next(self._size)

    def close(self) -> None:
        """Close the claim file. A second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
        super().close()

    def _next(self, most: int) -> bytes:
        size = max(0, min(most, self._size - self._at))
        data = self._read(self._begin + self._at, size) if size else b""
        if self._at == self._checked:
            self._crc, self._checked = extended(self._crc, data), self._checked + size
            if self._checked == self._size and self._crc != self._claim.crc32c:
                raise self._source.damaged(self._what, self._claim)
        self._at += size
        return data
