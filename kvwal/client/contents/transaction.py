"""Contents in a transaction of a cluster: their bytes are put at once, their names are there at the end of the block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from kvwal.client.contents.calls import ContentCalls
from kvwal.client.contents.content import ClusterContents
from kvwal.content.claim import Claim, claim_of
from kvwal.entry import Entry
from kvwal.errors import ConfigError
from kvwal.structures.content.names import bytes_of, checked_attributes, delete_entry, key_of, put_entry
from kvwal.structures.transaction import TransactionChanges


class BlockContents:
    """What a block has put into contents: `begun_ms` is the time for `ContentCalls.change`, 0 if it has put nothing."""

    def __init__(self, calls: ContentCalls) -> None:
        self.begun_ms = 0
        self._calls = calls

    def note_put(self, begun_ms: int) -> None:
        """Bytes were put after this time of a member."""
        self.begun_ms = min(self.begun_ms or begun_ms, begun_ms)

    def commit(self, entries: list[Entry]) -> int:
        """Commit the changes of a block without queues, and return the timestamp."""
        return self._calls.change(entries, begun_ms=self.begun_ms) or 0


class ClusterContentsInTransaction:
    """The contents of one structure in a block. Every call raises `TransactionClosed` outside the block.

    A read shows what the block has put, and else what is there at that moment.
    """

    def __init__(self, changes: TransactionChanges, target: ClusterContents, block: BlockContents) -> None:
        self._changes = changes
        self._target = target
        self._block = block

    def put(self, name: str, data: bytes, attributes: Mapping[str, str] | None = None) -> None:
        """Put bytes under a name, at the end of the block. They are in the archive when this returns."""
        key, given = self.checked(name, attributes)
        self.named(key, *self.written(name, bytes_of(data), given))

    def checked(self, name: str, attributes: Mapping[str, str] | None) -> tuple[bytes, dict[str, str]]:
        """The key of a new content, and its attributes. Raises `TransactionClosed` outside the block."""
        self._changes.check_open()
        return key_of(self._target._codecs, name), checked_attributes(attributes)

    def written(self, name: str, data: bytes, attributes: dict[str, str]) -> tuple[Claim, int]:
        """See `ClusterContents.written`."""
        return self._target.written(name, data, attributes)

    def named(self, key: bytes, claim: Claim, begun_ms: int) -> None:
        """Give a name to bytes that are in the archive, at the end of the block."""
        self._changes.add([put_entry(self._target._key_class, key, claim)])
        self._block.note_put(begun_ms)

    def get(self, name: str) -> bytes:
        """The bytes of a content, with the changes of this block; `KeyError` if it is absent."""
        change = self._change(name)
        if change is None:
            return self._target.get(name)
        if change.deleted:
            raise KeyError(name)
        return self._target._source.read(self._target._what(name), claim_of(change))

    def copy(self, name: str, to: str) -> NoReturn:
        """Raise `ConfigError`: between the block's read and its end the bytes could be collected."""
        raise ConfigError(
            f"{self._target._what(name)}: a block of a cluster copies no content; nothing was written.",
            hint="Copy it before or after the block, or put its bytes again.",
        )

    def delete(self, name: str) -> None:
        """Delete a name, at the end of the block, whether it is there or not."""
        self._changes.check_open()
        self._changes.add([delete_entry(self._target._key_class, key_of(self._target._codecs, name))])

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        change = self._change(name)
        return name in self._target if change is None else not change.deleted

    def _change(self, name: str) -> Entry | None:
        """The change of a name in this block, None if it has none."""
        self._changes.check_open()
        return self._changes.last_change((self._target._key_class, key_of(self._target._codecs, name)))
