"""The interface of an object store, its listing, and the local copies that readers make of objects."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from archive.errors import ArchiveDamaged
from archive.faults import archive_errors


class Listed(NamedTuple):
    """One object of a listing.

    `etag` is None where the backend has no ETags. `modified_ms` is unix milliseconds by the backend's clock.
    """

    key: str
    size: int
    etag: str | None
    modified_ms: int


Listing = list[Listed]
Names = list[str]
Pieces = list[bytes]
Range = tuple[str, int, int]
"""A key, and the bytes [start, end) of its object."""


class Objects(ABC):
    """A store of immutable objects under one URL. Keys are the relative names that `archive.layout` builds."""

    url: str
    """The URL as it may be shown: without credentials."""

    @property
    def address(self) -> str:
        """What `open_objects` takes in another process. It may hold credentials, so it goes into no message."""
        return self.url

    def __repr__(self) -> str:
        return f"<archive {self.url}>"

    @abstractmethod
    def list(self, prefix: str) -> Listing:
        """All objects whose key begins with `prefix`, sorted by key; an empty list if there is none.

        Raises ArchiveError.
        """

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Store `data` durably and return True. If the key is taken, change nothing and return False."""

    @abstractmethod
    def read(self, key: str) -> bytes:
        """All bytes of an object. Raises ObjectMissing."""

    @abstractmethod
    def open(self, key: str) -> BinaryIO:
        """A seekable file over an object, for reading parts of it. Raises ObjectMissing."""

    @abstractmethod
    def read_ranges(self, ranges: Sequence[Range]) -> Pieces:
        """The bytes of each range, in order; less if the object ends before. Raises ObjectMissing.

        A store that is reached over a network is asked for many at once.
        """

    def for_one_look(self) -> Objects:
        """The same store for one operation that asks for some ranges several times: each is read over the network once."""
        return self

    @abstractmethod
    def fetch(self, key: str, folder: Path) -> Path:
        """A local file with the bytes of an object: the object itself, or a copy made in `folder`.

        Raises ObjectMissing.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object. An object that is gone already is no error."""

    @abstractmethod
    def confirm(self, key: str, data: bytes) -> None:
        """Return if the stored object has the size and the checksum of `data`.

        Raises ArchiveDamaged if it has not, ObjectMissing if it is gone.
        """

    def sweep(self, prefix: str, before_ms: int) -> Names:
        """Remove the unfinished files that a killed `put_if_absent` left before `before_ms`, and return their names."""
        return []

    def prune(self, prefix: str) -> None:
        """Remove the folder named `prefix`, then its parents, as long as they are empty. Backends without folders do nothing."""
        return

    def _differs(self, key: str, difference: str) -> ArchiveDamaged:
        return ArchiveDamaged(
            f"{self.url}: {key} is not what was put there: {difference}.",
            hint="Nothing relies on it yet; `kvwal archive verify` lists what is damaged.",
        )


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder for copies and spilled rows. It is removed at the end of the `with` block."""
    with tempfile.TemporaryDirectory(prefix="kvwal-archive-") as folder:
        yield Path(folder)


def open_copy(path: Path) -> BinaryIO:
    """A seekable file over a path that `Objects.fetch` returned. Raises ObjectMissing if the file was removed since."""
    with archive_errors(str(path.parent), "open", path.name):
        return path.open("rb")
