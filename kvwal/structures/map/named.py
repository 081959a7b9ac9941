"""Named maps: maps beside a business's own one, in the same log. The class of their keys says which map a key is of.

Its keys are those of the structure `map/<name>` (`kvwal/key_class.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from io import BufferedIOBase
from typing import Any

from kvwal.codecs import Codecs, Hold
from kvwal.entry import DataEntry, Entry
from kvwal.hlc import to_timestamp
from kvwal.structures.business import LocalBusiness
from kvwal.structures.map.changes import EntryBuilder
from kvwal.structures.map.map import Map
from kvwal.structures.map.reads import MapReads
from kvwal.structures.watch import Watch, of_structure, parse_start
from kvwal_archive.layout import check_name


class NamedMap(Map):
    """A map of a business that has a name of its own. See `Map`."""

    def __init__(self, business: LocalBusiness, name: str, store: object = None) -> None:
        """Raises `InvalidName`."""
        self._structure = map_structure(name)
        self._local = business
        super().__init__(business, store)
        codecs = StructureCodecs(business.codecs, self._structure)
        MapReads.__init__(self, business.state_of(self._structure), codecs)
        self._changes = EntryBuilder(business, codecs)

    def __repr__(self) -> str:
        """The names of business, map and store."""
        return f"<Map '{self._local.name}/{self._structure}'{f' of {self._store!r}' if self._store else ''}>"

    def at(self, moment: int | date) -> MapReads:
        """See `Map.at`."""
        return MapReads(self._local.as_of(to_timestamp(moment), self._structure), self._codecs)

    def watch(self, after: int | date | str | None = None) -> Watch:
        """See `Map.watch`."""
        return Watch(self._local.feed(parse_start(after)), of_structure(self._structure), self._codecs.whole)


def map_structure(name: str) -> str:
    """The structure of the map `name` of a business. Raises `InvalidName`."""
    return f"map/{check_name('map', name)}"


class StructureCodecs(Codecs):
    """The codecs of a registry, for the keys of one structure: their classes have its name in front."""

    def __init__(self, registry: Codecs, structure: str) -> None:
        self._registry = registry
        self._front = f"{structure}:"

    def encode_key(self, key: Any) -> tuple[bytes, str]:
        """See `Codecs.encode_key`."""
        data, key_class = self._registry.encode_key(key)
        return data, self._front + key_class

    def encode_value(self, value: Any) -> tuple[bytes, str]:
        """See `Codecs.encode_value`."""
        return self._registry.encode_value(value)

    def encode_puts(self, pairs: Iterable[tuple[Any, Any]]) -> list[Entry]:
        """See `Codecs.encode_puts`."""
        entries = self._registry.encode_puts(pairs)
        for entry in entries:
            entry.key_class = self._front + entry.key_class
        return entries

    def hold(self) -> Hold:
        """See `Codecs.hold`."""
        return self._registry.hold()

    def public(self, entry: Entry) -> DataEntry:
        """See `Codecs.public`."""
        return self._registry.public(entry)

    def whole(self, entry: DataEntry) -> DataEntry:
        """See `Codecs.whole`."""
        return self._registry.whole(entry)

    def read(self, entry: Entry) -> Entry:
        """See `Codecs.read`."""
        return self._registry.read(entry)

    def open(self, entry: Entry) -> BufferedIOBase:
        """See `Codecs.open`."""
        return self._registry.open(entry)

    def names(self) -> list[str]:
        """See `Codecs.names`."""
        return self._registry.names()

    def is_own(self, key_class: str) -> bool:
        """See `Codecs.is_own`."""
        return self._registry.is_own(key_class.removeprefix(self._front))

    def decode_key(self, data: bytes, key_class: str) -> Any:
        """See `Codecs.decode_key`."""
        return self._registry.decode_key(data, key_class.removeprefix(self._front))

    def decode(self, data: bytes, name: str) -> Any:
        """See `Codecs.decode`."""
        return self._registry.decode(data, name)
