"""Lost tails: changes that were acknowledged and not archived when the disk of their log was lost.

A cluster keeps the values, because other members have them in memory and log them again. The versions before them, and the times
of the changes, were in the lost log only. A record of each lost tail stands beside the objects of its log, so that every reader
meets it. Its name says all; its content repeats that for people.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence

from kvwal_archive.errors import ArchiveGap
from kvwal_archive.layout import (
    LOGICAL_BITS,
    MAX_NUMBER,
    LostTail,
    Place,
    check_name,
    lost_tail_key,
    parse_lost_tail_key,
    parse_object_key,
    to_text,
)
from kvwal_archive.objects import Objects
from kvwal_archive.registry import owner


def lost_tails(
    objects: Objects,
    namespace: str,
    cluster: str,
    business: str | None = None,
    nodes: Collection[str] | None = None,
) -> list[LostTail]:
    """The lost tails of a business, or of all of the cluster, by place: of these nodes, None for all. Raises ArchiveError.

    A tail is not lost any more if its log came back with its disk, and archived it.
    """
    folders = {"namespace": namespace, "cluster": cluster} | ({"business": business} if business else {})
    prefix = "".join(check_name(kind, name) + "/" for kind, name in folders.items())
    keys = [item.key for item in objects.list(prefix)]
    tails: dict[tuple[Place, int, int], LostTail] = {}
    for tail in sorted(_parsed(keys), key=_ended_first):
        if nodes is None or tail.place.node in nodes:
            tails.setdefault(tail[:3], tail)
    if not tails:
        return []
    reached: dict[Place, int] = {}
    for place, span in filter(None, map(parse_object_key, keys)):
        reached[place] = max(span.last, reached.get(place, 0))
    return sorted(tail for tail in tails.values() if not _came_back(objects, tail, reached.get(tail.place, 0)))


def _parsed(keys: Iterable[str]) -> Iterator[LostTail]:
    """The tails that have a record among these keys: one with an end may have two."""
    yield from filter(None, map(parse_lost_tail_key, keys))


def _ended_first(tail: LostTail) -> tuple[bool, int]:
    return tail.before is None, tail.before or 0


def _came_back(objects: Objects, tail: LostTail, reached: int) -> bool:
    """Whether the log itself archived more later. A log that took over after the tail does not count."""
    if reached <= tail.last:
        return False
    registration = owner(objects, tail.place)
    ends = [] if registration is None else [earlier.last_sequence for earlier in registration.previous]
    return tail.last not in ends


def note_lost_tail(objects: Objects, tail: LostTail, *, again: bool = False) -> None:
    """Record a lost tail, unless one after the same sequence is on record, and return when that is durable.

    `again`: the log may have lost another disk since that one ended, without having archived anything in between.
    """
    same_node = lost_tails(objects, *tail.place[:3], [tail.place.node])
    known = [each for each in same_node if each.last == tail.last]
    ends = [each.before for each in known if each.before is not None]
    if known and not (again and len(ends) == len(known)):
        return
    _put(objects, tail._replace(after=max([tail.after, *(end - 1 for end in ends)])))


def end_lost_tail(objects: Objects, tail: LostTail, before: int) -> None:
    """Record when a tail ends that is on record without its end."""
    _put(objects, tail._replace(before=max(before, tail.after + 1)))


def _put(objects: Objects, tail: LostTail) -> None:
    record = {"behind": tail.last, "after": to_text(tail.after)}
    record |= {} if tail.before is None else {"before": to_text(tail.before)}
    data = json.dumps(record).encode()
    if objects.put_if_absent(lost_tail_key(tail), data):
        objects.confirm(lost_tail_key(tail), data)


def remove_lost_tails(objects: Objects, namespace: str, cluster: str, business: str, older_than: int) -> list[str]:
    """Remove the records of tails that end before the timestamp `older_than`: the history that is kept does not reach them."""
    tails = list(_parsed(item.key for item in objects.list(f"{namespace}/{cluster}/{business}/")))
    ended = {tail[:3] for tail in tails if tail.before is not None and tail.before < older_than}
    return _delete(objects, [tail for tail in tails if tail[:3] in ended])


def remove_all_lost_tails(objects: Objects, place: Place) -> None:
    """Remove the records of all tails of a log whose history is over."""
    _delete(objects, _parsed(item.key for item in objects.list(f"{place.prefix}/")))


def _delete(objects: Objects, tails: Iterable[LostTail]) -> list[str]:
    keys = [lost_tail_key(tail) for tail in tails]
    for key in keys:
        objects.delete(key)
    return keys


def check_moment(tails: Sequence[LostTail], at: int) -> None:
    """Raise ArchiveGap if a lost tail may have changes that counted at the timestamp `at`."""
    for tail in tails:
        if tail.after < at < (MAX_NUMBER if tail.before is None else tail.before):
            raise ArchiveGap(
                f"{sentence(tail)} What the keys said at {to_text(at >> LOGICAL_BITS << LOGICAL_BITS)} is not known.",
                hint=f"Ask for {_outside(tail)}; `history` shows the versions that are left.",
            )


def sentence(tail: LostTail) -> str:
    """What the tail says to a person."""
    business, node = tail.place.business, tail.place.node
    until = "" if tail.before is None else f" and before {to_text(tail.before)}"
    return (
        f"{business}: the disk of {node} was lost, with all that no archive had of its log after sequence {tail.last}:"
        f" changes after {to_text(tail.after)}{until} may be missing."
    )


def _outside(tail: LostTail) -> str:
    before = f"a moment up to {to_text(tail.after)}"
    if tail.before is None:
        return f"{before}, or again when the other members have adopted what {tail.place.node} had"
    return f"{before}, or from {to_text(tail.before)} on"
