"""Members and their archive: whether it is behind, and whether it has what clients were told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import kvwal
from kvwal.codecs import registry
from kvwal.entry import DataEntry
from kvwal.location.archived import ArchiveReader
from kvwal.store.reading.business_reader import BusinessReader
from kvwal_archive.objects import Objects
from kvwal_archive.verify import verify
from tests.support.cluster.nodes import CLUSTER, Cluster, Node
from tests.support.cluster.writers import Writers
from tests.support.polling import until


def figure(node: Node, name: str, business: str) -> float:
    """A figure of one map at a member; 0 if the member has no log of it."""
    return node.figures().get(f'kvwal_{name}{{business="{business}"}}', 0)


def cannot_archive(nodes: Iterable[Node], business: str) -> bool:
    """Whether each of these members says that its last try to archive this map failed."""
    return all(node.figures().get(f'kvwal_archive_up{{business="{business}"}}') == 0 for node in nodes)


def lag(nodes: Iterable[Node], business: str) -> float:
    """How many entries of this map the archive does not hold, as the members say."""
    return sum(figure(node, "archive_lag_entries", business) for node in nodes)


def wait_archived(nodes: Sequence[Node], *businesses: str) -> None:
    """Return when the archive has caught up by itself, and no job of these maps fails any more. Nobody writes meanwhile."""

    def done() -> bool | None:
        waits = sum(lag(nodes, name) for name in businesses)
        failing = ("maintenance_failing", "damaged", "failed")
        fails = sum(figure(node, what, name) for node in nodes for what in failing for name in businesses)
        return None if waits or fails else True

    until(done)


def check_archive(objects: Objects, cluster: Cluster, writers: Writers, name: str, checked: str) -> None:
    """The merge of the archive is what the maps hold, and the history of `name` has each version that was acknowledged."""
    assert verify(objects).findings == []
    archive = ArchiveReader(objects, "default", CLUSTER, None)
    with kvwal.connect(cluster.addresses, cluster=CLUSTER) as store:
        for business in (name, checked):
            differing = set(contents(archive.read_business(business)).items()) ^ set(store.map(business).items())
            assert not differing, f"{business}: {sorted(differing, key=str)[:10]}"
    reader = archive.read_business(name)
    kept = {
        key: {registry.decode(entry.value, entry.value_class) for entry in past(reader, key) if not entry.deleted}
        for key in writers.acknowledged
    }
    lacking = sorted(put for put in writers.puts if put[1] not in kept[put[0]])
    assert not lacking, f"{len(lacking)} of {len(writers.puts)}: {lacking[:10]}"


def past(reader: BusinessReader, key: Any) -> list[DataEntry]:
    """The history of a key."""
    data, key_class = registry.encode_key(key)
    return reader.history(key_class, data)


def contents(reader: BusinessReader) -> dict[Any, Any]:
    """What a map holds by a scan of the archive."""
    return {
        registry.decode(entry.key, entry.key_class): registry.decode(entry.value, entry.value_class)
        for entry in reader.entries()
    }
