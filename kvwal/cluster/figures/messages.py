"""Figures that a node tells its clients: its phase, its logs, its fdatasyncs. A node answers in any phase.

Fields may be added: what a client or a node of another version does not know has its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from kvwal.cluster.figures.quantiles import Bucket

REST = "_rest"
"""The name of all logs, maps or queues of a node together that have no figures of their own. No business is called so."""
OLDER = "Not told (older version): update the node."
"""Why a member of an earlier version gives no figures."""


class FiguresQuestion(msgspec.Struct, frozen=True, tag=True):
    """Request of a client for the figures of the node that is asked. The answer is a `NodeFigures`."""


class LogFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one log of a node. Of a log that is not new, those of the archive are None until the archive was asked.

    `checkpoint_age_seconds` counts from the opening of the log if it had no checkpoint since. `failing` has the maintenance jobs
    that fail, each with its reason.
    """

    last_sequence: int = 0
    bytes: int = 0
    snapshot_sequence: int = 0
    checkpoint_age_seconds: float | None = None
    archived_sequence: int | None = None
    archive_lag_entries: int | None = None
    archive_lag_seconds: float | None = None
    failing: dict[str, str] = {}
    failed: str | None = None
    full: str | None = None


class NodeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a node, since its start where they count something.

    `details` are those of its /readyz. `logs` are the largest and those in trouble, `maps` (by their names in Hazelcast) the
    entries in memory, copies of others' included, and about their bytes; all others are `REST` in both. `written` counts
    entries, `refused` submissions by error, `lines` the lines of its log by level. `members` are those on its record: name to
    address.
    """

    node: str
    started_ms: int
    phase: str
    serves: bool
    details: dict[str, Any] = {}
    logs: dict[str, LogFigures] = {}
    maps: dict[str, tuple[int, int]] = {}
    written: int = 0
    refused: dict[str, int] = {}
    fsyncs: list[Bucket] = []
    lines: dict[str, int] = {}
    disk_usable_bytes: int | None = None
    disk_capacity_bytes: int | None = None
    memory_ratio: float | None = None
    members: dict[str, str] = {}


class ClusterMember(NamedTuple):
    """A member of the cluster: its address, `host:port`, and its node."""

    address: str
    node: str


class MemberFigures(NamedTuple):
    """The answer of a member: its figures, or a sentence that says why there are none."""

    member: ClusterMember
    figures: NodeFigures | None
    why_not: str = ""


encode = msgspec.msgpack.Encoder().encode
decode_question = msgspec.msgpack.Decoder(FiguresQuestion).decode
decode_figures = msgspec.msgpack.Decoder(NodeFigures).decode


def log_figures(stats: Mapping[str, Any]) -> LogFigures:
    """The figures of a log, from the `stats` of its business, or from those of several as one."""
    known = {name: stats[name] for name in LogFigures.__struct_fields__ if name in stats}
    return LogFigures(**{**known, "bytes": stats["log_bytes"], "failing": stats["maintenance"]})
