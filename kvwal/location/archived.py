"""An archive as a location: the objects that the logs' archivers put, without any log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.entry import TIMESTAMP_SHIFT, DataEntry, is_live, timestamps_within
from kvwal.errors import ConfigError
from kvwal.history.entry_rows import data_entries_of, each_once, entries_of
from kvwal.history.feed.lost_tails import warn_of
from kvwal.history.map_rows import expired_rows, map_rows, marks_of
from kvwal.history.wanted import KeySpan
from kvwal.location.readers import WantedIdentity, in_direction
from kvwal.log.files.names import first_place
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.store.absent import check_folder_there, missing_part
from kvwal.store.options import ARCHIVE_FOLDER
from kvwal.structures.map.reads import MapReads
from kvwal.structures.map.state import MapState, to_state
from kvwal.structures.map.view import KeyBounds
from kvwal_archive import view
from kvwal_archive.layout import Place, parse_object_key, parse_registration_key
from kvwal_archive.lost_tails import lost_tails
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.key_ranges import KeyRange
from kvwal_archive.reader import listed_again, live_objects
from kvwal_archive.registry import registered

if TYPE_CHECKING:
    import pyarrow as pa


class ArchiveReader:
    """The businesses of one namespace and cluster in an archive. See `Reader`.

    It has what was archived: by default a store archives its entries within a minute. Each call lists the archive anew.
    """

    def __init__(self, objects: Objects, namespace: str, cluster: str, node: str | None) -> None:
        """With a `node` only the entries that this node archived."""
        self._objects = objects
        self._namespace = namespace
        self._cluster = cluster
        self._node = node
        self._skew = timestamps_within(Settings().max_skew_seconds)

    def map(self, name: str, /) -> MapReads:
        """See `Reader.map`."""
        entries = chain.from_iterable(map(entries_of, self._rows(name)))
        return MapReads(to_state(entries, SYSTEM.wall_ms), registry)

    def at(self, business: str, timestamp: int) -> MapReads:
        """See `Reader.at`. It has what was archived up to now."""

        def read() -> MapState:
            entries = chain.from_iterable(map(entries_of, self._rows(business, at=timestamp)))
            return to_state(entries, lambda: timestamp >> TIMESTAMP_SHIFT)

        return MapReads(listed_again(read), registry)

    def businesses(self) -> list[str]:
        """See `Reader.businesses`."""
        return sorted({place.business for place in self._places()})

    def lookup(self, business: str, key: Any) -> DataEntry | None:
        """See `Reader.lookup`."""
        return self.find(business, key)

    def find(self, business: str, key: Any) -> DataEntry | None:
        """See `Reader.find`. Of each object a few pages are read."""
        nodes = self._nodes(business)
        where = (self._namespace, self._cluster, business)
        data, key_class = registry.encode_key(key)
        newest = view.history(self._objects, *where, key_class=key_class, key=data, nodes=nodes).slice(0, 1)
        entry = next(iter(entries_of(newest)), None)
        if entry is None or not is_live(entry, SYSTEM.wall_ms()):
            return None
        node = newest.column("node")[0].as_py()
        is_void = marks_of(self._objects, where).ended(node, entry.timestamp, self._skew)
        return None if is_void else entry.public()

    def scan(self, business: str, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `Reader.scan`."""
        return self.entries(business, prefix)

    def entries(self, business: str, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `Reader.entries`. All objects are read, in bounded memory."""
        if prefix is None:
            return self._live(business, None)
        begins = prefix.encode()
        return self._live(business, lambda key, key_class: key_class == "str" and key.startswith(begins))

    def scan_within(
        self, business: str, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[DataEntry]:
        """See `Reader.scan_within`."""
        return self.entries_within(business, bounds, reverse=reverse, limit=limit)

    def entries_within(
        self, business: str, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[DataEntry]:
        """See `Reader.entries_within`. Of the objects those row groups are read that may have such keys."""
        if (span := bounds.identities()) is None:
            return in_direction(self.entries(business), reverse, limit)
        return in_direction(self._live(business, None, [KeyRange(*span)]), reverse, limit)

    def select(self, business: str, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `Reader.select`."""
        return self._live(business, wanted)

    def scan_wanted(self, business: str, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `Reader.scan_wanted`."""
        return self._live(business, wanted)

    def scan_spans(self, business: str, spans: Sequence[KeySpan]) -> Iterator[DataEntry]:
        """See `Reader.scan_spans`. Of the objects those row groups are read that may have such keys."""
        return self._live(business, None, [KeyRange(("str", low), ("str", high)) for low, high in spans])

    def history(self, business: str, key: Any) -> list[DataEntry]:
        """See `Reader.history`."""
        nodes = self._nodes(business)
        data, key_class = registry.encode_key(key)
        where = (self._namespace, self._cluster, business)
        rows = view.history(self._objects, *where, key_class=key_class, key=data, nodes=nodes)
        warn_of(lost_tails(self._objects, *where, nodes))
        return each_once(list(entries_of(rows)))

    def sizes(self) -> dict[str, int | None]:
        """See `Reader.sizes`: the bytes of the objects that count. Raises `ConfigError` if there is none."""
        sizes: dict[str, int] = {}
        for place in self._some_places():
            of_node = sum(info.size for info in live_objects(self._objects, place))
            sizes[place.business] = sizes.get(place.business, 0) + of_node
        return dict(sorted(sizes.items()))

    def count(self, business: str) -> int:
        """See `Reader.count`."""
        return sum(rows.num_rows for rows in self._live_rows(business))

    def stats(self) -> dict[str, Any]:
        """See `Reader.stats`: what each node has archived of each business."""
        businesses: dict[str, dict[str, Any]] = {}
        for place in self._some_places():
            infos = live_objects(self._objects, place)
            businesses.setdefault(place.business, {})[place.node] = {
                "last_sequence": max((info.span.last for info in infos), default=0),
                "objects": len(infos),
                "entries": sum(info.footer.rows for info in infos),
                "bytes": sum(info.size for info in infos),
            }
        return {
            "archive": self._objects.url,
            "namespace": self._namespace,
            "cluster": self._cluster,
            "businesses": businesses,
        }

    def _live(
        self, business: str, wanted: WantedIdentity | None, ranges: Sequence[KeyRange] | None = None
    ) -> Iterator[DataEntry]:
        """The live entries whose keys are wanted (None: all), and in the ranges if these are given.

        A million may pass here, so all but `wanted` is done by columns.
        """
        import pyarrow as pa

        for live in self._live_rows(business, ranges):
            if wanted is not None:
                identities = zip(live.column("key").to_pylist(), live.column("key_class").to_pylist(), strict=True)
                live = live.filter(pa.array((wanted(*identity) for identity in identities), pa.bool_()))
            yield from data_entries_of(live)

    def _live_rows(self, business: str, ranges: Sequence[KeyRange] | None = None) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        now_ms = SYSTEM.wall_ms()
        for rows in self._rows(business, ranges):
            yield rows.filter(pc.invert(expired_rows(rows, now_ms)))

    def _rows(
        self, business: str, ranges: Sequence[KeyRange] | None = None, at: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        where = (self._namespace, self._cluster, business)
        return map_rows(self._objects, where, self._skew, nodes=self._nodes(business), ranges=ranges, at=at)

    def _nodes(self, business: str) -> dict[str, int | None]:
        """The nodes of a business, as the archive's readers take them. Raises `ConfigError` if there is none."""
        places = self._places()
        nodes: dict[str, int | None] = {place.node: None for place in places if place.business == business}
        if not nodes:
            raise self._no_such_log(business)
        return nodes

    def _some_places(self) -> list[Place]:
        """The places, of which there is at least one. Raises `ConfigError` otherwise."""
        places = self._places()
        if not places:
            raise self._no_such_log()
        return places

    def _no_such_log(self, business: str | None = None) -> ConfigError:
        names = {"namespace": self._namespace, "cluster": self._cluster, "business": business, "node": self._node}
        return not_archived(self._objects, **names)

    def _places(self) -> list[Place]:
        places = registered(self._objects, self._namespace, self._cluster)
        return [place for place in places if self._node in (None, place.node)]


def check_archive_folder(objects: Objects) -> None:
    """Raise `ConfigError` for an archive in a folder that is not there."""
    folder = _folder_of(objects)
    if folder is not None:
        check_folder_there(OS_DISK, folder)


def _folder_of(objects: Objects) -> Path | None:
    return None if "://" in objects.url else Path(objects.url)


def not_archived(
    objects: Objects,
    *,
    namespace: str | None = None,
    cluster: str | None = None,
    business: str | None = None,
    node: str | None = None,
) -> ConfigError:
    """The error of a read of logs that are not in an archive: it names what is missing, and lists what is there.

    None selects all. The whole archive is listed for it.
    """
    try:
        check_archive_folder(objects)
    except ConfigError as error:
        return error
    places = places_under(objects, "")
    if places:
        missing = missing_part(objects.url, places, Place(namespace or "", cluster or "", business or "", node or ""))
        return ConfigError(
            missing.what, hint=f"{missing.hint} What was never archived is in the store's own folder only."
        )
    folder = _folder_of(objects)
    if folder is None or first_place(OS_DISK, folder) is None:
        return ConfigError(f"{objects.url}: nothing is archived here.", hint="Check the name of the archive.")
    own = folder / ARCHIVE_FOLDER
    return ConfigError(
        f"{folder} is the folder of a store, and no archive.",
        hint=f"Its archive is {own}." if OS_DISK.is_folder(own) else "Name the archive that was given to the store.",
    )


def places_under(objects: Objects, prefix: str) -> list[Place]:
    """The places of the logs that have objects or registrations under this prefix, sorted. Lists all that is under the prefix."""
    parsed = (parse_object_key(item.key) or parse_registration_key(item.key) for item in objects.list(prefix))
    return sorted({key[0] for key in parsed if key is not None})
