"""Claim files as objects: put once, read by range.

A claim file belongs to a business and not to a log: its name is random, its bytes never change, and each node that has an entry
with a claim on it reads the same object.

A store logs the entry that names a file, and archives the file later. A client of a cluster does it the other way round: the file
is *put first*, and its name says so.
"""

from __future__ import annotations

from pathlib import Path

from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import claim_file_key, content_folder, parse_claim_file_key
from kvwal_archive.objects import Objects
from kvwal_archive.objects.port import Body


class ArchivedContents:
    """The claim files of one business in an archive. `url` may be shown."""

    def __init__(self, objects: Objects, namespace: str, cluster: str, business: str) -> None:
        self.url = objects.url
        self._objects = objects
        self._where = (namespace, cluster, business)

    def put(self, file: str, body: Body) -> bool:
        """Put the bytes of a claim file unless it is there, and return when it is confirmed. Returns whether this call put it."""
        key = claim_file_key(*self._where, file)
        is_new = self._objects.put_if_absent(key, body)
        self._objects.confirm(key, body)
        return is_new

    def part(self, file: str, offset: int, size: int) -> bytes:
        """Bytes of a claim file; fewer if it ends before. Raises ObjectMissing."""
        key = claim_file_key(*self._where, file)
        return self._objects.read_ranges([(key, offset, offset + size)])[0]

    def sizes(self) -> dict[str, int]:
        """The bytes of each claim file, by its name."""
        listed = self._objects.list(content_folder(*self._where))
        return {parsed[3]: item.size for item in listed if (parsed := parse_claim_file_key(item.key)) is not None}

    def fetch(self, file: str, folder: Path) -> Path:
        """A local file with the bytes of a claim file: see `Objects.fetch`. Raises ObjectMissing."""
        return self._objects.fetch(claim_file_key(*self._where, file), folder)

    def size(self, file: str) -> int:
        """The bytes of one claim file. Raises ObjectMissing."""
        key = claim_file_key(*self._where, file)
        found = next((item.size for item in self._objects.list(key) if item.key == key), None)
        if found is None:
            raise ObjectMissing(f"{self.url}: {key} is not there.")
        return found
