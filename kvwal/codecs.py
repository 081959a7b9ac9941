"""Codecs: encode a Python value as the bytes of an entry, and decode the bytes to an equal value of the same type.

The codec's name is in the entry (`key_class`, `value_class`), so that any program can decode the bytes. A value that would not
come back equal and of the same type is refused with `CodecError` before anything is written: an int key inside JSON, a tuple
as a value, a NaN. There is no pickle codec; a program that wants one can register it at its own risk.

Key codecs keep order: the bytes of two keys of one class compare as the keys do (strings by code point). Those of
`kvwal.key_codecs.ORDERED` encode keys only.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from io import BufferedIOBase, BytesIO
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import msgspec

from kvwal.entry import DataEntry, Entry, class_of_bytes
from kvwal.errors import CodecError, ConfigError
from kvwal.key_codecs import (
    ORDERED,
    PART_TYPES,
    decode_bool,
    decode_float,
    decode_int,
    decode_none,
    encode_bool,
    encode_float,
    encode_float_key,
    encode_int,
    encode_none,
)

_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}(@[1-9][0-9]{0,5})?")


class Codec(NamedTuple):
    """A codec: a name and two functions. `keys` says that equal values give equal bytes, so that it may encode keys."""

    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    keys: bool = False


_encode_json = msgspec.json.Encoder().encode
_JSON_DEPTH = 500
"""The most levels of nesting in JSON: half of Python's recursion limit, so that a value can be decoded on a deep stack, too."""
_JSON_SCALARS = frozenset({str, bool, type(None)})


def _check_json(value: Any, levels: int = _JSON_DEPTH) -> None:
    """Raise `CodecError` for a value that JSON would not bring back as it is.

    Types must match exactly, because an object of a subclass would come back as its base class. `levels` is how many levels of
    nesting may still follow.
    """
    kind = type(value)
    if kind in _JSON_SCALARS:
        return
    if not levels:
        raise CodecError(f"the value is nested too deeply for JSON ({_JSON_DEPTH} levels at most), or holds itself.")
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise CodecError(
                    f"a key inside JSON must be a str, and {key!r} is {_describe(key)}: it would come back as text."
                )
            _check_json(item, levels - 1)
    elif kind is list:
        for item in value:
            _check_json(item, levels - 1)
    elif kind is int:
        if not -(1 << 63) <= value < 1 << 64:
            raise CodecError(
                f"the int {value} inside JSON has more than 64 bits: store it as text, or as a value of its own."
            )
    elif kind is float:
        if not math.isfinite(value):
            raise CodecError(f"JSON has no {value}: store None, or text.")
    else:
        raise CodecError(
            f"JSON cannot bring back {_describe(value)} ({value!r:.80}).",
            hint="Inside JSON kvwal takes dict with str keys, list, str, int, float, bool and None.",
        )


def _encode_checked_json(value: Any) -> bytes:
    _check_json(value)
    return _encode_json(value)


def _describe(value: Any) -> str:
    kind = type(value)
    return f"{'an' if kind.__name__[:1] in 'aeiou' else 'a'} {kind.__qualname__}"


_BUILTIN: list[tuple[tuple[type, ...], Codec]] = [
    ((str,), Codec("str", str.encode, bytes.decode, keys=True)),
    ((int,), Codec("int", encode_int, decode_int, keys=True)),
    ((float,), Codec("float", encode_float, decode_float, keys=True)),
    ((bool,), Codec("bool", encode_bool, decode_bool, keys=True)),
    ((type(None),), Codec("none", encode_none, decode_none, keys=True)),
    ((bytes,), Codec("bytes", bytes, bytes, keys=True)),
    ((dict, list), Codec("json", _encode_checked_json, msgspec.json.Decoder().decode)),
]
_ORDERED = {kind: Codec(name, encode, decode, keys=True) for name, kind, encode, decode in ORDERED}


class Hold(Protocol):
    """Keeps the bytes of large values."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def release(self) -> None:
        """Keep them no longer. A second call does nothing."""
        ...


class _NoHold(nullcontext[None]):
    def release(self) -> None:
        """Nothing is kept."""


NO_HOLD: Hold = _NoHold()
"""The hold on values of which none is large."""


class Codecs:
    """A registry of codecs. All stores use `registry`; tests create their own."""

    def __init__(self) -> None:
        self.by_type: dict[type, Codec] = {kind: codec for kinds, codec in _BUILTIN for kind in kinds}
        self.by_name: dict[str, Codec] = {codec.name: codec for _, codec in _BUILTIN}
        self._keys = {kind: codec for kind, codec in self.by_type.items() if codec.keys}
        self._keys[float] = Codec("float", encode_float_key, decode_float, keys=True)
        self._keys |= _ORDERED
        self._only_keys = {codec.name: codec for codec in _ORDERED.values()}

    def register(
        self,
        kind: type,
        name: str,
        *,
        encode: Callable[[Any], bytes] | None = None,
        decode: Callable[[bytes], Any] | None = None,
        keys: bool = False,
    ) -> None:
        """Store values of exactly the type `kind` under the codec `name`.

        Without functions, `kind` must be a dataclass or a msgspec Struct: its values are stored as JSON, and each value is
        checked to come back equal. When the shape of a type changes, register the new shape as `name@2` and keep the old name
        readable with `register_old`. `keys=True` lets the codec encode keys, too: it promises that equal values always give equal
        bytes, and that the codec never changes. A name that is taken is a `ConfigError`. Those of `ORDERED` are free, because
        programs may have had them first. A codec with `keys=True` and one of these names replaces it.
        """
        if (encode is None) != (decode is None):
            raise ConfigError(f"codec {name!r}: give both encode and decode, or neither.")
        if encode is None or decode is None:
            encode, decode = _record_codec(kind)
        else:
            encode = _checked(name, encode)
        self._add(Codec(name, encode, decode, keys))
        self.by_type[kind] = self.by_name[name]
        if keys:
            self._keys[kind] = self.by_name[name]

    def register_old(self, name: str, decode: Callable[[bytes], Any]) -> None:
        """Register a codec for reading only: values that were written under `name` stay readable."""

        def refuse(value: Any) -> bytes:
            raise CodecError(f"the codec {name!r} is for reading only.")

        self._add(Codec(name, refuse, decode))

    def _add(self, codec: Codec) -> None:
        if not _NAME.fullmatch(codec.name):
            raise ConfigError(
                f"{codec.name!r} is no codec name: lower-case letters, digits, '_', '.', '-', then '@2' for a version."
            )
        if codec.name in self.by_name:
            raise ConfigError(
                f"the codec name {codec.name!r} is taken.", hint="A changed shape needs a new version: name@2."
            )
        self.by_name[codec.name] = codec
        if codec.keys and (replaced := self._only_keys.pop(codec.name, None)) is not None:
            for kind in [kind for kind, other in self._keys.items() if other is replaced]:
                del self._keys[kind]  # in place: the codecs of a business share it

    def encode_key(self, key: Any) -> tuple[bytes, str]:
        """The bytes and class of a key."""
        codec = self._keys.get(key.__class__)
        if codec is None:
            raise CodecError(
                f"{_describe(key)} cannot be a key ({key!r:.80}).",
                hint=f"Keys are {PART_TYPES}, or of a type registered with keys=True.",
            )
        try:
            return codec.encode(key), codec.name
        except (ValueError, TypeError, OverflowError) as error:
            raise _refused(codec, key, error) from error

    def identity(self, key: Any) -> tuple[str, bytes] | None:
        """Class and bytes of a key; None if no codec can encode the key, which is therefore absent."""
        try:
            data, key_class = self.encode_key(key)
        except CodecError:
            return None
        return key_class, data

    def encode_value(self, value: Any) -> tuple[bytes, str]:
        """The bytes and class of a value."""
        codec = self.by_type.get(value.__class__)
        if codec is None:
            raise CodecError(
                f"there is no codec for {_describe(value)} ({value!r:.80}).",
                hint="Store str, int, float, bool, None, bytes, dict, list, or a type given to kvwal.codecs.register.",
            )
        try:
            return codec.encode(value), codec.name
        except (ValueError, TypeError, OverflowError) as error:
            raise _refused(codec, value, error) from error

    def encode_puts(self, pairs: Iterable[tuple[Any, Any]]) -> list[Entry]:
        """Entries that put each pair. As `encode_key` and `encode_value`, but codecs are looked up only when a type changes."""
        entries: list[Entry] = []
        append = entries.append
        key_type = value_type = None
        for key, value in pairs:
            try:
                if key.__class__ is not key_type:
                    key_class, encode_key = self._keys[key.__class__][:2]
                    key_type = key.__class__
                if value.__class__ is not value_type:
                    value_class, encode_value = self.by_type[value.__class__][:2]
                    value_type = value.__class__
                append(Entry(encode_key(key), key_class, encode_value(value), value_class, False, 0))
            except (LookupError, ValueError, TypeError, OverflowError):
                self.encode_key(key)
                self.encode_value(value)
                raise
        return entries

    def names(self) -> list[str]:
        """The names of all codecs, of keys and of values."""
        return [*self.by_name, *self._only_keys]

    def check_known(self, data: bytes, name: str) -> None:
        """Raise `CodecError` if no codec of this name is registered, as `decode` would."""
        if class_of_bytes(name) not in self.by_name:
            raise _not_registered(name, len(data))

    def is_own(self, key_class: str) -> bool:
        """Whether keys of this class have a codec of `ORDERED`."""
        return key_class in self._only_keys

    def decode_key(self, data: bytes, key_class: str) -> Any:
        """The key that was encoded as `data`. Raises as `decode`."""
        return self._decode(data, key_class, self._only_keys.get(key_class) or self.by_name.get(key_class))

    def decode(self, data: bytes, name: str) -> Any:
        """The value that was encoded as `data`. An unknown codec, or bytes that it cannot decode, is a `CodecError`."""
        return self._decode(data, name, self.by_name.get(name))

    def hold(self) -> Hold:
        """Keep the bytes of large values that are there now, to the end of the block, or until the hold is released or dropped.

        `NO_HOLD` if nothing takes them away.
        """
        return NO_HOLD

    def public(self, entry: Entry) -> DataEntry:
        """An entry as callers see it, with the bytes of its value."""
        return entry.public()

    def whole(self, entry: DataEntry) -> DataEntry:
        """As `public`, of an entry for callers."""
        return entry

    def read(self, entry: Entry) -> Entry:
        """An entry with the bytes of its value."""
        return entry

    def open(self, entry: Entry) -> BufferedIOBase:
        """A binary file over the bytes of an entry's value, as its codec encoded them."""
        return BytesIO(entry.value)

    def _decode(self, data: bytes, name: str, codec: Codec | None) -> Any:
        if codec is None:
            return self._not_known(data, name)
        try:
            return codec.decode(data)
        except CodecError:
            raise
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError, struct.error) as error:
            raise CodecError(
                f"{len(data)} bytes are no {name!r}: {error}.", hint="Read the raw bytes with entry(key)."
            ) from error

    def _not_known(self, data: bytes, name: str) -> object:
        raise _not_registered(name, len(data))


def _not_registered(name: str, size: int) -> CodecError:
    return CodecError(
        f"the codec {name!r} is not registered here, so {size} bytes cannot be decoded.",
        hint="Register it, or read the raw bytes with entry(key).",
    )


def _refused(codec: Codec, value: Any, error: Exception) -> CodecError:
    return CodecError(f"the codec {codec.name!r} cannot encode {value!r:.80}: {error}.")


def _checked(name: str, encode: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    """`encode`, held to its promise: a block with anything but bytes in it could never be read again."""

    def checked(value: Any) -> bytes:
        data = encode(value)
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        raise CodecError(f"the codec {name!r} encodes to {_describe(data)}, and must encode to bytes.")

    return checked


def _record_codec(kind: type) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    if not (hasattr(kind, "__dataclass_fields__") or issubclass(kind, msgspec.Struct)):
        raise ConfigError(f"{kind.__qualname__} is neither a dataclass nor a msgspec Struct: give encode and decode.")
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(kind).decode

    def encode(value: Any) -> bytes:
        data = _encode_json(value)
        if decode(data) != value:
            raise CodecError(
                f"{value!r:.80} would not come back equal from JSON.", hint="Give the codec its own encode and decode."
            )
        return data

    return encode, decode


registry = Codecs()
# Only the Java bridge in a node writes these (docs/decisions/0009): a Long in the range of an Integer, and serialized bytes.
registry.register_old("int64", decode_int)
registry.register_old("hz", bytes)
register = registry.register
register_old = registry.register_old
