"""Contents in a transaction: their bytes are written at once, their names are there at the end of the block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kvwal.content.claim import Claim, claim_of
from kvwal.content.source import Reader
from kvwal.entry import Entry
from kvwal.log.submission import GroupView
from kvwal.structures.content.names import bytes_of, checked_attributes, delete_entry, key_of, put_entry
from kvwal.structures.transaction import GiveBack, TransactionChanges

if TYPE_CHECKING:
    from kvwal.structures.content.content import Contents


class ContentChanges:
    """The changes of one structure in a block, by name. They count as decided in the order of the log: see `Writer._format`."""

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}

    def room(self) -> list[Entry]:
        """See `DecidedChanges.room`."""
        return list(self.entries.values())

    def decide(self, group: GroupView) -> list[Entry]:
        """See `DecidedChanges.decide`."""
        return list(self.entries.values())

    def give_backs(self) -> Sequence[GiveBack]:
        """See `DecidedChanges.give_backs`: a block takes no content from anybody."""
        return ()

    def give_back(self) -> None:
        """See `DecidedChanges.give_back`."""


class ContentsInTransaction:
    """The contents of one structure in a block. Every call raises `TransactionClosed` outside the block.

    A read shows what the block has put, and else what is there at that moment.
    """

    def __init__(self, changes: TransactionChanges, target: Contents) -> None:
        self._changes = changes
        self._target = target
        self._structure = target._structure

    def put(self, name: str, data: bytes, attributes: Mapping[str, str] | None = None) -> None:
        """Put bytes under a name, at the end of the block. They are durable when this returns. See `Contents.put`."""
        key, given = self._checked(name, attributes)
        self._named(key, self._written(name, data, given))

    def get(self, name: str) -> bytes:
        """The bytes of a content, with the changes of this block; `KeyError` if it is absent."""
        change = self._change(name)
        if change is None:
            return self._target.get(name)
        if change.deleted:
            raise KeyError(name)
        return self._source.read(self._target._what(name), claim_of(change))

    def copy(self, name: str, to: str) -> None:
        """Give the bytes of a content a second name, at the end of the block; `KeyError` if it is absent now."""
        key = key_of(self._target._codecs, to)
        self._add(put_entry(self._target._key_class, key, self._kept(name)))

    def delete(self, name: str) -> None:
        """Delete a name, at the end of the block, whether it is there or not."""
        self._add(delete_entry(self._target._key_class, key_of(self._target._codecs, name)))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def _checked(self, name: str, attributes: Mapping[str, str] | None) -> tuple[bytes, dict[str, str]]:
        """The key of a new content, and its attributes. Raises `TransactionClosed` outside the block."""
        self._changes.check_open()
        return key_of(self._target._codecs, name), checked_attributes(attributes)

    def _written(self, name: str, data: bytes, attributes: dict[str, str]) -> Claim:
        """Make bytes durable. Their file is unsettled until it is known whether the block was written."""
        files = self._target._files()
        try:
            claim = files.write(bytes_of(data), attributes)
        except OSError as error:
            raise files.failed(self._target._what(name), error) from error
        self._changes.at_end(partial(files.settled, claim.file))
        return claim

    def _named(self, key: bytes, claim: Claim) -> None:
        """Give a name to bytes that are durable, at the end of the block."""
        self._add(put_entry(self._target._key_class, key, claim))

    def _kept(self, name: str) -> Claim:
        """The claim of a name. Its file is unsettled until the end of the block, and the name was there after it was."""
        files = self._target._files()
        claim = claim_of(self._entry(name))
        while True:
            files.unsettled(claim.file)
            self._changes.at_end(partial(files.settled, claim.file))
            before, claim = claim, claim_of(self._entry(name))
            if claim.file == before.file:
                return claim

    def _add(self, entry: Entry) -> None:
        self._changes.decided(self._structure, ContentChanges).entries[entry.key] = entry

    @property
    def _source(self) -> Reader:
        return self._target._source

    def _entry(self, name: str) -> Entry:
        entry = self._find(name)
        if entry is None:
            raise KeyError(name)
        return entry

    def _find(self, name: str) -> Entry | None:
        change = self._change(name)
        if change is None:
            return self._target._memory.lookup(self._target._key_class, key_of(self._target._codecs, name))
        return None if change.deleted else change

    def _change(self, name: str) -> Entry | None:
        """The change of a name in this block, None if it has none."""
        key = key_of(self._target._codecs, name)
        return self._changes.decided(self._structure, ContentChanges).entries.get(key)
