"""The nodes of a root that recorders share: one for each application that is being recorded, and one for all the others.

A recorder that was given a root opens a node of its own, so that drivers never wait for each other. When the application has
ended, the records move into the shared node, and the application's node goes (`kvwal.store.root_nodes.merge`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kvwal.codecs import registry
from kvwal.errors import StoreLocked
from kvwal.history.reads.stable_read import live_entry
from kvwal.history.reads.tail_reader import find_entry, read_log
from kvwal.location.opening import Names, open_reader
from kvwal.location.parse import FolderLocation
from kvwal.log.files.names import find_places
from kvwal.log.unlocked.sinks import Uncounted
from kvwal.ports.boundary import contain, logged
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK, Disk
from kvwal.spark.eventlog.log_reader import BUSINESS
from kvwal.spark.index import complete_index, is_whole, mark_key
from kvwal.spark.record_keys import app_prefix
from kvwal.spark.recording.spool import POSITION, spools
from kvwal.store.root_nodes.merge import MergePorts, MergeResult, has_leftovers, merge_nodes
from kvwal.store.sync import Store, open_store
from kvwal_archive.layout import Place

SHARED = "shared"
"""The node for the records of all finished applications, in a root where no other node is theirs."""
MANY_NODES = 32
"""Nodes of finished applications that a recorder merges into the shared node when it is closed."""
_AGAIN = re.compile(r"\.[0-9]+$")
_COPIED = 500
"""Records that are copied in one transaction."""


_not_indexed = logged("the index of a node could not be written")


class RecorderRoot(NamedTuple):
    """The root into which recorders record, and the namespace and the cluster there."""

    root: Path
    namespace: str
    cluster: str

    def places(self, disk: Disk = OS_DISK, business: str | None = None, closed: set[str] | None = None) -> list[Place]:
        """The logs of all nodes, or those of one business. See `find_places` for `closed`."""
        return find_places(disk, self.root, self.namespace, self.cluster, business, closed)


def application_node(app: str, attempt: str) -> str:
    """The node as which a recorder that was given a root records an application."""
    return "-".join(filter(None, (app, attempt)))


def is_application_node(disk: Disk, root: Path, place: Place) -> bool:
    """Whether a recorder made this log: it has the record, or the position, of the application that the node is named after."""
    for name in dict.fromkeys((place.node, _AGAIN.sub("", place.node))):
        app, _, attempt = name.rpartition("-")
        for prefix in (app_prefix(name), app_prefix(app, attempt)):
            for record in ("app", POSITION):
                if find_entry(disk, root, place, _identity(f"{prefix}/{record}")) is not None:
                    return True
    return False


def _is_empty(disk: Disk, root: Path, place: Place) -> bool:
    """Whether a log has no entry: a recorder may have opened it just now."""
    return read_log(disk, root, place, Uncounted).following <= 1


def _identity(key: str) -> tuple[str, bytes]:
    data, key_class = registry.encode_key(key)
    return key_class, data


def shared_node(where: RecorderRoot, disk: Disk = OS_DISK) -> str | None:
    """The node that the records of finished applications and of event logs belong to, in a root with several nodes.

    It is `SHARED` if there is such a node, else the only node that no recorder made, else `SHARED`. None for a root with at
    most one node, where `choose_node` chooses.
    """
    places = where.places(disk, closed=set())
    nodes = {place.node for place in places}
    if len(nodes) <= 1:
        return None
    if SHARED in nodes:
        return SHARED
    recorded = {
        place.node
        for place in places
        if place.business == BUSINESS
        # In this order: its recorder may write the first records between the two looks.
        and (_is_empty(disk, where.root, place) or is_application_node(disk, where.root, place))
    }
    others = nodes - recorded
    return min(others) if len(others) == 1 else SHARED


def node_for_kept_logs(where: RecorderRoot, disk: Disk = OS_DISK) -> str:
    """The node that event logs are kept in: `shared_node`, and not the node of an application that is the only one here.

    A node with contents stays a node of its own (`finished_nodes`), so a recorder puts none into that of its application.
    """
    shared = shared_node(where, disk)
    if shared is not None:
        return shared
    others = [
        place.node
        for place in where.places(disk, closed=set())
        if place.business != BUSINESS
        or not (_is_empty(disk, where.root, place) or is_application_node(disk, where.root, place))
    ]
    return others[0] if others else SHARED


def finished_nodes(where: RecorderRoot, shared: str, disk: Disk = OS_DISK) -> list[str]:
    """The nodes of applications whose recorder was closed, or was killed and whose spool was read since."""
    recording = {
        spool.node for spool in spools(where.root) if spool[1:3] == (where.namespace, where.cluster) and spool.logs()
    }
    closed: set[str] = set()
    places = where.places(disk, closed=closed)
    if closed:
        return []  # their nodes are not known, and a node that has another business is not merged
    others = {place.node for place in places if place.business != BUSINESS}
    return [
        place.node
        for place in places
        if place.business == BUSINESS and place.node not in {shared, *recording, *others}
        and is_application_node(disk, where.root, place)
    ]  # fmt: skip


def merge_finished(
    where: RecorderRoot, progress: Callable[[int, int, str], None], nodes: Sequence[str] | None = None
) -> MergeResult | None:
    """Move the records of finished applications into the shared node; of these `nodes`, or of all. None if there are none.

    Errors are those of `merge_nodes`.
    """
    shared = shared_node(where)
    if shared is None:
        return None
    finished = finished_nodes(where, shared) if nodes is None else nodes
    target = Place(where.namespace, where.cluster, BUSINESS, shared)
    if not finished and not has_leftovers(OS_DISK, where.root, target):
        return None
    # Without an index all records are read for a list: that is slower, and no reason not to merge.
    for node in finished:
        contain(partial(_complete_index, where, node), _not_indexed)
    merged = merge_nodes(MergePorts(OS_DISK, SYSTEM), where.root, target, finished, progress)
    contain(partial(_complete_index, where, shared), _not_indexed)
    return merged


def _complete_index(where: RecorderRoot, node: str) -> None:
    """Write the index of a node's records if it is not whole. Errors are those of `kvwal.open`."""
    place = Place(where.namespace, where.cluster, BUSINESS, node)
    mark = find_entry(OS_DISK, where.root, place, _identity(mark_key(node)))
    if mark is not None and not mark.deleted and is_whole(registry.decode(mark.value, mark.value_class)):
        return
    names: dict[str, Any] = {"namespace": where.namespace, "cluster": where.cluster}
    with open_store(where.root, **names, node=node, archive=None) as store:
        complete_index(store.map(BUSINESS), node)


def merge_many(where: RecorderRoot) -> None:
    """Move the records of finished applications to the shared node, if there are many of their nodes.

    One driver in many does so, and for a limited number of nodes, so that the end of a driver is never long. Another driver
    that does the same holds the lock of the shared node meanwhile.
    """
    if len(where.places(business=BUSINESS)) < MANY_NODES:
        return
    finished = finished_nodes(where, shared_node(where) or "")
    if len(finished) >= MANY_NODES:
        with suppress(StoreLocked):
            merge_finished(where, lambda done, total, what: None, finished[:MANY_NODES])


def open_recording(root: str | Path, app: str, attempt: str, options: Mapping[str, Any]) -> Store:
    """Open the node that the records of an application go to.

    It is a new node if the application was recorded before, and the records have moved to the shared node: then they are
    copied into it, because a recorder goes on with what was counted. Errors are those of `kvwal.open`.
    """
    where = RecorderRoot(Path(root), options.get("namespace", "default"), options.get("cluster", "local"))
    name, prefix = application_node(app, attempt), app_prefix(app, attempt)
    nodes = [place.node for place in where.places(business=BUSINESS)]
    own = sorted(node for node in nodes if node == name or _AGAIN.sub("", node) == name)
    if own:
        return open_store(root, node=own[-1], **options)
    position = _identity(f"{prefix}/{POSITION}")
    if live_entry(OS_DISK, *where, BUSINESS, None, position, SYSTEM.wall_ms()) is None:
        return open_store(root, node=name, **options)
    store = open_store(root, node=f"{name}.{time.time_ns() // 1_000_000_000}", **options)
    _copy_records(where, f"{prefix}/", store)
    return store


def open_for_logs(where: RecorderRoot, options: Mapping[str, Any]) -> Store:
    """Open the node that event logs are kept in. Errors are those of `kvwal.open`."""
    return open_store(where.root, node=node_for_kept_logs(where), **options)


def _copy_records(where: RecorderRoot, prefix: str, store: Store) -> None:
    records = store.map(BUSINESS)
    copied: dict[Any, Any] = {}
    with open_reader(FolderLocation(where.root), Names(where.namespace, where.cluster, archive=None)) as reader:
        for entry in reader.read_business(BUSINESS).entries(prefix):
            copied[registry.decode_key(entry.key, entry.key_class)] = registry.decode(entry.value, entry.value_class)
            if len(copied) >= _COPIED:
                records.put_many(copied)
                copied = {}
    if copied:
        records.put_many(copied)
    complete_index(records, store.node or "")
