"""Contents of a business: bytes of any size under a name, whose claims are in the log and whose bytes stand beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from pathlib import Path

from kvwal.config import check_file
from kvwal.content.claim import Claim, claim_of
from kvwal.content.files import ContentFiles
from kvwal.entry import DataEntry, Entry
from kvwal.errors import ContentDamaged, KvwalError
from kvwal.hlc import to_timestamp
from kvwal.log.submission import Submission
from kvwal.log.waiter import Waiter
from kvwal.structures.business import LocalBusiness
from kvwal.structures.content.changes import Change, NameChanges
from kvwal.structures.content.names import (
    bytes_of,
    checked_attributes,
    content_structure,
    delete_entry,
    key_of,
    put_entry,
)
from kvwal.structures.content.naming import NameWaiter
from kvwal.structures.content.reads import ContentReads
from kvwal.structures.content.stream import ContentStream
from kvwal.structures.handle import Handle
from kvwal.structures.watch import Watch, of_structure, parse_start

Commit = Callable[[ContentFiles, bytes, Claim], int]
"""Logs the claim of durable bytes under a key, and returns the timestamp."""


class Contents(Handle, ContentReads):
    """Contents by name. Any number of threads may use them.

    A change returns when bytes and name are durable: the bytes always, the name as the flush policy says. If it raises, the
    content is not there, and one that had the name before stays; only after `CommitUnknown` it may be otherwise. Bytes never
    change: a put is another content of that name, and the history reads the old bytes as long as it reaches back. Every method
    that changes something may raise `LogFailed`, `StorageFull`, `ContentFailed`, `StoreClosed`, `InvalidName`.
    """

    def __init__(self, business: LocalBusiness, name: str = "", store: object = None) -> None:
        """Raises `InvalidName`. A reference to `store` is kept, so that it is not closed by garbage collection meanwhile."""
        self._structure = content_structure(name)
        self._business = business
        self._store = store
        super().__init__(
            f"{business.name}/{self._structure}", self._structure, business.state_of(self._structure), business.codecs,
            business.content_source,
        )  # fmt: skip
        self._changes = NameChanges(business, self._key_class)

    def __repr__(self) -> str:
        return f"<Contents {self.name!r}{f' of {self._store!r}' if self._store else ''}>"

    def create(self, name: str, attributes: Mapping[str, str] | None = None) -> ContentStream:
        """A binary file to write into: at the end of its `with` block the content is there whole, or not at all."""
        return self._stream(name, attributes, self._named)

    def put(self, name: str, data: bytes, attributes: Mapping[str, str] | None = None) -> int:
        """Put bytes under a name, and return the timestamp."""
        key, given, content = key_of(self._codecs, name), checked_attributes(attributes), bytes_of(data)
        files = self._files()
        try:
            claim = files.write(content, given)
        except OSError as error:
            raise files.failed(self._what(name), error) from error
        return self._named(files, key, claim)

    def put_file(self, name: str, path: str | Path, attributes: Mapping[str, str] | None = None) -> int:
        """Put the bytes of a file under a name, and return the timestamp. `ConfigError` if the file cannot be read."""
        source = check_file("path", str(path))
        with self.create(name, attributes) as out:
            for part in self._files().parts_of(source):
                out.write(part)
        return out.timestamp

    def copy(self, name: str, to: str) -> int:
        """Give the bytes of a content a second name, and return the timestamp. No byte is copied. `KeyError` if it is absent."""
        return self._changed(name, self._changes.to_name(key_of(self._codecs, to)))

    def set_attributes(self, name: str, attributes: Mapping[str, str]) -> int:
        """Give a content other attributes, and return the timestamp. `KeyError` if it is absent. Its bytes stay."""
        return self._changed(name, self._changes.with_attributes(checked_attributes(attributes)))

    def repair(self, name: str) -> bool:
        """Write a content again whose bytes beside the log are damaged or missing, with those of the archive.

        Returns whether that was needed. `ContentDamaged` if the archive has not the right bytes either, `KeyError` if there is
        no content of this name. The damaged file stays until the history has passed it.
        """
        entry = self._entry(name)
        try:
            self.check(name)
        except ContentDamaged:
            data = self.get(name)
        else:
            return False
        files = self._files()
        try:
            made = files.write(data, claim_of(entry).attributes)
        except OSError as error:
            raise files.failed(self._what(name), error) from error
        mended = put_entry(self._key_class, entry.key, made)
        self._settling(files, made, partial(self._changes.replaced, entry, mended))
        return True

    def delete(self, name: str) -> int:
        """Delete a name, whether it is there or not, and return the timestamp. The bytes go when the history has passed them."""
        return self._logged(delete_entry(self._key_class, key_of(self._codecs, name)))

    def history(self, name: str) -> list[DataEntry]:
        """All changes of a name that log and archive hold, newest first, deletes included. See `Map.history`."""
        return self._business.history(self._key_class, key_of(self._codecs, name))

    def at(self, moment: int | date) -> ContentReads:
        """The contents as they were at a moment: see `Map.at`. Bytes that were replaced since come from the archive."""
        state = self._business.as_of(to_timestamp(moment), self._structure)
        return ContentReads(self.name, self._structure, state, self._codecs, self._business.content_source.of_past())

    def watch(self, after: int | date | str | None = None) -> Watch:
        """The changes of names from now on, or after a moment: see `Map.watch`."""
        return Watch(self._business.feed(parse_start(after)), of_structure(self._structure))

    def _files(self) -> ContentFiles:
        return self._business.content_files()

    def _stream(self, name: str, attributes: Mapping[str, str] | None, commit: Commit) -> ContentStream:
        key, given = key_of(self._codecs, name), checked_attributes(attributes)
        files = self._files()
        return ContentStream(
            files.begin(), given, lambda claim: commit(files, key, claim),
            lambda error: files.failed(self._what(name), error),
        )  # fmt: skip

    def _named(self, files: ContentFiles, key: bytes, claim: Claim) -> int:
        """Log the name of bytes that are durable."""
        entry = put_entry(self._key_class, key, claim)
        self._settling(files, claim, partial(self._changes.logged, entry))
        return entry.timestamp

    def _settling(self, files: ContentFiles, claim: Claim, change: Callable[[Waiter], Submission]) -> None:
        """Have a change logged that names these bytes, and settle their file then."""
        waiter = NameWaiter(partial(files.settled, claim.file))
        try:
            self._business.submit(change(waiter), waits=True)
        except KvwalError:
            files.settled(claim.file)
            raise
        waiter.result()

    def _logged(self, entry: Entry) -> int:
        """Log an entry, and return its timestamp."""
        waiter = Waiter()
        self._business.submit(self._changes.logged(entry, waiter), waits=True)
        waiter.result()
        return entry.timestamp

    def _changed(self, name: str, change: Change) -> int:
        """Change what is under a name, in the order of the log. Returns the timestamp; `KeyError` if it is absent."""
        made: list[Entry] = []
        waiter = Waiter()
        self._business.submit(self._changes.changed(self._entry(name), change, made, waiter), waits=True)
        if not waiter.result():
            raise KeyError(name)
        return made[0].timestamp
