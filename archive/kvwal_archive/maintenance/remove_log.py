"""Removal of a destroyed map's log from the archive, once its history is over and no other log depends on it.

Only the log's own node does this, and no other process writes there. The steps are: the bases are removed; one object with
one row supersedes all objects; the superseded objects are removed; the one object is removed; the registration is removed. So
the removal can be killed at any step and run again, and readers find the log whole, compacted, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvwal_archive import view
from kvwal_archive.bases.collect import remove_bases
from kvwal_archive.layout import Place, Span, registration_key
from kvwal_archive.lost_tails import remove_all_lost_tails
from kvwal_archive.objects import Objects
from kvwal_archive.parquet import rows
from kvwal_archive.parquet.columns import open_columns
from kvwal_archive.parquet.object_file import Seals
from kvwal_archive.parquet.rows import ObjectInfo
from kvwal_archive.reader import covered, list_events, list_spans, listed_again, live_objects
from kvwal_archive.registry import owner, registered
from kvwal_archive.writer import put_object

if TYPE_CHECKING:
    import pyarrow as pa


class LogEnd(NamedTuple):
    """The end of a log: its last sequence and timestamp."""

    log_id: str
    last_sequence: int
    last_timestamp: int


def remove_log(objects: Objects, place: Place, end: LogEnd, mark_class: str, time_class: str) -> bool:
    """Remove a log that ended before the kept history, and return whether it was removed. Raises ArchiveError.

    Returns False, and changes nothing, if the log goes on, was taken over, or may shadow rows of other logs. `mark_class` is the
    key class of the marks that record in a node's log that the map was destroyed: earlier entries of that log do not count.
    `time_class` is that of a row which changes no key and has a timestamp only.
    """
    registration = owner(objects, place)
    if registration is not None and (registration.log_id != end.log_id or registration.previous):
        return False
    live = listed_again(lambda: live_objects(objects, place))
    if live:
        reached = covered(live)
        if reached.last != end.last_sequence or reached.gaps or any(i.footer.log_id != end.log_id for i in live):
            return False
        if not listed_again(lambda: _shadows_no_row(objects, place, end, mark_class)):
            return False
        # A base has the entries that the mark of this log shadows, and the mark is about to go.
        remove_bases(objects, place.namespace, place.cluster, place.business)
        last = _compacted(objects, place, end, live, time_class)
        for key in sorted(_keys(objects, place), key=lambda key: key == last):
            objects.delete(key)
    where = (place.namespace, place.cluster, place.business)
    if registered(objects, *where) in ([], [place]):
        remove_bases(objects, *where)  # those without objects too, and the parts of half ones
    if registration is not None:
        objects.delete(registration_key(place, 1))
    remove_all_lost_tails(objects, place)
    objects.prune(place.prefix)
    return True


def _shadows_no_row(objects: Objects, place: Place, end: LogEnd, mark_class: str) -> bool:
    """Whether no mark and no delete of this log shadows a row that another node has archived, or may still archive.

    Such a row is a put that is not younger than the end of this log, and younger than the last mark of its own log.
    """
    where = (place.namespace, place.cluster, place.business)
    others = [other for other in registered(objects, *where) if other.node != place.node]
    if not others:
        return True
    marks = _marks(objects, where, mark_class)
    for other in others:
        live = live_objects(objects, other)
        reached = covered(live)
        if reached.gaps or reached.max_timestamp < end.last_timestamp:
            return False
        if has_puts(objects, live, marks.get(other.node, 0), end.last_timestamp):
            return False
    return True


def _marks(objects: Objects, where: tuple[str, str, str], mark_class: str) -> dict[str, int]:
    """The timestamp of each node's latest mark that was not deleted."""
    newest_first = view.history(objects, *where, key_class=mark_class, key=None).to_pylist()
    latest = {(row["node"], row["key"]): row for row in reversed(newest_first)}
    live = [(row["timestamp"], row["node"]) for row in latest.values() if not row["deleted"]]
    return {node: timestamp for timestamp, node in sorted(live)}


def has_puts(objects: Objects, infos: Sequence[ObjectInfo], after: int, until: int) -> bool:
    """Whether one of the objects has a put with a timestamp above `after` and up to `until`."""
    import pyarrow.compute as pc

    for info in infos:
        if info.footer.max_timestamp > after and info.footer.min_timestamp <= until:
            with open_columns(objects, info, ("deleted", "timestamp")) as opened:
                opened.check()
                for batch in opened.batches():
                    timestamp = batch.column("timestamp")
                    within = pc.and_(pc.greater(timestamp, after), pc.less_equal(timestamp, until))
                    if pc.any(pc.and_(within, pc.invert(batch.column("deleted")))).as_py():
                        return True
    return False


def _compacted(objects: Objects, place: Place, end: LogEnd, live: Sequence[ObjectInfo], time_class: str) -> str:
    """The key of an object that covers the whole log and holds one row. It is put unless it exists."""
    if len(live) == 1 and live[0].footer.rows == 1:
        return live[0].key
    horizon = max(end.last_timestamp, *(info.span.horizon for info in live)) + 1
    span = Span(live[0].span.first, end.last_sequence, horizon)
    newest = max(live, key=lambda info: info.span.last).footer
    seals = Seals(end.log_id, live[0].footer.previous_crc, newest.seal_crcs[-1:])
    return put_object(objects, place, span, _row(end, time_class), seals).key


def _row(end: LogEnd, time_class: str) -> pa.Table:
    import pyarrow as pa

    row = {
        "key_class": time_class, "key": b"", "value_class": "", "value": b"", "deleted": True,
        "timestamp": end.last_timestamp, "expires": 0, "sequence": end.last_sequence,
    }  # fmt: skip
    return pa.Table.from_pylist([row], schema=rows.SCHEMA)


def _keys(objects: Objects, place: Place) -> Iterator[str]:
    return (key for listed in (list_spans(objects, place), list_events(objects, place)) for key, *_ in listed.values())
