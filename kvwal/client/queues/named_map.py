"""Named maps of a business of a cluster: they share one map of Hazelcast with the business's own map and its queues."""

from __future__ import annotations

from datetime import date
from typing import NoReturn

from kvwal.client.cluster_business import ClusterBusiness
from kvwal.errors import ConfigError
from kvwal.structures.map.changes import EntryBuilder
from kvwal.structures.map.map import Map
from kvwal.structures.map.named import StructureCodecs, map_structure
from kvwal.structures.map.reads import MapReads


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

    def at(self, moment: int | date) -> NoReturn:
        """Raise `ConfigError`: the past of a named map of a cluster is in its archive."""
        raise self._not_here("its past")

    def watch(self, after: int | date | str | None = None) -> NoReturn:
        """Raise `ConfigError`: a named map of a cluster cannot be watched."""
        raise self._not_here("a watch")

    def _not_here(self, what: str) -> ConfigError:
        return ConfigError(
            f"{self._shared.name}/{self._structure}: a named map of a cluster does not give {what}; nothing was read.",
            hint="Use the business's own map for it, or query the archive of the cluster.",
        )
