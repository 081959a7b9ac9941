"""An archive as a location: the objects that the logs' archivers put, without any log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from archive import view
from archive.layout import Place, parse_object_key, parse_registration_key
from archive.objects import Objects
from archive.parquet.key_ranges import KeyRange
from archive.reader import live_objects
from archive.registry import registered
from kvwal.cluster.archive_load import expired_rows, map_rows, marks_of
from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.entry import DataEntry, is_live, timestamps_within
from kvwal.errors import ConfigError
from kvwal.history.timeline import data_entries_of, each_once, entries_of
from kvwal.history.wanted import KeySpan
from kvwal.location.readers import WantedIdentity
from kvwal.ports.clock import SYSTEM
from kvwal.structures.reads import MapReads
from kvwal.structures.state import to_state

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
        return each_once(
            list(entries_of(view.history(self._objects, *where, key_class=key_class, key=data, nodes=nodes)))
        )

    def stats(self) -> dict[str, Any]:
        """See `Reader.stats`: what each node has archived of each business."""
        businesses: dict[str, dict[str, Any]] = {}
        places = self._places()
        if not places:
            raise ConfigError(
                f"{self._objects.url}: the archive has nothing of {self._namespace}/{self._cluster}.",
                hint="Check the URL, --namespace and --cluster: `kvwal archive list` shows what is there.",
            )
        for place in places:
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
        import pyarrow.compute as pc

        now_ms = SYSTEM.wall_ms()
        for rows in self._rows(business, ranges):
            live = rows.filter(pc.invert(expired_rows(rows, now_ms)))
            if wanted is not None:
                identities = zip(live.column("key").to_pylist(), live.column("key_class").to_pylist(), strict=True)
                live = live.filter(pa.array((wanted(*identity) for identity in identities), pa.bool_()))
            yield from data_entries_of(live)

    def _rows(self, business: str, ranges: Sequence[KeyRange] | None = None) -> Iterator[pa.RecordBatch]:
        where = (self._namespace, self._cluster, business)
        return map_rows(self._objects, where, self._skew, nodes=self._nodes(business), ranges=ranges)

    def _nodes(self, business: str) -> dict[str, int | None]:
        """The nodes of a business, as the archive's readers take them. Raises `ConfigError` if there is none."""
        places = self._places()
        nodes: dict[str, int | None] = {place.node: None for place in places if place.business == business}
        if not nodes:
            there = ", ".join(sorted({place.business for place in places})) or "none"
            of_node = f" of node {self._node}" if self._node else ""
            raise ConfigError(
                f"{self._objects.url}: the archive has no business {business!r} in {self._namespace}/{self._cluster}{of_node}"
                f" (there are: {there}).",
                hint="Check the name, --namespace and --cluster. What was never archived is in the store's own folder only.",
            )
        return nodes

    def _places(self) -> list[Place]:
        places = registered(self._objects, self._namespace, self._cluster)
        return [place for place in places if self._node in (None, place.node)]


def places_under(objects: Objects, prefix: str) -> list[Place]:
    """The places of the logs that have objects or registrations under this prefix, sorted. Lists all that is under the prefix."""
    parsed = (parse_object_key(item.key) or parse_registration_key(item.key) for item in objects.list(prefix))
    return sorted({key[0] for key in parsed if key is not None})
