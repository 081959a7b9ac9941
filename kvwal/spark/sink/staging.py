"""Staging places: where tasks leave blocks of rows until the driver writes them, and the names of what is there.

    <namespace>/<cluster>/<business>/<write>/<partition>-<attempt>-<number>.rows
    <namespace>/<cluster>/<business>/<write>/manifest        put before the first of several transactions

A write is a job's name, or a query's name with an epoch and a run. The place is a folder or bucket that driver and workers reach:
`_staging` in the root of an embedded store, or the one that the option `staging` names. A cluster keeps the blocks in a volatile
map of its own, which loses them with its last member, and after `LEFTOVER_SECONDS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kvwal.cluster.map_names import VOLATILE
from kvwal.location.connect import connect
from kvwal.location.parse import ClusterLocation, FolderLocation
from kvwal.ports.clock import SYSTEM
from kvwal.spark.sink.blocks import StagedBlock, entries_of, lost
from kvwal.spark.sink.options import WriteOptions
from kvwal_archive.faults import ObjectMissing, archive_errors
from kvwal_archive.objects import Listed, Listing, open_objects
from kvwal_archive.objects.owner import make_folders
from kvwal_archive.objects.port import Names

if TYPE_CHECKING:
    from kvwal.client.store import ClusterMap
    from kvwal.entry import Entry

FOLDER = "_staging"
LEFTOVER_SECONDS = 2 * 86400
"""How old blocks are that no write will use any more: those of drivers and tasks that were killed."""
MANIFEST = "manifest"
_MAP = f"{VOLATILE}kvwal-staging"
_WRITE = re.compile(r"[A-Za-z0-9-]{1,80}(/[0-9]{20}-[A-Za-z0-9-]{1,80})?")


class StagingStore(Protocol):
    """The methods of an object store that staging needs: see `kvwal_archive.objects`."""

    def list(self, prefix: str) -> Listing:
        """The objects whose names begin so."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Keep an object."""
        ...

    def read(self, key: str) -> bytes:
        """The bytes of an object. Raises ObjectMissing."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object."""
        ...

    def remove_unfinished(self, prefix: str, before_ms: int) -> Names:
        """Remove what killed tasks left unfinished."""
        ...

    def prune(self, prefix: str) -> None:
        """Remove folders that are empty."""
        ...


def epoch_write(query: str, epoch: int, run: str) -> str:
    """The name of the write of an epoch by a run of a query."""
    return f"{query}/{epoch:020d}-{run}"


def block_name(partition: int, attempt: int, number: int) -> str:
    """The name of a block within its write. No two attempts of a task have one name."""
    return f"{partition:06d}-{attempt}-{number:06d}.rows"


class Staging:
    """The staged blocks of one business."""

    def __init__(self, place: StagingStore, prefix: str) -> None:
        self._place = place
        self._prefix = prefix

    def put(self, write: str, name: str, data: bytes) -> None:
        """Keep some bytes of a write."""
        self._place.put_if_absent(self._key(write, name), data)

    def entries(self, write: str, block: StagedBlock) -> list[Entry]:
        """The entries of a block. Raises StagedRowsLost."""
        return entries_of(block, block.data or self.read(write, block.name))

    def read(self, write: str, name: str) -> bytes:
        """What was kept under a name. Raises StagedRowsLost."""
        try:
            return self._place.read(self._key(write, name))
        except ObjectMissing as error:
            raise lost(self._key(write, name), "are missing") from error

    def has_manifest(self, write: str) -> bool:
        """Whether the write was to become several transactions, and may have been begun."""
        key = self._key(write, MANIFEST)
        return any(item.key == key for item in self._place.list(key))

    def remove(self, write: str) -> None:
        """Remove all blocks of a write, those of failed attempts too."""
        folder = self._key(write, "")
        for item in self._place.list(folder):
            self._place.delete(item.key)
        self._place.prune(folder.rstrip("/"))

    def clean(self, kept: list[str]) -> None:
        """Remove the blocks of writes that were given up long ago, but not of the writes in `kept`."""
        before = SYSTEM.wall_ms() - LEFTOVER_SECONDS * 1000
        folders = tuple(self._key(write, "") for write in kept)
        for name in self._place.remove_unfinished(f"{self._prefix}/", before):
            self._place.prune(name.rpartition("/")[0])
        for item in self._place.list(f"{self._prefix}/"):
            if item.modified_ms < before and not item.key.startswith(folders):
                self._place.delete(item.key)
                self._place.prune(item.key.rpartition("/")[0])

    def _key(self, write: str, name: str) -> str:
        if not _WRITE.fullmatch(write) or "/" in name:
            raise ValueError(f"{write!r} and {name!r} name no staged rows")
        return f"{self._prefix}/{write}/{name}"


@contextmanager
def open_staging(options: WriteOptions, url: str | None = None) -> Iterator[Staging]:
    """The staging place of a write. `url` is that of a former write, None for the one that the options name."""
    location = options.location
    where = options.staging if url is None else url
    if not where and isinstance(location, ClusterLocation):
        with connect(location.addresses, cluster=options.cluster, namespace=options.namespace) as store:
            yield Staging(_MapPlace(store.map(_MAP)), options.prefix)
        return
    if not where and isinstance(location, FolderLocation):
        where = str(Path(location.root) / FOLDER)
        with archive_errors(where, "put", FOLDER):  # as the store makes its folders: tasks come first
            make_folders(Path(where), 0o750)
    yield Staging(open_objects(where), options.prefix)


class _MapPlace:
    """A volatile map of a cluster as a place."""

    def __init__(self, blocks: ClusterMap) -> None:
        self._map = blocks

    def list(self, prefix: str) -> Listing:
        """See StagingStore.list. No block counts as old, because the map drops old ones."""
        names = (key.data.decode() for key in self._map.identities())
        return [Listed(name, 0, None, 1 << 47) for name in sorted(names) if name.startswith(prefix)]

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """See StagingStore.put_if_absent."""
        self._map.put(key, data, ttl=LEFTOVER_SECONDS)
        return True

    def read(self, key: str) -> bytes:
        """See StagingStore.read."""
        data = self._map.get(key)
        if data is None:
            raise ObjectMissing(f"the cluster has no staged rows {key}.")
        return bytes(data)

    def delete(self, key: str) -> None:
        """See StagingStore.delete."""
        self._map.delete(key)

    def remove_unfinished(self, prefix: str, before_ms: int) -> Names:
        """See StagingStore.remove_unfinished. A put into a map is whole."""
        return []

    def prune(self, prefix: str) -> None:
        """See StagingStore.prune. A map has no folders."""
