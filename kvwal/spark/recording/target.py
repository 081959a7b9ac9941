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
from kvwal.spark.recording.nodes import RecorderRoot, application_node, merge_many, open_recording
from kvwal.spark.recording.spool import Spool
from kvwal.store.sync import Store

if TYPE_CHECKING:
    from kvwal.client.store import ClusterStore


class Target(NamedTuple):
    """An open store for the records of one application. `location` names it in messages.

    `close` closes the store, if it was opened for this recording. `unlock` comes after the last use of the spool. `tidy` comes
    last: in a folder it moves the records of finished applications to the node that they share.
    """

    records: RecordMap
    spool: Spool
    location: str
    close: Callable[[], None]
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
    node = application_node(application.app, application.attempt)
    with ExitStack() as undo:
        location = parse_location(OS_DISK, store) if isinstance(store, str | Path) else None
        if isinstance(location, ArchiveLocation):
            raise only_reads(location)
        if isinstance(location, ClusterLocation):
            store = undo.enter_context(connect(location.addresses, **options))
        elif location is not None:
            store = undo.enter_context(open_recording(location.root, application.app, application.attempt, options))
        if isinstance(store, str | Path):
            raise TypeError(f"{store!r} was opened to be a store")
        records = store.map(BUSINESS)
        if (root := getattr(store, "root", None)) is not None:
            place = Spool(Path(root), store.namespace, store.cluster, getattr(store, "node", None) or application.app)
            if location is None:
                return Target(records, place, str(root), undo.pop_all().close)
            tidy = partial(merge_many, RecorderRoot(Path(root), store.namespace, store.cluster))
            return Target(records, place, str(root), undo.pop_all().close, tidy=tidy)
        place = Spool(spool, store.namespace, store.cluster, node)
        lock = place.lock()
        where = f"kvwal://{location.addresses}" if isinstance(location, ClusterLocation) else "kvwal://HOST:PORT"
        names = f"{where} --cluster {store.cluster} --namespace {store.namespace} --spool {spool}"
        return Target(records, place, names, undo.pop_all().close, lock.release)


def default_spool(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the spools of recorders into a cluster: `kvwal` in the user's folder for state (XDG_STATE_HOME)."""
    state = environment.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "kvwal"
