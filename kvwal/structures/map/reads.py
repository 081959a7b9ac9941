"""Read-only mapping over the in-memory state: the reading methods of every map."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from contextlib import ExitStack
from html import escape
from io import BufferedIOBase
from itertools import islice
from typing import Any, TypeVar

from kvwal.codecs import NO_HOLD, Codecs, Hold
from kvwal.entry import DataEntry, Entry
from kvwal.errors import CodecError, ConfigError, ContentMissing, KvwalError
from kvwal.key_codecs import END_OF_TUPLES
from kvwal.structures.business import Memory
from kvwal.structures.map.view import KeyBounds

T = TypeVar("T")
_SHOWN, _SHOWN_TEXT = 10, 200
"""Entries, and characters of each key and value, that a notebook shows."""


class MapReads(Mapping[Any, Any]):
    """A mapping of keys to values. Each read decodes the value again, so that no caller can change the stored state.

    A key that no codec can encode (for example, a set) is an absent key. Iteration is in the order of identity: by class of
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
        try:
            return self._decode(entry.value, entry.value_class)
        except ContentMissing:
            if (later := self._replaced(entry)) is None:
                raise KeyError(key) from None
            return self._decode(later.value, later.value_class)

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        try:
            data, key_class = self._encode_key(key)
        except CodecError:
            return default
        entry = self._lookup(key_class, data)
        try:
            return default if entry is None else self._decode(entry.value, entry.value_class)
        except ContentMissing:
            if entry is None or (later := self._replaced(entry)) is None:
                return default
            return self._decode(later.value, later.value_class)

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not None

    def __len__(self) -> int:
        return self._state.count()

    def __iter__(self) -> Iterator[Any]:
        return (self._codecs.decode_key(entry.key, entry.key_class) for entry in self._state.all_ordered())

    def items(self) -> ItemsView[Any, Any]:
        """A view of keys and values. An iterator of it shows one moment."""
        return _Items(self)

    def values(self) -> ValuesView[Any]:
        """A view of values. An iterator of it shows one moment."""
        return _Values(self)

    def entry(self, key: Any) -> DataEntry | None:
        """The latest entry of `key` with its raw bytes, None if it is absent. Needs no codec for the value."""
        entry = self._find(key)
        if entry is None:
            return None
        try:
            return self._codecs.public(entry)
        except ContentMissing:
            later = self._replaced(entry)
            return None if later is None else self._codecs.public(later)

    def open(self, key: Any) -> BufferedIOBase:
        """A binary file over the bytes of a value, as its codec encoded them: a large one is not in memory whole. `KeyError`.

        It shows the value as it was when it was opened.
        """
        entry = self._find(key)
        if entry is None:
            raise KeyError(key)
        try:
            return self._codecs.open(entry)
        except ContentMissing:
            if (later := self._replaced(entry)) is None:
                raise KeyError(key) from None
            return self._codecs.open(later)

    def entries(self, prefix: str | bytes | tuple[Any, ...] | None = None) -> Iterator[DataEntry]:
        """Live entries in key order: all of them, or those whose str (or bytes) key begins with `prefix`.

        A tuple as `prefix` selects the tuples that begin with its parts.
        """
        return self._held(lambda: map(self._codecs.public, self._selected(prefix)))

    def scan(self, prefix: str | bytes | tuple[Any, ...] | None = None) -> Iterator[tuple[Any, Any]]:
        """Keys and values in key order: all of them, or those whose key begins with `prefix`, as `entries` selects them."""
        return self._held(lambda: self._decoded(self._selected(prefix)))

    def _repr_html_(self) -> str | None:
        """The first entries as a table, for notebooks; None if they cannot be read now."""
        try:
            first, count = list(islice(self.scan(), _SHOWN)), len(self)
        except KvwalError:
            return None
        rows = "".join(f"<tr><th>{_cell(key)}</th><td>{_cell(value)}</td></tr>" for key, value in first)
        left = f"<p>the first {len(first)} of {count:,} keys</p>" if count > len(first) else ""
        return f"<table><thead><tr><th>key</th><th>value</th></tr></thead><tbody>{rows}</tbody></table>{left}"

    def range(
        self, start: Any = None, end: Any = None, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """Keys and values in key order, from the key `start` to before the key `end`; None leaves that side open.

        With a bound only keys of its class count: `range(5)` has no text. `reverse` gives the greatest keys first, and
        `limit` ends after that number of keys. `CodecError` for a bound that cannot be a key, and for bounds of two classes.
        """
        bounds = key_bounds(self._codecs, start, end)
        return self._held(lambda: self._decoded(self._within(bounds, reverse=reverse, limit=limit)))

    def within(self, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None) -> Iterator[DataEntry]:
        """As `range`, the entries within bounds of stored keys, with their raw bytes."""
        return self._held(lambda: map(self._codecs.public, self._within(bounds, reverse=reverse, limit=limit)))

    def _within(self, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None) -> Iterator[Entry]:
        check_limit(limit)
        return islice(self._state.between(bounds, reverse=reverse), limit)

    def _decoded(self, entries: Iterator[Entry]) -> Iterator[tuple[Any, Any]]:
        decode_key, decode = self._codecs.decode_key, self._codecs.decode
        return ((decode_key(entry.key, entry.key_class), decode(entry.value, entry.value_class)) for entry in entries)

    def _find(self, key: Any) -> Entry | None:
        identity = self.identity(key)
        return None if identity is None else self._state.lookup(*identity)

    def identity(self, key: Any) -> tuple[str, bytes] | None:
        """Class and bytes of a key; None if no codec can encode the key, which is therefore absent."""
        return self._codecs.identity(key)

    def _held(self, begin: Callable[[], Iterator[T]]) -> Iterator[T]:
        """What is shown of entries, whose large values are kept until all is shown, a read fails, or the iterator is dropped."""
        with ExitStack() as on_error:
            hold = self._codecs.hold()  # before the look: from here on nothing is collected that it finds
            on_error.enter_context(hold)
            shown = begin()
            on_error.pop_all()
        return shown if hold is NO_HOLD else while_held(shown, hold)

    def _replaced(self, entry: Entry) -> Entry | None:
        """What replaced an entry whose large value went while it was read; None if it was deleted.

        Raises `ContentMissing`, or what else the read says now, if it is still the latest one of its key.
        """
        later = self._state.lookup(entry.key_class, entry.key)
        if later is not None and later.value == entry.value:
            self._codecs.public(later)
        return later

    def _selected(self, prefix: str | bytes | tuple[Any, ...] | None) -> Iterator[Entry]:
        if prefix is None:
            return self._state.all_ordered()
        if not isinstance(prefix, str | bytes | tuple):
            raise CodecError(f"a prefix is str, bytes or a tuple, not {type(prefix).__name__}.")
        data, key_class = self._codecs.encode_key(prefix)
        if isinstance(prefix, tuple):
            if not self._codecs.is_own(key_class):
                raise CodecError(
                    f"the codec {key_class!r} of this program has no prefixes.", hint="Give text or bytes."
                )
            return self._state.between(KeyBounds(key_class, data, data + END_OF_TUPLES))
        return self._state.ordered(key_class, data)


def key_bounds(codecs: Codecs, start: Any = None, end: Any = None) -> KeyBounds:
    """The bounds of the keys from `start` to before `end`; None leaves that side open. Raises `CodecError`."""
    if start is None and end is None:
        return KeyBounds()
    lowest, start_class = (b"", None) if start is None else codecs.encode_key(start)
    highest, end_class = (None, start_class) if end is None else codecs.encode_key(end)
    if start is not None and start_class != end_class:
        raise CodecError(
            f"a range from {start!r} to {end!r} has bounds of two classes, {start_class} and {end_class}.",
            hint="Give bounds of one type: keys of different types are not compared.",
        )
    if isinstance(start, tuple) and isinstance(end, tuple):
        _check_parts(start, end)
    return KeyBounds(end_class, lowest, highest)


def _check_parts(start: tuple[Any, ...], end: tuple[Any, ...]) -> None:
    """Raise `CodecError` if two tuples differ first in parts of two classes: their order is that of the classes."""
    for lower, upper in zip(start, end, strict=False):
        if type(lower) is not type(upper):
            raise CodecError(
                f"a range from {start!r} to {end!r} has bounds with parts of two types, {lower!r} and {upper!r}.",
                hint="Give parts of one type: those of different types are not compared.",
            )
        if lower != upper:
            return


def check_limit(limit: object) -> None:
    """Raise `ConfigError` unless `limit` is None or an int that is not negative."""
    if limit is not None and (type(limit) is not int or limit < 0):
        raise ConfigError(f"limit={limit!r} must be a whole number, 0 or more, or None for all.")


def seconds_left(key: Any, expires: int | None, now_ms: int) -> float | None:
    """The seconds until `expires` (see `Memory.expires`), None for never. `KeyError` if the key is absent."""
    if expires is None:
        raise KeyError(key)
    return max(0, expires - now_ms) / 1000 if expires else None


def while_held(found: Iterator[T], hold: Hold) -> Iterator[T]:
    """What an iterator gives. The hold is released at its end, by an error of it, or when the result is dropped.

    An error that is kept keeps the frames in which it was raised, and all that these have: a notebook keeps one for hours.
    """
    try:
        yield from found
    finally:
        hold.release()


class _Items(ItemsView[Any, Any]):
    _mapping: MapReads

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._mapping.scan()


class _Values(ValuesView[Any]):
    _mapping: MapReads

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping.scan())


def _cell(value: Any) -> str:
    """A key or value as text of HTML, cut where it is long."""
    text = repr(value)
    return escape(text if len(text) <= _SHOWN_TEXT else f"{text[: _SHOWN_TEXT - 1]}…")
