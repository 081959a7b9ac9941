"""The repair of a damaged log: a new log that opens is built under a new root. The damaged log is never changed.

With `take_over` the new log goes on in the archive, which must have all of the log's beginning. The archived entries become its
snapshot, and the saved entries follow under the sequences after it. It has a new log_id, and the damaged log is fenced, as in
a restore that takes over. Without `take_over` the new log begins with sequence 1: it has the latest values in the archive, and
every saved entry. Timestamps stay the same in both cases.

Everything is built in `<root>/_saving` and renamed in one step, so a repair that is killed can be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from kvwal.config import Settings
from kvwal.content.transfer import give_claim_files, link_or_copy
from kvwal.entry import Decode, Entry, encode_entries, make_entry
from kvwal.errors import ArchiveDamaged, ConfigError
from kvwal.history.restore.restore import RestorePorts, give_name, new_header, write_base
from kvwal.log.appender import Appender
from kvwal.log.files.format import Header, format_of
from kvwal.log.files.names import log_folder
from kvwal.log.files.snapshot import in_blocks, size_of
from kvwal.log.reader import Progress
from kvwal.scrub.compare_archive import Range, common, missing, seals_of, why_foreign
from kvwal.scrub.event_files import SavedEvents, salvage_events
from kvwal.scrub.inspect import examine
from kvwal.scrub.salvage import Lost, Saved, salvage
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.rows import NewerFormat, ObjectInfo
from kvwal_archive.reader import Coverage, belongs, covered, list_spans, read_info, read_rows, unsuperseded
from kvwal_archive.registry import owner
from kvwal_archive.registry import take_over as fence
from kvwal_archive.restore import restore_batches

STAGE = "_saving"
_COLUMNS = ("key", "key_class", "value", "value_class", "deleted", "timestamp", "expires")


class ArchivedPart(NamedTuple):
    """The archived part of a log: its sound live objects, and the faults of the others.

    `refusal` is the reason why the log may not go on in the archive, or "".
    """

    infos: list[ObjectInfo]
    damaged: list[str]
    refusal: str


class DamagedLog(NamedTuple):
    """The remains of a damaged log, in its files, which are in `folder`, and in the archive.

    `common` is the last sequence up to which both are known to hold the same entries (0: there is none).
    """

    place: Place
    folder: Path
    saved: Saved
    archived: ArchivedPart
    common: int = 0
    events: SavedEvents = SavedEvents([], [])

    @property
    def lost(self) -> list[str]:
        """The lost entries and damaged objects, in sentences."""
        return [
            *self.archived.damaged,
            *self.events.lost,
            *(sentence for loss in self.saved.lost for sentence in self._describe(loss)),
        ]

    def _describe(self, loss: Lost) -> Iterator[str]:
        """Sentences on the sequences of a loss that neither the archive nor another file has."""
        have = [(info.span.first, info.span.last) for info in self.archived.infos]
        have += _ranges([number for number, _ in self.saved.entries if number])
        have += [(1, self.saved.covered)] if loss.in_snapshot and self.saved.covered else []
        if not loss.last:
            reached = max((last for _, last in have if last >= loss.first), default=loss.first - 1)
            yield f"{loss.where}: what followed sequence {reached} there, how much and of which keys, is not known."
            return
        for first, last in _without((loss.first, loss.last), have):
            count = min(loss.entries or last - first + 1, last - first + 1)
            part = "" if count == last - first + 1 else f"{count} of "
            what = f"{part}{f'sequences {first}–{last}' if last > first else f'sequence {first}'}: {loss.where}"
            if loss.in_snapshot:
                yield f"{what}, and no segment has them any more."
            elif last <= self.saved.covered:
                yield f"{what}; the snapshot has the latest values of their keys, what those replaced is lost."
            else:
                yield f"{what}; their keys are not known."


def look(ports: RestorePorts, root: Path, place: Place, objects: Objects | None, decode: Decode) -> DamagedLog:
    """Read the remains of a log. Changes nothing. Raises `ArchiveError` if the archive does not answer."""
    folder = log_folder(root, place)
    saved = salvage(ports.disk, folder, decode)
    archived = _archived_part(objects, place, saved.log_id) if objects else ArchivedPart([], [], "there is none")
    seals = seals_of(archived.infos, saved.log_id)
    return DamagedLog(
        place, folder, saved, archived, common(seals, examine(ports.disk, root, place, glance_above=0)) if seals else 0,
        salvage_events(ports.disk, folder, decode),
    )  # fmt: skip


def _archived_part(objects: Objects, place: Place, log_id: str) -> ArchivedPart:
    try:
        registration = owner(objects, place)
    except ArchiveDamaged as error:
        return ArchivedPart([], [error.what], "its registration is damaged")
    if registration is None:
        return ArchivedPart([], [], "this log was never archived there")
    if log_id and (stranger := why_foreign(registration, log_id)) and registration.range_of(log_id) is None:
        return ArchivedPart([], [], stranger)
    infos, damaged = {}, []
    for span, item in list_spans(objects, place).items():
        try:
            info = read_info(objects, *item)
        except (ArchiveDamaged, NewerFormat) as error:
            damaged.append(f"the archive: {error.what}")
            continue
        if belongs(registration, info.footer):
            infos[span] = info
    live = [infos[span] for span in unsuperseded(infos)]
    gaps = ", ".join(f"{first}–{last}" for first, last in covered(live).gaps)
    stranger = why_foreign(registration, log_id) if log_id else ""
    return ArchivedPart(live, damaged, stranger or (f"sequences {gaps} are in no object of it" if gaps else ""))


def repair(
    ports: RestorePorts,
    into: Path,
    logs: Sequence[DamagedLog],
    objects: Objects | None,
    *,
    take_over: bool,
    progress: Progress | None = None,
) -> list[int]:
    """Write these logs to the new root `into`, and return the number of entries of each new log.

    With `take_over` the new logs go on in the archive. The old ones are fenced there, as the last step before the rename.
    Raises `ConfigError` if the logs are of several namespaces or clusters, or if a log cannot go on in the archive;
    `ArchiveDamaged` if a needed object is not what was put.
    """
    check_one_cluster([log.place for log in logs])
    for log in logs if take_over else ():
        _check_take_over(log, objects)
    ports.disk.remove_tree(into / STAGE)
    written: list[tuple[int, Callable[[], None]]] = []
    for number, log in enumerate(logs):
        if progress is not None:
            progress(number, len(logs), "repairing")
        folder = into / STAGE / log.place.business / log.place.node
        ports.disk.make_folders(folder)
        put = link_or_copy(ports.disk)
        give_claim_files(ports.disk, log.folder, folder, put)
        if take_over and objects is not None:
            written.append(_continue_archived(ports, folder, log, objects))
        else:
            written.append((_write_separate(ports, folder, log, objects), lambda: None))
    for _, fence_old in written:
        fence_old()
    give_name(ports.disk, into, STAGE, logs[0].place.namespace, logs[0].place.cluster)
    return [count for count, _ in written]


def check_one_cluster(places: Iterable[Place]) -> None:
    """Raise `ConfigError` if logs are of several namespaces or clusters: the new root is renamed to one."""
    if len({(place.namespace, place.cluster) for place in places}) > 1:
        raise ConfigError(
            "logs of several namespaces cannot be repaired into one root at once; nothing was written.",
            hint="Repair one after the other: --namespace N.",
        )


def _check_take_over(log: DamagedLog, objects: Objects | None) -> None:
    place, archived = log.place, log.archived
    if archived.refusal or archived.damaged:
        why = archived.refusal or archived.damaged[0].rstrip(".")
        raise ConfigError(
            f"{'/'.join(place)} cannot go on in the archive {objects.url if objects else ''}: {why}.",
            hint="Repair it without --take-over, and give the new log an archive of its own.",
        )


def _continue_archived(
    ports: RestorePorts, folder: Path, log: DamagedLog, objects: Objects
) -> tuple[int, Callable[[], None]]:
    """Write a log that goes on after the archived part. Returns its number of entries, and a call that fences the old log."""
    place = log.place
    archived = covered(log.archived.infos)
    header = msgspec.structs.replace(new_header(ports.clock, place), epoch=log.saved.epoch)
    count = 0
    if archived.last:
        rows = restore_batches(objects, place.namespace, place.cluster, place.business, nodes={place.node: None})
        count = write_base(ports, objects, folder, place, rows, header)
    newer = [entry for entry in (*log.saved.snapshot, *log.events.entries) if entry.timestamp > archived.max_timestamp]
    newer += [
        entry
        for number, entry in log.saved.entries
        if number > archived.last or entry.timestamp > archived.max_timestamp
    ]
    newer += _forked_entries(log, objects, archived)
    header = msgspec.structs.replace(header, first_sequence=archived.last + 1, previous_crc=archived.seal_crc)
    count += _append(ports, folder, header, in_order(newer))
    return count, lambda: fence(objects, place, header.log_id, archived.last + 1)


def _forked_entries(log: DamagedLog, objects: Objects, archived: Coverage) -> Iterator[Entry]:
    """The entries of a forked log that the archive lacks, and that are the latest of their keys.

    The archive has other entries under their sequences.
    """
    forked = [entry for number, entry in log.saved.entries if log.common < number <= archived.last]
    if not log.common or not forked:
        return
    latest = {(entry.key_class, entry.key): entry.timestamp for entry in _archived_entries(objects, log.archived)}
    yield from (entry for entry in forked if entry.timestamp > latest.get((entry.key_class, entry.key), 0))


def _write_separate(ports: RestorePorts, folder: Path, log: DamagedLog, objects: Objects | None) -> int:
    """Write a log of its own with all entries of the archive and the files. Returns the number of its entries."""
    entries = [*(_archived_entries(objects, log.archived) if objects else ()), *log.saved.snapshot, *log.events.entries]
    entries += [entry for _, entry in log.saved.entries]
    header = msgspec.structs.replace(new_header(ports.clock, log.place), epoch=log.saved.epoch)
    return _append(ports, folder, header, in_order(entries))


def _append(ports: RestorePorts, folder: Path, header: Header, entries: list[Entry]) -> int:
    """Write segments of these entries. Their timestamps stay, and may be behind those of the archived part."""
    header = msgspec.structs.replace(header, merged=True)
    appender = Appender(ports.disk, ports.clock, folder, header, Settings(), [])
    for block in in_blocks(entries, size_of):
        format = format_of(block)
        appender.append([encode_entries(block)], len(block), sync=False, format=format)
    appender.close(seal=True)
    return len(entries)


def _archived_entries(objects: Objects, archived: ArchivedPart) -> Iterable[Entry]:
    """The latest entry of each key of these objects. An object with damaged rows is added to `archived.damaged`."""
    latest: dict[tuple[str, bytes], Entry] = {}
    for info in archived.infos:
        try:
            table = read_rows(objects, info)
        except ArchiveDamaged as error:
            archived.damaged.append(f"the archive: {error.what}")
            continue
        for values in zip(*(table.column(name).to_pylist() for name in _COLUMNS), strict=True):
            entry = make_entry(*values)
            known = latest.get((entry.key_class, entry.key))
            if known is None or known.timestamp <= entry.timestamp:
                latest[entry.key_class, entry.key] = entry
    return latest.values()


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Entries by timestamp, each change of a key once."""
    changes = {(entry.timestamp, entry.key_class, entry.key): entry for entry in entries}
    return [changes[change] for change in sorted(changes)]


def _without(wanted: Range, have: Sequence[Range]) -> Iterator[Range]:
    """The parts of the range `wanted` that no other range holds."""
    before = [(1, wanted[0] - 1)] if wanted[0] > 1 else []
    yield from missing((*before, *have), wanted[1])


def _ranges(numbers: Sequence[int]) -> list[Range]:
    """The ranges that the numbers fill."""
    ranges: list[Range] = []
    for number in sorted(numbers):
        if ranges and number <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
