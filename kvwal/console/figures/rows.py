"""Rows of figures: of nodes, of logs, of maps in memory, of what is archived. Times are moments (unix ms), so that rows keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class NodeRow(NamedTuple):
    """A node. Where it does not answer, `told` says why, and what it would tell is None.

    What it counts, it counts since its start; its fdatasyncs over `fsync_seconds`.
    """

    node: str
    address: str | None = None
    phase: str | None = None
    serves: bool | None = None
    told: str = ""
    written: int | None = None
    refused: Mapping[str, int] | None = None
    fsyncs: int | None = None
    fsync_seconds: float | None = None
    fsync_p50: float | None = None
    fsync_p99: float | None = None
    warnings: int | None = None
    errors: int | None = None
    disk_usable: int | None = None
    disk_capacity: int | None = None
    memory_ratio: float | None = None


class LogRow(NamedTuple):
    """A log of a node. `oldest_ms` is the time of its oldest entry that the archive lacks; None if there is none, or if that is
    not known. `holder` is the process that holds the log of a folder, empty if none does. `trouble` has a sentence for each.
    """

    business: str
    node: str
    last: int | None = None
    bytes: int | None = None
    contents: int | None = None
    checkpoint: int | None = None
    checkpoint_ms: int | None = None
    archived: int | None = None
    lag: int | None = None
    oldest_ms: int | None = None
    holder: str | None = None
    trouble: Sequence[str] = ()


class MapRow(NamedTuple):
    """A map in the memory of all nodes that answer: its entries and about their bytes, all copies together."""

    map: str
    entries: int
    bytes: int


class ArchivedRow(NamedTuple):
    """What is archived of a log."""

    business: str
    node: str
    objects: int
    entries: int
    bytes: int
    last: int
    newest_ms: int | None


class Figures(NamedTuple):
    """The figures of a location. Of a folder `usable` and `capacity` are those of its disk."""

    kind: str
    """`cluster`, `folder` or `archive`."""
    nodes: Sequence[NodeRow] = ()
    logs: Sequence[LogRow] = ()
    maps: Sequence[MapRow] = ()
    archived: Sequence[ArchivedRow] = ()
    usable: int | None = None
    capacity: int | None = None
    note: str = ""
    """A sentence on what is missing."""
