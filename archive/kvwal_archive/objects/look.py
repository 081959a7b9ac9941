"""One look at an archive: a job lists a folder once, and reads no registration and no footer that it knows already.

Objects are immutable. So what was read of an object of a given key, size, time and ETag is kept for later jobs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from kvwal_archive.faults import ObjectMissing
from kvwal_archive.objects.port import Body, Listed, Listing, Names, Objects, Pieces, Range

KNOWN_BYTES = 16 << 20
T = TypeVar("T")
Scratch = Callable[[int], AbstractContextManager[Path]]
"""See `Objects.scratch`."""


class Known:
    """Parts of immutable objects that were read, for later looks. About `KNOWN_BYTES` are kept. Any thread may use it.

    `refuses_taken_keys` is set by its user when the archive was seen to refuse a put of a key that is taken.
    """

    def __init__(self, lock: AbstractContextManager[Any]) -> None:
        """`lock` is a lock between the threads that use it."""
        self._lock = lock
        self.refuses_taken_keys = False
        self._parts: OrderedDict[tuple[Listed, int, int], bytes] = OrderedDict()
        self._size = 0

    def get(self, of: Listed, start: int, end: int) -> bytes | None:
        """The bytes of this part, None if they are not known."""
        with self._lock:
            return self._parts.get((of, start, end))

    def put(self, of: Listed, start: int, end: int, data: bytes) -> None:
        """Keep the bytes of a part that was read. The oldest ones go.

        Bytes of another length are none of the object: something between has answered, as a sign-in page does. They are not kept,
        so that the next read finds the object when the page is gone.
        """
        if len(data) != end - start:
            return
        with self._lock:
            if (of, start, end) not in self._parts:
                self._parts[of, start, end] = data
                self._size += len(data)
            while self._size > KNOWN_BYTES and len(self._parts) > 1:
                self._size -= len(self._parts.popitem(last=False)[1])

    def forget(self, of: Listed, start: int, end: int) -> None:
        """Keep the bytes of this part no longer."""
        with self._lock:
            self._size -= len(self._parts.pop((of, start, end), b""))


class OneLook(Objects):
    """An archive as one job sees it: keys below `folder` are listed once, and anew after `look_again`, or a missing object.

    `requests` counts what the store was asked for, `known` is what earlier jobs know.
    """

    def __init__(self, objects: Objects, folder: str, known: Known, scratch: Scratch | None = None) -> None:
        """`folder` ends with a slash. `scratch` makes the folders for the files of the job, None: among the temporary files."""
        self.url = objects.url
        self.copies_on_fetch = objects.copies_on_fetch
        self.decoded = objects.decoded
        self._scratch = scratch or objects.scratch
        self.requests = 0
        self._objects = objects
        self._folder = folder
        self.known = known
        self._listed: dict[str, Listed] | None = None
        self._keys: list[str] = []

    @property
    def address(self) -> str:
        """See Objects.address."""
        return self._objects.address

    def look_again(self) -> None:
        """See Objects.look_again."""
        self._listed = None

    def list(self, prefix: str) -> Listing:
        """See Objects.list. It is as of the look."""
        if not prefix.startswith(self._folder):
            return self._ask(lambda: self._objects.list(prefix))
        if self._listed is None:
            self._listed = {item.key: item for item in self._ask(lambda: self._objects.list(self._folder))}
            self._keys = list(self._listed)
        following = islice(self._keys, bisect_left(self._keys, prefix), None)
        return [self._listed[key] for key in takewhile(lambda key: key.startswith(prefix), following)]

    def put_if_absent(self, key: str, data: Body) -> bool:
        """See Objects.put_if_absent."""
        self.look_again()
        return self._ask(lambda: self._objects.put_if_absent(key, data))

    def read(self, key: str) -> bytes:
        """See Objects.read. Small objects, which are registrations, are read once."""
        of = self._listed.get(key) if self._listed is not None else None
        if of is None or of.size > KNOWN_BYTES >> 4:
            return self._ask(lambda: self._objects.read(key))
        if (known := self.known.get(of, 0, of.size)) is not None:
            return known
        data = self._ask(lambda: self._objects.read(key))
        self.known.put(of, 0, of.size, data)
        return data

    def read_again(self, key: str) -> bytes:
        """See Objects.read_again."""
        if self._listed is not None and (of := self._listed.get(key)) is not None:
            self.known.forget(of, 0, of.size)
        return self.read(key)

    def read_ranges(self, ranges: Sequence[Range]) -> Pieces:
        """See Objects.read_ranges. A part of a listed object is read once."""
        listed = self._listed or {}
        found = {one: self.known.get(listed[one[0]], *one[1:]) for one in ranges if one[0] in listed}
        wanted = [one for one in ranges if found.get(one) is None]
        if wanted:
            self.requests += len(wanted) - 1
            for one, piece in zip(wanted, self._ask(lambda: self._objects.read_ranges(wanted)), strict=True):
                found[one] = piece
                if one[0] in listed:
                    self.known.put(listed[one[0]], *one[1:], piece)
        return [data for one in ranges if (data := found[one]) is not None]

    def open(self, key: str) -> BinaryIO:
        """See Objects.open."""
        return self._ask(lambda: self._objects.open(key))

    def scratch(self, need: int) -> AbstractContextManager[Path]:
        """See Objects.scratch."""
        return self._scratch(need)

    def fetch(self, key: str, folder: Path) -> Path:
        """See Objects.fetch."""
        return self._ask(lambda: self._objects.fetch(key, folder))

    def delete(self, key: str) -> None:
        """See Objects.delete."""
        self.look_again()
        self._ask(lambda: self._objects.delete(key))

    def confirm(self, key: str, data: Body) -> None:
        """See Objects.confirm."""
        self._ask(lambda: self._objects.confirm(key, data))

    def remove_unfinished(self, prefix: str, before_ms: int) -> Names:
        """See Objects.remove_unfinished."""
        return self._objects.remove_unfinished(prefix, before_ms)

    def prune(self, prefix: str) -> None:
        """See Objects.prune."""
        self._objects.prune(prefix)

    def _ask(self, call: Callable[[], T]) -> T:
        self.requests += 1
        try:
            return call()
        except ObjectMissing:
            self.look_again()
            raise
