"""Restore: a new root is made from the archive alone.

The latest entries of all nodes are written as a log of a new node, in the order of their timestamps. That log opens, archives
and merges like any other, in the same archive or in another one. With `take_over` a node's own log goes on after its last
archived sequence, under a new log_id, and the old log is fenced.

Everything is built in `<root>/_restoring` and renamed in one step, so a restore that is killed can be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kvwal.config import Settings, archive_location, check_folder
from kvwal.content.claim import parsed_claim
from kvwal.content.transfer import fetch_claim_file
from kvwal.entry import encode_entries, is_claimed
from kvwal.errors import ArchiveError, ConfigError, ContentDamaged, KvwalError, StorageFull
from kvwal.history.reads.map_rows import marks_of, without_destroyed
from kvwal.history.reads.sort_by_time import TimeOrder
from kvwal.hlc import to_timestamp
from kvwal.log.appender import FULL, Appender
from kvwal.log.files.format import FORMAT, Header, SnapshotHeader, format_for, format_for_values
from kvwal.log.files.names import check_not_inside, find_places
from kvwal.log.files.snapshot import BLOCK_BYTES, BLOCK_ENTRIES, in_blocks, write_snapshot
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.ports.disk import OS_DISK, Disk
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import Place, check_name
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.reader import live_objects
from kvwal_archive.registry import registered
from kvwal_archive.registry import take_over as fence
from kvwal_archive.restore import RestoreResult, businesses, check_began, restore_batches

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_NODE = "restored"
STAGE = "_restoring"
ReadArchive = Callable[..., RestoreResult]
_COLUMNS = ["key", "key_class", "value", "value_class", "deleted", "timestamp", "expires"]


class RestorePorts(NamedTuple):
    """The ports of a restore: the disk of the new root, and the clock for its times and random numbers."""

    disk: Disk
    clock: Clock


class RestoreReport(msgspec.Struct, frozen=True):
    """The result of a restore.

    `node` is that of the new log. `entries` is the number of entries of each map, deletes included. `positions` has, for
    each map and node, the last sequence that was read.
    """

    root: str
    node: str
    entries: dict[str, int]
    positions: dict[str, dict[str, int]]


def restore(
    archive: str | Path,
    root: str | Path,
    *,
    namespace: str = "default",
    cluster: str = "local",
    node: str | None = None,
    at: int | date | None = None,
    take_over: bool = False,
    storage_options: dict[str, Any] | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> RestoreReport:
    """Restore the latest value of every key in the archive, or its value `at` a moment, into the folder `root`.

    `node` is the name of the restored node, `restored` by default. It must be new to the archive. With `take_over` it is the
    node whose log goes on (by default the only one), without the entries of other nodes. `progress` is called with the number
    of maps done, the number of all, and the name of the next.

    Raises `ConfigError` if the root has entries of this cluster already, `ArchiveGap` if a range is missing, `BeforeHistory`
    if `at` lies before the history or its first entry, `ArchiveError` if the archive has no entries of the cluster or does not
    answer, `StorageFull` or `ConfigError` if the root cannot be written. After any error the restore can be run again.
    """
    return restore_through(
        RestorePorts(OS_DISK, SYSTEM), archive, root, namespace=namespace, cluster=cluster, node=node, at=at,
        take_over=take_over, storage_options=storage_options, progress=progress,
    )  # fmt: skip


def restore_through(
    ports: RestorePorts,
    archive: str | Path,
    root: str | Path,
    *,
    namespace: str,
    cluster: str,
    node: str | None,
    at: int | date | None,
    take_over: bool,
    storage_options: dict[str, Any] | None,
    progress: Callable[[int, int, str], None] | None,
    read: ReadArchive = restore_batches,
) -> RestoreReport:
    """`restore` through the ports `ports`. `read` merges the archive, as `kvwal_archive.restore.restore_batches` does."""
    objects = open_objects(archive_location(archive), storage_options)
    check_name("namespace", namespace)
    check_name("cluster", cluster)
    target = check_folder("root", root)
    _check_fresh(ports.disk, target, namespace, cluster)
    names = businesses(objects, namespace, cluster)
    if not names:
        raise ArchiveError(
            f"{objects.url}: there is nothing of {namespace}/{cluster} here.",
            hint="Check the URL, --namespace and --cluster.",
        )
    chosen = _choose_node(objects, namespace, cluster, node, take_over)
    if take_over and at is not None:
        raise ConfigError(
            "take_over goes on with the whole log, and `at` would leave out its end.", hint="Choose one of them."
        )
    if take_over:
        known = registered(objects, namespace, cluster)
        names = sorted({place.business for place in known if place.node == chosen})
    moment = None if at is None else to_timestamp(at)
    if moment is not None:
        check_began(objects, namespace, cluster, moment)
    stage = target / STAGE
    report = RestoreReport(root=str(target), node=chosen, entries={}, positions={})
    try:
        ports.disk.remove_tree(stage)
        for index, business in enumerate(names):
            if progress is not None:
                progress(index, len(names), business)
            place = Place(namespace, cluster, business, chosen)
            nodes = {chosen: None} if take_over else None
            archived = read(objects, namespace, cluster, business, nodes=nodes, at=moment)
            if not take_over:  # the nodes' marks would void each other's entries in one log
                marks = marks_of(objects, (namespace, cluster, business), at=moment)
                archived = archived._replace(batches=without_destroyed(archived.batches, marks))
            folder = stage / business / chosen
            ports.disk.make_folders(folder)
            write = _continue_log if take_over else _write_log
            report.entries[business] = write(ports, objects, folder, place, archived)
            report.positions[business] = archived.positions
        give_name(ports.disk, target, STAGE, namespace, cluster)
    except OSError as error:
        raise _not_written(target, error) from error
    return report


def _not_written(root: Path, error: OSError) -> KvwalError:
    again = "and restore again: the files of this try do no harm."
    if error.errno in FULL:
        return StorageFull(f"{root}: the disk is full; nothing was restored.", hint=f"Free space, {again}")
    return ConfigError(
        f"{root}: cannot be written ({error}); nothing was restored.",
        hint=f"Mend the disk, or choose another root, {again}",
    )


def _check_fresh(disk: Disk, root: Path, namespace: str, cluster: str) -> None:
    if disk.exists(root) and not disk.is_folder(root):
        raise ConfigError(f"{root} is a file, and a root is a folder.", hint="Choose another root.")
    check_not_inside(disk, root)
    if find_places(disk, root, namespace, cluster) or disk.names(root / namespace / cluster):
        raise ConfigError(
            f"{root} has entries of {namespace}/{cluster} already; nothing was changed.",
            hint="Restore into a folder that is new.",
        )


def _choose_node(objects: Objects, namespace: str, cluster: str, node: str | None, take_over: bool) -> str:
    known = sorted({place.node for place in registered(objects, namespace, cluster)})
    if not take_over:
        chosen = check_name("node", node or DEFAULT_NODE)
        if chosen in known:
            raise ConfigError(
                f"{objects.url}: the node {chosen!r} has a log in this archive.",
                hint="Choose a new node name, or take_over=True (--take-over) to go on with that log and fence the old one.",
            )
        return chosen
    if node is None and len(known) == 1:
        return known[0]
    if node not in known:
        raise ConfigError(
            f"{objects.url}: which node is to be taken over? There are: {', '.join(known)}.",
            hint="Say it with node=… (--node).",
        )
    return node


def give_name(disk: Disk, root: Path, stage: str, namespace: str, cluster: str) -> None:
    """Rename the folder `stage` under a root to the folder of a cluster's logs, durably and in one step."""
    disk.make_folders(root / namespace)
    disk.rename(root / stage, root / namespace / cluster)
    disk.sync_folder(root / namespace)
    disk.sync_folder(root)


def _write_log(ports: RestorePorts, objects: Objects, folder: Path, place: Place, archived: RestoreResult) -> int:
    """Write the rows as a log of its own, in the order of their timestamps. Returns the number of its entries."""
    rows = TimeOrder(ports.disk, folder)
    for batch in archived.batches:
        rows.add(batch.select(_COLUMNS))
    settings = Settings()
    appender = Appender(ports.disk, ports.clock, folder, new_header(ports.clock, place), settings, [])
    claimed: set[str] = set()
    for block in _blocks(rows.in_order()):
        claimed |= _claimed(block)
        appender.append([encode_entries(block)], len(block), sync=False, format=_format_of(block))
    appender.close(seal=True)
    _fetch_values(ports, objects, folder, place, claimed)
    return rows.count


def _continue_log(ports: RestorePorts, objects: Objects, folder: Path, place: Place, archived: RestoreResult) -> int:
    """Write the rows as the snapshot after which the node's log goes on, and fence its old log in the archive."""
    last = archived.positions[place.node]
    header = new_header(ports.clock, place)
    count = write_base(ports, objects, folder, place, archived, header) if last else _begin_empty(ports, folder, header)
    fence(objects, place, header.log_id, last + 1)
    return count


def _begin_empty(ports: RestorePorts, folder: Path, header: Header) -> int:
    """Begin a log that was registered and has archived no entry: an empty segment, whose header has the new log_id."""
    Appender(ports.disk, ports.clock, folder, header, Settings(), []).close(seal=False)
    return 0


def write_base(
    ports: RestorePorts, objects: Objects, folder: Path, place: Place, archived: RestoreResult, header: Header
) -> int:
    """Write the archived rows of a node as the snapshot after which its log goes on. Returns the number of entries."""
    last = archived.positions[place.node]
    count, format = 0, FORMAT
    claimed: set[str] = set()

    def blocks() -> Iterator[Sequence[Any]]:
        nonlocal count, format
        for block in _blocks(archived.batches):
            count, format = count + len(block), max(format, _format_of(block))
            claimed.update(_claimed(block))
            yield block

    seal = _seal(objects, place, last)
    fields = {"last_sequence": last, "last_crc": seal, "last_timestamp": archived.max_timestamp}
    snapshot = SnapshotHeader(**{**msgspec.structs.asdict(header), **fields})
    write_snapshot(ports.disk, ports.clock, folder, snapshot, blocks(), format=lambda: format)
    _fetch_values(ports, objects, folder, place, claimed)
    return count


def _claimed(rows: Sequence[Any]) -> set[str]:
    """The claim files of the large values among these rows. A claim that cannot be read is missed by its own value only."""
    files = set()
    for row in rows:
        if is_claimed(row[3]):
            with suppress(ContentDamaged):
                files.add(parsed_claim(row[2], lambda: "a value of the archive").file)
    return files


def _fetch_values(ports: RestorePorts, objects: Objects, folder: Path, place: Place, files: set[str]) -> None:
    """Bring the bytes of large values along: a value is there without the archive. Contents come when they are asked for.

    Bytes that the archive does not have are missed by the value that names them, and by no other.
    """
    archived = ArchivedContents(objects, place.namespace, place.cluster, place.business)
    for file in sorted(files):
        with suppress(ObjectMissing):
            fetch_claim_file(ports.disk, ports.clock, archived, file, folder)


def _seal(objects: Objects, place: Place, last: int) -> int:
    """The crc of the seal with which the archived part of a log ends, at its sequence `last`."""
    return next(info.footer.seal_crcs[-1] for info in live_objects(objects, place) if info.span.last == last)


def new_header(clock: Clock, place: Place) -> Header:
    """The header of a new log. Each file gets a salt and a time of its own."""
    return Header(
        log_id=f"{clock.random_bits(128):032x}", namespace=place.namespace, cluster=place.cluster,
        business=place.business, node=place.node, epoch=0, first_sequence=1, previous_crc=0, salt=0, created_ms=0,
    )  # fmt: skip


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[Sequence[Any]]:
    """Rows as the values of stored entries, in blocks: six values, or seven if the entry expires."""
    for batch in batches:
        for first in range(0, len(batch), BLOCK_ENTRIES):
            yield from _cut(batch.slice(first, BLOCK_ENTRIES))


def _cut(batch: pa.RecordBatch) -> Iterator[Sequence[Any]]:
    """The rows of one block, or of several if they are large. Only large rows are looked at one by one."""
    import pyarrow.compute as pc

    columns = [batch.column(name) for name in _COLUMNS]
    rows: list[Any] = list(zip(*(column.to_pylist() for column in columns[:-1]), strict=True))
    if pc.any(pc.not_equal(columns[-1], 0)).as_py():
        rows = [(*row, end) if end else row for row, end in zip(rows, columns[-1].to_pylist(), strict=True)]
    lengths = [pc.sum(pc.binary_length(batch.column(name))).as_py() for name in ("key", "value")]
    if sum(lengths) < BLOCK_BYTES:
        yield rows
    else:
        yield from in_blocks(rows, _size_of)


def _format_of(rows: Sequence[Any]) -> int:
    return format_for_values(format_for({row[1] for row in rows}), {row[3] for row in rows})


def _size_of(row: Any) -> int:
    return len(row[0]) + len(row[2])
