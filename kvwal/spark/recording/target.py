"""The target of a recording: the map of the records, and the spool of the events that are not in it yet."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kvwal.client.address import ClusterAddress, check_address
from kvwal.config import check_folder
from kvwal.location.connect import connect, is_cluster
from kvwal.location.opening import only_reads
from kvwal.location.parse import ArchiveLocation, ClusterLocation, parse_location
from kvwal.ports.disk import OS_DISK
from kvwal.spark.eventlog.log_reader import BUSINESS
from kvwal.spark.eventlog.logs import ApplicationIdentity
from kvwal.spark.index import CLUSTER, node_of_mark
from kvwal.spark.leases import LeasedMap
from kvwal.spark.recording.delivery import OpenRecords
from kvwal.spark.recording.nodes import RecorderRoot, application_node, merge_many, open_for_logs, open_recording
from kvwal.spark.recording.spool import Spool
from kvwal.store.sync import Store

if TYPE_CHECKING:
    # Its module needs the packages of kvwal[cluster], which who records into a folder may not have.
    from kvwal.client.store import ClusterStore


class LogStore(NamedTuple):
    """The store that Spark's own event log is kept in. `open` gives it for a block; `location` are the words, as a shell takes
    them, that `kvwal record` takes.
    """

    open: Callable[[], AbstractContextManager[Any]]
    location: str
    is_remote: bool = False
    """Whether its bytes may go to a bucket by requests of this process."""
    open_again: Callable[[], AbstractContextManager[Any]] | None = None
    """Opens it for a block if the caller has closed it meanwhile; None if that cannot be done."""


class Target(NamedTuple):
    """The store for the records of one application. `location` are the words, as a shell takes them, that name it for a command.
    `node` is that of the index's mark.

    `open` gives the map of the records for a block. A cluster is connected to for that block, so that a recording goes on after
    the cluster was away. A folder is open already, because its node has a lock; `close` closes it. `unlock` comes after the last
    use of the spool. `tidy` comes last: in a folder it moves the records of finished applications to the node that they share.
    `logs` is the store for Spark's own event log. It is used after `close`.
    """

    open: OpenRecords
    spool: Spool
    node: str
    location: str
    logs: LogStore
    close: Callable[[], None] = lambda: None
    unlock: Callable[[], None] = lambda: None
    tidy: Callable[[], None] = lambda: None


def open_target(
    store: Store | ClusterStore | str | Path, application: ApplicationIdentity, spool: Path, options: Mapping[str, Any]
) -> Target:
    """The target of an application's records.

    A folder is opened as a node that is named after the application, with `options` as `kvwal.open` takes them. A cluster is not
    connected to yet; `options` are those of `kvwal.connect`. An open store stays open. The spool of a folder is in the folder.
    That of a cluster is under `spool`, and is locked: `StoreLocked` if another recorder of this application has it.
    """
    location = parse_location(OS_DISK, store) if isinstance(store, str | Path) else None
    if isinstance(location, ArchiveLocation):
        raise only_reads(location)
    if isinstance(location, ClusterLocation):
        address = check_address(location.addresses, **options)
        connecting = partial(connect, location.addresses, **options)
        return _in_cluster(address, partial(_connected, location.addresses, options), connecting, application, spool)
    with ExitStack() as undo:
        if location is not None:
            store = undo.enter_context(open_recording(location.root, application.app, application.attempt, options))
        if isinstance(store, str | Path):
            raise TypeError(f"{store!r} was opened to be a store")
        if is_cluster(store):
            opened = _opened(store.map(BUSINESS))
            target = _in_cluster(store.address, opened, partial(nullcontext, store), application, spool)
        else:
            target = _in_folder(cast("Store", store), application, options if location is not None else None)
        return target._replace(close=undo.pop_all().close)


def _in_folder(store: Store, application: ApplicationIdentity, options: Mapping[str, Any] | None) -> Target:
    """The target in an open folder. One that was opened for this recording, with `options`, is tidied after it."""
    spool = Spool(store.root, store.namespace, store.cluster, store.node or application.app)
    location, where = shlex.quote(str(store.root)), RecorderRoot(store.root, store.namespace, store.cluster)
    again = partial(open_for_logs, where, store.options.as_arguments())
    logs = LogStore(partial(nullcontext, store), location, open_again=again)
    target = Target(_opened(store.map(BUSINESS)), spool, node_of_mark(store), location, logs)
    if options is None:
        return target
    logs = logs._replace(open=partial(open_for_logs, where, options))
    return target._replace(logs=logs, tidy=partial(merge_many, where))


def _in_cluster(
    address: ClusterAddress,
    opened: OpenRecords,
    connecting: Callable[[], AbstractContextManager[Any]],
    application: ApplicationIdentity,
    folder: Path,
) -> Target:
    """The target in a cluster, with its locked spool under `folder`. `connecting` gives the store itself for a block."""
    spool = Spool(folder, address.namespace, address.cluster, application_node(application.app, application.attempt))
    store = f"kvwal://{','.join(address.texts)} --cluster {address.cluster} --namespace {address.namespace}"
    location = f"{store} --spool {shlex.quote(str(folder))}"
    with ExitStack() as undo:
        lock = spool.lock()
        undo.callback(lock.release)
        spool.name_addresses(address.texts)
        undo.pop_all()
    logs = LogStore(connecting, store, is_remote=True)
    return Target(opened, spool, CLUSTER, location, logs, unlock=lock.release)


def _opened(records: LeasedMap) -> OpenRecords:
    return lambda: nullcontext(records)


@contextmanager
def _connected(addresses: str, options: Mapping[str, Any]) -> Iterator[LeasedMap]:
    with connect(addresses, **options) as store:
        yield store.map(BUSINESS)


def default_spool(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of the spools of recorders into a cluster: `kvwal` in the user's folder for state (XDG_STATE_HOME)."""
    state = environment.get("XDG_STATE_HOME")
    return (check_folder("XDG_STATE_HOME", state) if state else Path.home() / ".local" / "state") / "kvwal"
