"""The interface of an object store, its listing, and the local copies that readers make of objects."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.faults import archive_errors

PART_BYTES = 8 << 20


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
Body = bytes | Path
"""The bytes of an object: in memory, or those of a local file, which may be larger than the memory."""
Range = tuple[str, int, int]
"""A key, and the bytes [start, end) of its object."""


class Decoded(Protocol):
    """A cache of what was decoded of objects, and checked. It weighs values by their `held_bytes`. Any thread may use it."""

    def found(self, key: Hashable) -> Any | None:
        """The value of a key, None if it is not here."""

    def put(self, key: Hashable, value: Any) -> None:
        """Keep a value. Others may go for it."""


class Objects(ABC):
    """A store of immutable objects under one URL. Keys are the relative names that `kvwal_archive.layout` builds."""

    url: str
    """The URL as it may be shown: without credentials."""
    copies_on_fetch = True
    """Whether `fetch` makes a copy, which needs room on a local disk."""
    decoded: Decoded | None = None
    """Where parts of objects that were decoded are kept for later questions; None: nowhere."""

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
    def put_if_absent(self, key: str, data: Body) -> bool:
        """Store `data` durably and return True. If the key is taken, change nothing and return False."""

    @abstractmethod
    def read(self, key: str) -> bytes:
        """All bytes of an object. Raises ObjectMissing."""

    def read_again(self, key: str) -> bytes:
        """`read`, past what is kept of an earlier answer: it may have come damaged, while the object is sound."""
        return self.read(key)

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

    def look_again(self) -> None:
        """What other processes put meanwhile is to be seen from now on. A store that keeps no listing does nothing."""
        return

    def scratch(self, need: int) -> AbstractContextManager[Path]:
        """A folder for the files of one job, of about `need` bytes together. It is removed at the end of the `with` block.

        It is among the temporary files, unless the opener of the archive named another disk.
        """
        return scratch()

    @abstractmethod
    def fetch(self, key: str, folder: Path) -> Path:
        """A local file with the bytes of an object: the object itself, or a copy made in `folder`.

        Raises ObjectMissing.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object. An object that is gone already is no error."""

    @abstractmethod
    def confirm(self, key: str, data: Body) -> None:
        """Return if the stored object has the size and the checksum of `data`.

        Raises ArchiveDamaged if it has not, ObjectMissing if it is gone.
        """

    def remove_unfinished(self, prefix: str, before_ms: int) -> Names:
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


def size_of(data: Body) -> int:
    """Bytes of an object that is to be put."""
    return data.stat().st_size if isinstance(data, Path) else len(data)


def parts_of(data: Body) -> Iterator[bytes]:
    """These bytes in parts, one in memory at a time."""
    if not isinstance(data, Path):
        yield data
        return
    with data.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder for copies and spilled rows. It is removed at the end of the `with` block."""
    with tempfile.TemporaryDirectory(prefix="kvwal-archive-") as folder:
        yield Path(folder)


def open_copy(path: Path) -> BinaryIO:
    """A seekable file over a path that `Objects.fetch` returned. Raises ObjectMissing if the file was removed since."""
    with archive_errors(str(path.parent), "open", path.name):
        return path.open("rb")
