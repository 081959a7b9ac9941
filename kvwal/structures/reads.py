"""Read-only mapping over the in-memory state: the reading methods of every map."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any

from kvwal.codecs import Codecs
from kvwal.entry import DataEntry, Entry
from kvwal.errors import CodecError
from kvwal.structures.business import Memory


class MapReads(Mapping[Any, Any]):
    """A mapping of keys to values. Each read decodes the value again, so that no caller can change the stored state.

    A key that no codec can encode (for example, a tuple) is an absent key. Iteration is in the order of identity: by class of
    key, then by key. An iterator shows the moment at which it was created. It reads a few entries at a time, so writes go on
    beside it, and it keeps the old entries of keys that were changed ahead of it. The first iterator over many keys sorts the
    keys beside the writes; the longest write meanwhile takes some tens of milliseconds at a million keys.
    """

    def __init__(self, state: Memory, codecs: Codecs) -> None:
        self._state = state
        self._codecs = codecs
        # A get is three calls. Looking up their methods at each get would cost as much as one of the calls.
        self._encode_key = codecs.encode_key
        self._lookup = state.lookup
        self._decode = codecs.decode

    def __getitem__(self, key: Any) -> Any:
        """The value of `key`; `KeyError` if it is absent, deleted or expired."""
        try:
            data, key_class = self._encode_key(key)
        except CodecError as error:
            raise KeyError(key) from error
        entry = self._lookup(key_class, data)
        if entry is None:
            raise KeyError(key)
        return self._decode(entry.value, entry.value_class)

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        try:
            data, key_class = self._encode_key(key)
        except CodecError:
            return default
        entry = self._lookup(key_class, data)
        return default if entry is None else self._decode(entry.value, entry.value_class)

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def __len__(self) -> int:
        return self._state.count()

    def __iter__(self) -> Iterator[Any]:
        return (self._codecs.decode(entry.key, entry.key_class) for entry in self._state.all_ordered())

    def items(self) -> ItemsView[Any, Any]:
        """A view of keys and values. An iterator of it shows one moment."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """A view of values. An iterator of it shows one moment."""
        return _Values(self)

    def entry(self, key: Any) -> DataEntry | None:
        """The latest entry of `key` with its raw bytes, None if it is absent. Needs no codec for the value."""
        entry = self._find(key)
        return None if entry is None else entry.public()

    def entries(self, prefix: str | bytes | None = None) -> Iterator[DataEntry]:
        """Live entries in key order: all of them, or those whose str (or bytes) key begins with `prefix`."""
        return (entry.public() for entry in self._scan(prefix))

    def scan(self, prefix: str | bytes | None = None) -> Iterator[tuple[Any, Any]]:
        """Keys and values in key order: all of them, or those whose str (or bytes) key begins with `prefix`."""
        decode = self._codecs.decode
        return (
            (decode(entry.key, entry.key_class), decode(entry.value, entry.value_class)) for entry in self._scan(prefix)
        )

    def _find(self, key: Any) -> Entry | None:
        identity = self.identity(key)
        return None if identity is None else self._state.lookup(*identity)

    def identity(self, key: Any) -> tuple[str, bytes] | None:
        """Class and bytes of a key; None if no codec can encode the key, which is therefore absent."""
        try:
            data, key_class = self._codecs.encode_key(key)
        except CodecError:
            return None
        return key_class, data

    def _scan(self, prefix: str | bytes | None) -> Iterator[Entry]:
        if prefix is None:
            return self._state.all_ordered()
        if not isinstance(prefix, str | bytes):
            raise CodecError(f"a prefix is str or bytes, not {type(prefix).__name__}.")
        data, key_class = self._codecs.encode_key(prefix)
        return self._state.ordered(key_class, data)


class _Items(ItemsView[Any, Any]):
    _mapping: MapReads

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping.scan()


class _Values(ValuesView[Any]):
    _mapping: MapReads

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping.scan())
