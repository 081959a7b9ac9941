"""Reading contents by name: at present, or as they were at a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Protocol, TypeVar

from kvwal.codecs import Codecs
from kvwal.config import check_file
from kvwal.content.claim import Claim, Content, claim_of, content_of
from kvwal.content.source import Reader
from kvwal.entry import DataEntry, Entry
from kvwal.errors import ConfigError, ContentMissing
from kvwal.structures.content.names import key_class_of, key_of

T = TypeVar("T")


class Names(Protocol):
    """Read access to the latest entries of names. `kvwal.structures.business.Memory` has it."""

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """The latest entry of a name, None if it is absent."""
        ...

    def ordered(self, key_class: str, prefix: bytes = b"") -> Iterator[Entry]:
        """The entries of the names that begin with `prefix`, in order."""
        ...

    def count(self) -> int:
        """The number of names."""
        ...


class ContentReads:
    """Names of contents, and their bytes. `name` is that of the business and, behind a slash, of the structure.

    Reads may raise `ContentMissing`, `ContentDamaged`, and `ArchiveError` where bytes come from the archive.
    """

    def __init__(self, name: str, structure: str, state: Names, codecs: Codecs, source: Reader) -> None:
        self.name = name
        self._key_class = key_class_of(structure)
        self._memory = state
        self._codecs = codecs
        self._source = source

    def get(self, name: str) -> bytes:
        """All bytes of a content; `KeyError` if there is none of this name. Their checksum is compared."""
        return self._of_latest(name, partial(self._source.read, self._what(name)))

    def open(self, name: str, *, offset: int = 0, length: int | None = None) -> BufferedReader:
        """A binary file over the bytes from `offset` on, up to `length`; `KeyError` if there is none of this name.

        It shows the content as it was when it was opened. Read from the start to the end it compares the checksum of the whole.
        """
        for what, value in (("offset", offset), ("length", length)):
            if value is not None and (type(value) is not int or value < 0):
                raise ConfigError(f"{what}={value!r} must be a whole number of bytes, 0 or more.")
        return self._of_latest(name, lambda claim: self._source.open(self._what(name), claim, offset, length))

    def open_checked(self, name: str) -> BufferedReader:
        """A binary file over all bytes, which are not given if they are damaged: see `ContentSource.open_checked`."""
        return self._of_latest(name, partial(self._source.open_checked, self._what(name)))

    def export(self, name: str, path: str | Path) -> int:
        """Write the bytes of a content into the new file `path`; returns their number. `ConfigError` if the file is there.

        After an error no file is left.
        """
        target = check_file("path", str(path))
        return self._of_latest(name, lambda claim: self._source.export(self._what(name), claim, target))

    def check(self, name: str) -> None:
        """Read all bytes of a content where they are read first. `ContentDamaged` if they are not those that were written."""
        self._source.check(self._what(name), claim_of(self._entry(name)))

    def stat(self, name: str) -> Content:
        """A content without its bytes; `KeyError` if there is none of this name."""
        return content_of(self._entry(name))

    def list(self, prefix: str = "") -> Iterator[Content]:
        """The contents whose names begin with `prefix`, in the order of their names. No bytes are read."""
        data = self._codecs.encode_key(prefix)[0]
        return (content_of(entry) for entry in self._memory.ordered(self._key_class, data))

    def entry(self, name: str) -> DataEntry | None:
        """The latest entry of a content as the log has it, None if there is none of this name."""
        entry = self._memory.lookup(self._key_class, key_of(self._codecs, name))
        return None if entry is None else entry.public()

    def __iter__(self) -> Iterator[str]:
        return (content.name for content in self.list())

    def __len__(self) -> int:
        return self._memory.count()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.entry(name) is not None

    def _entry(self, name: str) -> Entry:
        entry = self._memory.lookup(self._key_class, key_of(self._codecs, name))
        if entry is None:
            raise KeyError(name)
        return entry

    def _of_latest(self, name: str, read: Callable[[Claim], T]) -> T:
        """What `read` makes of the claim of a name. Of another one if the file of the first went meanwhile: it was replaced."""
        claim = claim_of(self._entry(name))
        while True:
            try:
                return read(claim)
            except ContentMissing:
                before, claim = claim, claim_of(self._entry(name))
                if claim.bytes_of == before.bytes_of:
                    raise

    def _what(self, name: str) -> str:
        return f"{self.name}: {name!r}"
