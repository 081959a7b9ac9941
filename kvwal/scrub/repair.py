"""A damaged log made into one that opens again, under a new root. The damaged one is never changed.

With an archive that has all of the log's beginning, the new log can go on in it (`take_over`): what the archive has becomes
its snapshot, and what was saved of the rest follows under the sequences behind it. It has a new log_id, and the damaged log is
fenced, as a restore that takes over does it. Without, the new log is one of its own, which begins with sequence 1: it has the
latest values that the archive knows, and every entry that was saved. Timestamps stay what they were in either.

Everything is built in `<root>/_saving` and gets its name with one rename: a repair that is killed is simply run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from archive.layout import Place
from archive.objects import Objects
from archive.parquet.rows import NewerFormat
from archive.reader import Coverage, ObjectInfo, belongs, covered, list_spans, read_info, read_rows, unsuperseded
from archive.registry import owner
from archive.registry import take_over as fence
from archive.restore import restore_batches
from kvwal.config import Settings
from kvwal.entry import Decode, Entry, encode_entries, make_entry
from kvwal.errors import ArchiveDamaged, ConfigError
from kvwal.history.restore import RestorePorts, give_name, new_header, write_base
from kvwal.log.appender import Appender
from kvwal.log.files.format import Header
from kvwal.log.files.names import log_folder
from kvwal.log.files.snapshot import in_blocks
from kvwal.log.reader import Progress
from kvwal.scrub.compare_archive import Range, common, missing, seals_of, whose
from kvwal.scrub.inspect import examine
from kvwal.scrub.salvage import Lost, Saved, salvage

STAGE = "_saving"
_COLUMNS = ("key", "key_class", "value", "value_class", "deleted", "timestamp", "expires")


class Archived(NamedTuple):
    """The sound objects of a log that count, and what is wrong with the others. `refusal` says why the log may not go on in
    the archive ("": it may).
    """

    infos: list[ObjectInfo]
    damaged: list[str]
    refusal: str


class DamagedLog(NamedTuple):
    """What is left of a damaged log: in its files, and in the archive. `common` is the last sequence up to which both are known
    to hold the same entries (0: none is).
    """

    place: Place
    saved: Saved
    archived: Archived
    common: int = 0

    @property
    def lost(self) -> list[str]:
        """What neither has, in sentences."""
        return [*self.archived.damaged, *(said for loss in self.saved.lost for said in self._told(loss))]

    def _told(self, loss: Lost) -> Iterator[str]:
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
    """Read what is left of a log. Changes nothing; raises `ArchiveError` if the archive does not answer."""
    saved = salvage(ports.disk, log_folder(root, place), decode)
    archived = _look_there(objects, place, saved.log_id) if objects else Archived([], [], "there is none")
    seals = seals_of(archived.infos, saved.log_id)
    return DamagedLog(
        place, saved, archived, common(seals, examine(ports.disk, root, place, glance_above=0)) if seals else 0
    )


def _look_there(objects: Objects, place: Place, log_id: str) -> Archived:
    try:
        registration = owner(objects, place)
    except ArchiveDamaged as error:
        return Archived([], [error.what], "its registration is damaged")
    if registration is None:
        return Archived([], [], "this log was never archived there")
    if log_id and (stranger := whose(registration, log_id)) and registration.range_of(log_id) is None:
        return Archived([], [], stranger)
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
    stranger = whose(registration, log_id) if log_id else ""
    return Archived(live, damaged, stranger or (f"sequences {gaps} are in no object of it" if gaps else ""))


def repair(
    ports: RestorePorts,
    into: Path,
    found: Sequence[DamagedLog],
    objects: Objects | None,
    *,
    take_over: bool,
    progress: Progress | None = None,
) -> list[int]:
    """Write these logs, which are of one namespace and cluster, to the new root `into`, and return how many entries each has
    there. With `take_over` they go on in the archive, and the old ones are fenced there as the last step but one.

    Raises `ConfigError` if they are of several, or a log cannot go on there; `ArchiveDamaged` if an object that is needed for it
    is not what was put.
    """
    check_one_cluster([one.place for one in found])
    for one in found if take_over else ():
        _check_take_over(one, objects)
    ports.disk.remove_tree(into / STAGE)
    written: list[tuple[int, Callable[[], None]]] = []
    for number, one in enumerate(found):
        if progress is not None:
            progress(number, len(found), "repairing")
        folder = into / STAGE / one.place.business / one.place.node
        ports.disk.make_folders(folder)
        if take_over and objects is not None:
            written.append(_go_on(ports, folder, one, objects))
        else:
            written.append((_begin(ports, folder, one, objects), lambda: None))
    for _, take in written:
        take()
    give_name(ports.disk, into, STAGE, found[0].place.namespace, found[0].place.cluster)
    return [count for count, _ in written]


def check_one_cluster(places: Iterable[Place]) -> None:
    """`ConfigError` if logs are of several namespaces or clusters: what is built gets the name of one."""
    if len({(place.namespace, place.cluster) for place in places}) > 1:
        raise ConfigError(
            "logs of several namespaces cannot be repaired into one root at once; nothing was written.",
            hint="Repair one after the other: --namespace N.",
        )


def _check_take_over(found: DamagedLog, objects: Objects | None) -> None:
    place, archived = found.place, found.archived
    if archived.refusal or archived.damaged:
        why = archived.refusal or archived.damaged[0].rstrip(".")
        raise ConfigError(
            f"{'/'.join(place)} cannot go on in the archive {objects.url if objects else ''}: {why}.",
            hint="Repair it without --take-over, and give the new log an archive of its own.",
        )


def _go_on(ports: RestorePorts, folder: Path, found: DamagedLog, objects: Objects) -> tuple[int, Callable[[], None]]:
    """The log behind what is archived: how many entries it has, and what fences the old one."""
    place = found.place
    there = covered(found.archived.infos)
    header = msgspec.structs.replace(new_header(ports.clock, place), epoch=found.saved.epoch)
    count = 0
    if there.last:
        rows = restore_batches(objects, place.namespace, place.cluster, place.business, nodes={place.node: None})
        count = write_base(ports, objects, folder, place, rows, header)
    newer = [entry for entry in found.saved.snapshot if entry.timestamp > there.max_timestamp]
    newer += [
        entry for number, entry in found.saved.entries if number > there.last or entry.timestamp > there.max_timestamp
    ]
    newer += _only_here(found, objects, there)
    header = msgspec.structs.replace(header, first_sequence=there.last + 1, previous_crc=there.seal_crc)
    count += _append(ports, folder, header, in_order(newer))
    return count, lambda: fence(objects, place, header.log_id, there.last + 1)


def _only_here(found: DamagedLog, objects: Objects, there: Coverage) -> Iterator[Entry]:
    """Of a log that went on beside the archived one: what it has under sequences of the archive, and is the latest of its key."""
    beside = [e for number, e in found.saved.entries if found.common < number <= there.last]
    if not found.common or not beside:
        return
    latest = {(entry.key_class, entry.key): entry.timestamp for entry in _archived_entries(objects, found.archived)}
    yield from (entry for entry in beside if entry.timestamp > latest.get((entry.key_class, entry.key), 0))


def _begin(ports: RestorePorts, folder: Path, found: DamagedLog, objects: Objects | None) -> int:
    """A log of its own with all there is."""
    entries = [*(_archived_entries(objects, found.archived) if objects else ()), *found.saved.snapshot]
    entries += [entry for _, entry in found.saved.entries]
    header = msgspec.structs.replace(new_header(ports.clock, found.place), epoch=found.saved.epoch)
    return _append(ports, folder, header, in_order(entries))


def _append(ports: RestorePorts, folder: Path, header: Header, entries: list[Entry]) -> int:
    appender = Appender(ports.disk, ports.clock, folder, header, Settings(), [])
    for block in in_blocks(entries, lambda entry: len(entry.key) + len(entry.value)):
        appender.append([encode_entries(block)], len(block), sync=False)
    appender.close(seal=True)
    return len(entries)


def _archived_entries(objects: Objects, archived: Archived) -> Iterable[Entry]:
    """The latest entry of each key of these objects. One whose rows are damaged is one more thing that is lost."""
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
    """What of the range `wanted` none of the others holds."""
    before = [(1, wanted[0] - 1)] if wanted[0] > 1 else []
    yield from missing((*before, *have), wanted[1])


def _ranges(numbers: Sequence[int]) -> list[Range]:
    """Numbers as the ranges that they fill."""
    found: list[Range] = []
    for number in sorted(numbers):
        if found and number <= found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
