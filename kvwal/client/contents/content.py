"""Contents of a cluster: names in the members' logs and memory, bytes in their archive."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import partial
from pathlib import Path

from kvwal.client.cluster_business import ClusterBusiness
from kvwal.client.contents.calls import ContentCalls
from kvwal.client.contents.new_content import NewContent
from kvwal.cluster.queues.requests import MOST_CLASS_BYTES
from kvwal.config import check_file
from kvwal.content.claim import Claim
from kvwal.content.writer import parts_of_file
from kvwal.entry import DataEntry, Entry
from kvwal.errors import ConfigError, InvalidName
from kvwal.hlc import to_timestamp
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.store.contents.sources import StoredSource
from kvwal.structures.content.changes import Change, NameChanges
from kvwal.structures.content.names import (
    bytes_of,
    checked_attributes,
    content_structure,
    delete_entry,
    key_class_of,
    key_of,
    put_entry,
)
from kvwal.structures.content.reads import ContentReads
from kvwal.structures.content.stream import ContentStream
from kvwal.structures.handle import Handle
from kvwal.structures.watch import Watch, of_structure, parse_start


class ClusterContents(Handle, ContentReads):
    """Contents of a cluster: see `kvwal.structures.content.content.Contents`. It differs from those in these points:

    - Bytes are in the members' archive, which this client reads and writes itself, and on no member's disk. They are durable
      there before a member logs the name.
    - `stat`, `list` and `entry` tell the timestamp 0: the members' memory does not hold timestamps. `history` tells them.
    - The timestamp that a change returns is that of the log, or this client's clock where the member does not know it.
    - A change is never sent again after a lost answer; it raises `CommitUnknown`.
    - `repair` is refused: there are no other bytes than those in the archive.
    """

    def __init__(self, business: ClusterBusiness, calls: ContentCalls, name: str = "") -> None:
        """Raises `InvalidName`."""
        self.structure = content_structure(name)
        if len(key_class_of(self.structure)) > MOST_CLASS_BYTES:
            raise InvalidName(f"{name!r} is too long for contents of a cluster.", hint="Choose a shorter name.")
        self._business = business
        self._calls = calls
        super().__init__(
            f"{business.name}/{self.structure}", self.structure, business.state.of(self.structure), business.codecs,
            StoredSource(OS_DISK, tuple, calls.archived),
        )  # fmt: skip
        self._changes = NameChanges(business, self._key_class)

    def __repr__(self) -> str:
        return f"<Contents {self.name!r}>"

    def create(self, name: str, attributes: Mapping[str, str] | None = None) -> ContentStream:
        """See `Contents.create`. More than a few megabytes wait in a temporary file until they are whole."""
        key, given = key_of(self._codecs, name), checked_attributes(attributes)
        self._calls.check_open()
        new = NewContent(self._calls)
        return ContentStream(
            new, given, lambda claim: self._named(key, claim, new.begun_ms), partial(new.failed, self._what(name))
        )

    def put(self, name: str, data: bytes, attributes: Mapping[str, str] | None = None) -> int:
        """Put bytes under a name, and return the timestamp."""
        content = bytes_of(data)
        with self.create(name, attributes) as out:
            out.write(content)
        return out.timestamp

    def put_file(self, name: str, path: str | Path, attributes: Mapping[str, str] | None = None) -> int:
        """Put the bytes of a file under a name, and return the timestamp. `ConfigError` if the file cannot be read."""
        source = check_file("path", str(path))
        with self.create(name, attributes) as out:
            for part in parts_of_file(OS_DISK, source):
                out.write(part)
        return out.timestamp

    def copy(self, name: str, to: str) -> int:
        """See `Contents.copy`."""
        return self._changed(name, self._changes.to_name(key_of(self._codecs, to)))

    def set_attributes(self, name: str, attributes: Mapping[str, str]) -> int:
        """See `Contents.set_attributes`."""
        return self._changed(name, self._changes.with_attributes(checked_attributes(attributes)))

    def repair(self, name: str) -> bool:
        """Raise `ConfigError`: the archive has the only copy of the bytes."""
        raise ConfigError(
            f"{self._what(name)}: the bytes of a cluster's contents are in its archive only, so there is nothing to mend them"
            " from; nothing was changed.",
            hint="Put the content again, or copy its claim file into the archive from a copy of that.",
        )

    def delete(self, name: str) -> int:
        """See `Contents.delete`."""
        deleted = delete_entry(self._key_class, key_of(self._codecs, name))
        return self._calls.change([deleted]) or self._business.stamp()

    def history(self, name: str) -> list[DataEntry]:
        """All changes of a name that logs and archive hold, newest first, deletes included. See `ClusterMap.history`."""
        return self._business.history(self._key_class, key_of(self._codecs, name))

    def at(self, moment: int | date) -> ContentReads:
        """The contents as they were at a moment: see `Contents.at`. All names are transferred to this client."""
        state = self._business.as_of(to_timestamp(moment), self.structure)
        return ContentReads(self.name, self.structure, state, self._codecs, self._source)

    def watch(self, after: int | date | str | None = None) -> Watch:
        """The changes of names: see `Contents.watch`, and `kvwal.client.store.ClusterMap`."""
        return Watch(self._business.feed(parse_start(after), self.structure), of_structure(self.structure))

    def written(self, name: str, data: bytes, attributes: dict[str, str]) -> tuple[Claim, int]:
        """Put the bytes of a content into the archive. Returns their claim, and the time for `ContentCalls.change`."""
        new = NewContent(self._calls)
        try:
            new.write(data)
            return new.finish(attributes), new.begun_ms
        except OSError as error:
            raise new.failed(self._what(name), error) from error

    def _named(self, key: bytes, claim: Claim, begun_ms: int) -> int:
        """Log the name of bytes that are in the archive."""
        entry = put_entry(self._key_class, key, claim)
        return self._calls.change([entry], begun_ms=begun_ms) or self._business.stamp()

    def _changed(self, name: str, change: Change) -> int:
        """Change what is under a name, if it is still that when the change is made. `KeyError` if it is absent."""
        until = SYSTEM.elapsed() + self._business.timeout
        while True:
            found = self._entry(name)
            timestamp = self._calls.change([change(found)], [_guard(found)])
            if timestamp is not None:
                return timestamp
            if SYSTEM.elapsed() >= until:
                raise self._business.contended()


def _guard(found: Entry) -> Entry:
    return Entry(found.key, found.key_class, found.value, found.value_class, False, 0)
