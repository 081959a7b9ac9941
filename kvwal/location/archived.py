"""An archive as a location: the objects that the logs' archivers put, without any log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.content.claim import is_content
from kvwal.entry import TIMESTAMP_SHIFT, DataEntry, is_live, timestamps_within
from kvwal.errors import ConfigError
from kvwal.history.feeds.lost_tails import warn_of
from kvwal.history.provenance.archived import ArchivedEvents
from kvwal.history.reads.entry_rows import data_entries_of, each_once, entries_of
from kvwal.history.reads.key_scan import KeySpan
from kvwal.history.reads.map_rows import expired_rows, map_rows, marks_of
from kvwal.history.reads.structure_rows import selected_ranges, selected_rows
from kvwal.history.reads.tail_reader import Identity
from kvwal.key_class import CONTENT, OWN_MAP, kind_of, structure_of
from kvwal.location.sql_source import LocationSource
from kvwal.log.files.names import first_place
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.ports.locks import Lock
from kvwal.sql.changes import archived_changes, warn_of_lost_tails
from kvwal.store.absent import check_folder_there, missing_part
from kvwal.store.contents.sources import StoredSource, source_of_archive
from kvwal.store.options import ARCHIVE_FOLDER
from kvwal.store.reading.business_reader import BusinessReader, WantedIdentity, in_direction, range_after
from kvwal.structures.map.state import MapState, after_prefix, to_state
from kvwal.structures.map.view import KeyBounds
from kvwal.structures.provenance.questions import EventQuestions
from kvwal.values.reader import StoredValues
from kvwal_archive import view
from kvwal_archive.layout import Place, parse_object_key, parse_registration_key
from kvwal_archive.lost_tails import lost_tails
from kvwal_archive.objects import Known, Objects, OneLook
from kvwal_archive.parquet.key_ranges import KeyRange, structure_ranges
from kvwal_archive.reader import listed_again, live_objects
from kvwal_archive.registry import registered

if TYPE_CHECKING:
    import pyarrow as pa


_MORE_ROWS = 20
"""How many times as many rows the second range of a page has as the first one."""


class ArchiveReader:
    """The businesses of one namespace and cluster in an archive. See `LocationReader`.

    It has what was archived: by default a store archives its entries within a minute. Each call lists the archive anew.
    """

    def __init__(self, objects: Objects, namespace: str, cluster: str, node: str | None) -> None:
        """With a `node` only the entries that this node archived."""
        self._objects = objects
        self._namespace = namespace
        self._cluster = cluster
        self._node = node
        self._known = Known(Lock())

    def businesses(self) -> list[str]:
        """See `LocationReader.businesses`."""
        return sorted({place.business for place in self._places()})

    def state(self) -> int:
        """A number that is another one, but for a chance of 2^-64, when objects were put or deleted meanwhile."""
        return hash(tuple(self._objects.list(f"{self._namespace}/{self._cluster}/")))

    def read_business(self, name: str, *, logged: bool = False) -> ArchivedBusiness:
        """See `LocationReader.read_business`. Its entries always have the timestamps of the logs."""
        nodes = [place.node for place in self._places(name)]
        if not nodes:
            raise self._no_such_log(name)
        return ArchivedBusiness(self._objects, (self._namespace, self._cluster, name), nodes, self._known)

    def provenance(self, name: str) -> EventQuestions:
        """The events of a business, as far as they were archived."""
        return EventQuestions(self.read_business(name))

    def sizes(self) -> dict[str, int | None]:
        """See `LocationReader.sizes`: the bytes of the objects that count. Raises `ConfigError` if there is none."""
        sizes: dict[str, int] = {}
        for place in self._some_places():
            of_node = sum(info.size for info in live_objects(self._objects, place))
            sizes[place.business] = sizes.get(place.business, 0) + of_node
        return dict(sorted(sizes.items()))

    def source(self, statement: str = "") -> LocationSource:
        """See `LocationReader.source`."""
        return LocationSource(
            self, statement, self._changes, events=lambda business: self.read_business(business).events()
        )

    def stats(self) -> dict[str, Any]:
        """See `LocationReader.stats`: what each node has archived of each business."""
        businesses: dict[str, dict[str, Any]] = {}
        for place in self._some_places():
            infos = live_objects(self._objects, place)
            businesses.setdefault(place.business, {})[place.node] = {
                "last_sequence": max((info.span.last for info in infos), default=0),
                "objects": len(infos),
                "entries": sum(info.footer.rows for info in infos),
                "bytes": sum(info.size for info in infos),
                "newest_object_ms": max((info.modified_ms for info in infos), default=None),
            }
        return {
            "archive": self._objects.url,
            "namespace": self._namespace,
            "cluster": self._cluster,
            "businesses": businesses,
        }

    def _changes(self, business: str, structure: str) -> pa.Table:
        places = self._places(business)
        warn_of_lost_tails(self._objects, places)
        where = (self._namespace, self._cluster, business)
        values = StoredValues(business, lambda: source_of_archive(OS_DISK, self._objects, *where))
        return values.table(archived_changes(self._objects, places))

    def _some_places(self) -> list[Place]:
        """The places, of which there is at least one. Raises `ConfigError` otherwise."""
        places = self._places()
        if not places:
            raise self._no_such_log()
        return places

    def _no_such_log(self, business: str | None = None) -> ConfigError:
        names = {"namespace": self._namespace, "cluster": self._cluster, "business": business, "node": self._node}
        return not_archived(self._objects, **names)

    def _places(self, business: str | None = None) -> list[Place]:
        places = registered(self._objects, self._namespace, self._cluster, business)
        return [place for place in places if self._node in (None, place.node)]


class ArchivedBusiness(BusinessReader):
    """A business in an archive: the merge of what some nodes archived. Each call lists their objects anew, once."""

    def __init__(self, objects: Objects, where: tuple[str, str, str], nodes: Iterable[str], known: Known) -> None:
        """`where` is its namespace, its cluster and its name. `known` is what calls know of its objects together."""
        self.name = where[2]
        self.codecs = registry
        self._objects = objects
        self._known = known
        self._where = where
        self._nodes: dict[str, int | None] = dict.fromkeys(nodes)
        self._values = StoredValues(where[2], lambda: self.content_source)
        self._skew = timestamps_within(Settings().max_skew_seconds)

    @property
    def nodes(self) -> list[str]:
        """The nodes whose objects are read."""
        return list(self._nodes)

    def between(self, low: Identity, high: Identity) -> Iterator[DataEntry]:
        """The live entries of its own map with identities from `low` to before `high`, sorted.

        Of the objects those row groups are read that may have such keys.
        """
        return self._live(ranges=[KeyRange(low, high)])

    def find(self, key_class: str, key: bytes) -> DataEntry | None:
        """See `BusinessReader.find`. Of each object a row group is read, if it can have the key."""
        look = self._look()
        newest = self._versions(look, key_class, key).slice(0, 1)
        entry = next(iter(entries_of(newest)), None)
        if entry is None or not is_live(entry, SYSTEM.wall_ms()):
            return None
        node = newest.column("node")[0].as_py()
        is_void = marks_of(look, self._where).ended(node, entry.timestamp, self._skew)
        return None if is_void else self._values.public(entry)

    def entries(self, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.entries`. All objects are read, in bounded memory; with a prefix see `within`."""
        if prefix is None:
            return self._live()
        return self.within(KeyBounds("str", prefix.encode(), after_prefix(prefix.encode())))

    def within(self, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.within`. Of the objects those row groups are read that may have such keys."""
        span = bounds.identities()
        return in_direction(self._live(ranges=None if span is None else [KeyRange(*span)]), reverse, limit)

    def page(self, bounds: KeyBounds, after: Identity | None, limit: int) -> list[DataEntry]:
        """See `BusinessReader.page`. Of the objects a few row groups are read; if most of their rows do not count, as deletes and
        rows of other structures, the rest comes as a stream.
        """
        look = self._look()
        low, high = range_after(bounds, after)
        found: list[DataEntry] = []
        for count in (limit, _MORE_ROWS * limit, 0):
            end = listed_again(partial(self._end_of_rows, look, KeyRange(low, high), count)) if count else high
            found += islice(self._live(ranges=[KeyRange(low, end)], look=look), limit - len(found))
            low = end
            if len(found) == limit or low >= high:
                break
        return found

    def _end_of_rows(self, look: Objects, wanted: KeyRange, count: int) -> Identity:
        return view.end_of_rows(look, view.latest_parts(look, *self._where, self._nodes), wanted, count)

    def select(self, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `BusinessReader.select`."""
        return self._live(wanted)

    def spans(self, spans: Sequence[KeySpan]) -> Iterator[DataEntry]:
        """See `BusinessReader.spans`. Of the objects those row groups are read that may have such keys."""
        return self._live(ranges=[KeyRange(("str", low), ("str", high)) for low, high in spans])

    def of_structure(self, structure: str, ranges: Sequence[KeyRange] | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.of_structure`. Of the objects those row groups are read that may have such keys."""
        import pyarrow.compute as pc

        now_ms = SYSTEM.wall_ms()
        wanted = selected_ranges(structure) if ranges is None else ranges
        for batch in self._rows(wanted, structure=None):
            rows = selected_rows(batch, structure)
            yield from self._values.entries(data_entries_of(rows.filter(pc.invert(expired_rows(rows, now_ms)))))

    def count(self) -> int:
        """See `BusinessReader.count`."""
        return sum(rows.num_rows for rows in self._live_rows())

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """See `BusinessReader.history`."""
        look = self._look()
        rows = self._versions(look, key_class, key)
        warn_of(lost_tails(look, *self._where, self._nodes))
        return list(self._values.entries(each_once(list(entries_of(rows)))))

    def events(self) -> ArchivedEvents:
        """The events that were archived."""
        return ArchivedEvents(self._objects, self._where, self._nodes)

    def structures_of(self, kind: str) -> list[str]:
        """The structures of a kind of which the archive has keys, sorted. Of the objects the row groups that may have them."""
        rows = self._live_rows(structure_ranges(f"{kind}/*"), structure=None)
        classes = {name for batch in rows for name in batch.column("key_class").unique().to_pylist()}
        return sorted(name for name in map(structure_of, classes) if kind_of(name) == kind)

    def content_structures(self) -> list[str]:
        """See `BusinessReader.content_structures`. Of the objects those row groups are read that may have such keys."""
        rows = self._live_rows(structure_ranges(f"{CONTENT}/*"), structure=None)
        classes = {name for batch in rows for name in batch.column("key_class").unique().to_pylist()}
        return sorted({structure_of(name) for name in classes if is_content(name)})

    @property
    def content_source(self) -> StoredSource:
        """See `BusinessReader.content_source`. Bytes are read by range."""
        return source_of_archive(OS_DISK, self._objects, *self._where)

    def as_of(self, timestamp: int, structure: str = OWN_MAP, within: KeyRange | None = None) -> MapState:
        """See `BusinessReader.as_of`. It has what was archived up to now."""
        ranges = None if within is None else [within]

        def read() -> MapState:
            entries = chain.from_iterable(map(entries_of, self._rows(ranges, timestamp, structure)))
            return to_state(entries, lambda: timestamp >> TIMESTAMP_SHIFT)

        return listed_again(read)

    def _look(self) -> Objects:
        """The archive as one call sees it: the business is listed once."""
        return OneLook(self._objects, "".join(f"{name}/" for name in self._where), self._known)

    def _versions(self, look: Objects, key_class: str, key: bytes) -> pa.Table:
        return view.history(look, *self._where, key_class=key_class, key=key, nodes=self._nodes)

    def _live(
        self,
        wanted: WantedIdentity | None = None,
        ranges: Sequence[KeyRange] | None = None,
        look: Objects | None = None,
    ) -> Iterator[DataEntry]:
        """The live entries whose keys are wanted (None: all), and in the ranges if these are given.

        A million may pass here, so all but `wanted` is done by columns.
        """
        import pyarrow as pa

        for live in self._live_rows(ranges, look=look):
            if wanted is not None:
                identities = zip(live.column("key").to_pylist(), live.column("key_class").to_pylist(), strict=True)
                live = live.filter(pa.array((wanted(*identity) for identity in identities), pa.bool_()))
            yield from self._values.entries(data_entries_of(live))

    def _live_rows(
        self,
        ranges: Sequence[KeyRange] | None = None,
        structure: str | None = OWN_MAP,
        look: Objects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow.compute as pc

        now_ms = SYSTEM.wall_ms()
        for rows in self._rows(ranges, structure=structure, look=look):
            yield rows.filter(pc.invert(expired_rows(rows, now_ms)))

    def _rows(
        self,
        ranges: Sequence[KeyRange] | None = None,
        at: int | None = None,
        structure: str | None = OWN_MAP,
        look: Objects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a structure, as one call sees the archive, or as `look` has seen it before."""
        seen = look or self._look()
        return map_rows(seen, self._where, self._skew, nodes=self._nodes, ranges=ranges, at=at, structure=structure)


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
