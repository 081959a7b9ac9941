"""Writes of many stored entries to a map of a cluster, each only if its key is absent, many at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from kvwal.entry import Entry
from kvwal.log.submission import GroupView, Submission, size_of

if TYPE_CHECKING:
    from kvwal.client.store import ClusterMap

AT_ONCE = 256


def put_absent(target: ClusterMap, entries: Iterable[Entry]) -> int:
    """Put each entry, bytes and expiry as they are, unless its key is there; return the number of those that were put.

    It is durable when this returns. A second call with the same entries puts none. Raises the errors of `Map.put_if_absent`.
    """
    waiting: deque[Future[bool]] = deque()
    put = 0
    for future in _submitted(target, entries):
        waiting.append(future)
        if len(waiting) >= AT_ONCE:
            put += waiting.popleft().result()
    return put + sum(future.result() for future in waiting)


def _submitted(target: ClusterMap, entries: Iterable[Entry]) -> Iterator[Future[bool]]:
    for entry in entries:
        future: Future[bool] = Future()
        target._cluster.submit(Submission([entry], size_of([entry]), future, partial(_if_absent, entry)))
        yield future


def _if_absent(entry: Entry, group: GroupView) -> list[Entry]:
    return [entry] if group.lookup(entry.key_class, entry.key) is None else []
