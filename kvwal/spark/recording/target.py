"""The target of a recording: the map of the records, and the spool of the events that are not in it yet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kvwal.client.connect import connect
from kvwal.location.opening import only_reads
from kvwal.location.parse import ArchiveLocation, ClusterLocation, parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.spark.eventlog.log_reader import BUSINESS, RecordMap
from kvwal.spark.eventlog.logs import ApplicationIdentity
from kvwal.spark.index import node_of_mark
from kvwal.spark.recording.nodes import RecorderRoot, application_node, merge_many, open_recording
from kvwal.spark.recording.spool import Spool
from kvwal.store.sync import Store

if TYPE_CHECKING:
    from kvwal.client.store import ClusterStore


class Target(NamedTuple):
    """An open store for the records of one application. `location` names it in messages. `node` is that of the index's mark.

    `close` closes the store, if it was opened for this recording. `unlock` comes after the last use of the spool. `tidy` comes
    last: in a folder it moves the records of finished applications to the node that they share.
    """

    records: RecordMap
    spool: Spool
    node: str
    location: str
    close: Callable[[], None] = lambda: None
    unlock: Callable[[], None] = lambda: None
    tidy: Callable[[], None] = lambda: None


def open_target(
    store: Store | ClusterStore | str | Path, application: ApplicationIdentity, spool: Path, options: Mapping[str, Any]
) -> Target:
    """Open the target of an application's records.

    A folder is opened as a node named after the application, and a cluster is connected to, with `options` as `kvwal.open` or
    `kvwal.connect` takes them. An open store stays open. The spool of a folder is in the folder. That of a cluster is under
    `spool`, and is locked: `StoreLocked` if another recorder of this application has it.
    """
    location = parse_location(OS_DISK, store) if isinstance(store, str | Path) else None
    if isinstance(location, ArchiveLocation):
        raise only_reads(location)
    with ExitStack() as undo:
        if isinstance(location, ClusterLocation):
            store = undo.enter_context(connect(location.addresses, **options))
        elif location is not None:
            store = undo.enter_context(open_recording(location.root, application.app, application.attempt, options))
        if isinstance(store, Store):
            target = _in_folder(store, application, is_own=location is not None)
        elif isinstance(store, str | Path):
            raise TypeError(f"{store!r} was opened to be a store")
        else:
            addresses = location.addresses if isinstance(location, ClusterLocation) else "HOST:PORT"
            target = _in_cluster(store, application, spool, addresses)
        return target._replace(close=undo.pop_all().close)


def _in_folder(store: Store, application: ApplicationIdentity, *, is_own: bool) -> Target:
    """The target in an open folder. One that was opened for this recording (`is_own`) is tidied after it."""
    spool = Spool(store.root, store.namespace, store.cluster, store.node or application.app)
    target = Target(store.map(BUSINESS), spool, node_of_mark(store), str(store.root))
    if not is_own:
        return target
    return target._replace(tidy=partial(merge_many, RecorderRoot(store.root, store.namespace, store.cluster)))


def _in_cluster(store: ClusterStore, application: ApplicationIdentity, folder: Path, addresses: str) -> Target:
    """The target in a cluster, with its locked spool under `folder`. `addresses` are those of the cluster in messages."""
    spool = Spool(folder, store.namespace, store.cluster, application_node(application.app, application.attempt))
    records = store.map(BUSINESS)
    lock = spool.lock()
    names = f"kvwal://{addresses} --cluster {store.cluster} --namespace {store.namespace} --spool {folder}"
    return Target(records, spool, node_of_mark(store), names, unlock=lock.release)


def default_spool(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the spools of recorders into a cluster: `kvwal` in the user's folder for state (XDG_STATE_HOME)."""
    state = environment.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "kvwal"
