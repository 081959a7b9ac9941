"""Named maps of a business of a cluster: they share one map of Hazelcast with the business's own map and its queues."""

from __future__ import annotations

from datetime import date

from kvwal.client.cluster_business import ClusterBusiness
from kvwal.hlc import to_timestamp
from kvwal.structures.map.changes import EntryBuilder
from kvwal.structures.map.map import Map
from kvwal.structures.map.named import StructureCodecs, map_structure
from kvwal.structures.map.reads import MapReads
from kvwal.structures.watch import Watch, of_structure, parse_start


class ClusterNamedMap(Map):
    """A map of a business of a cluster that has a name of its own. See `Map`, and `kvwal.client.store.ClusterMap`."""

    def __init__(self, business: ClusterBusiness, name: str) -> None:
        """Raises `InvalidName`."""
        self._structure = map_structure(name)
        self._shared = business
        super().__init__(business)
        codecs = StructureCodecs(business.codecs, self._structure)
        MapReads.__init__(self, business.state.of(self._structure), codecs)
        self._changes = EntryBuilder(business, codecs)

    def __repr__(self) -> str:
        """The names of business and map."""
        return f"<Map '{self._shared.name}/{self._structure}'>"

    def at(self, moment: int | date) -> MapReads:
        """See `Map.at`."""
        return MapReads(self._shared.as_of(to_timestamp(moment), self._structure), self._codecs)

    def watch(self, after: int | date | str | None = None) -> Watch:
        """See `Map.watch`, and `kvwal.client.store.ClusterMap` for what a killed member brings back."""
        return Watch(self._shared.feed(parse_start(after), self._structure), of_structure(self._structure))
