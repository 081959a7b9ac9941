"""Figures as answers of kvwal's REST API have them: ages in seconds, sizes in bytes, what is not known as null."""

from __future__ import annotations

from kvwal.console.figures.rows import ArchivedRow, LogRow, MapRow, NodeRow
from kvwal.console.figures.shared import Looked
from kvwal.console.ownapi import shapes
from kvwal.scrub.diagnose import NOTE, OK, PROBLEM, Finding

_LEVELS = (PROBLEM, NOTE, OK)


def told(location: str, looked: Looked) -> shapes.Operations:
    """All of it."""
    figures, examination, now = looked.figures, looked.examination, looked.wall_ms
    findings = [] if examination is None else examination.findings
    return shapes.Operations(
        location=location,
        kind=figures.kind,
        status=None if examination is None else worst(findings),
        findings=[finding(each) for each in findings],
        examined_seconds_ago=None if examination is None else round(looked.age_seconds, 1),
        note=" ".join(filter(None, (looked.why_not, figures.note))),
        disk_usable_bytes=figures.usable,
        disk_capacity_bytes=figures.capacity,
        nodes=[_node(each) for each in figures.nodes],
        logs=[_log(each, now) for each in figures.logs],
        maps=[_map(each) for each in figures.maps],
        archived=[_archived(each, now) for each in figures.archived],
    )


def worst(findings: list[Finding]) -> str:
    """The worst level of some findings."""
    levels = {finding.level for finding in findings}
    return next((level for level in _LEVELS if level in levels), OK)


def finding(each: Finding) -> shapes.Finding:
    """A finding."""
    return shapes.Finding(level=each.level, about=each.about, text=each.text, todo=each.todo)


def seconds_ago(ms: int | None, now_ms: int) -> float | None:
    """The age of a moment; 0 for one to come: the clock of another machine told it."""
    return None if ms is None else max(0.0, (now_ms - ms) / 1000)


def _node(row: NodeRow) -> shapes.NodeFigures:
    return shapes.NodeFigures(
        node=row.node, address=row.address, phase=row.phase, serves=row.serves, told=row.told,
        written_entries=row.written, refused_writes=None if row.refused is None else dict(row.refused),
        fsyncs=row.fsyncs, fsync_within_seconds=row.fsync_seconds,
        fsync_p50_seconds=row.fsync_p50, fsync_p99_seconds=row.fsync_p99, warnings=row.warnings, errors=row.errors,
        disk_usable_bytes=row.disk_usable, disk_capacity_bytes=row.disk_capacity, memory_ratio=row.memory_ratio,
    )  # fmt: skip


def _log(row: LogRow, now_ms: int) -> shapes.LogFigures:
    return shapes.LogFigures(
        business=row.business, node=row.node, last_sequence=row.last, bytes=row.bytes, content_bytes=row.contents,
        snapshot_sequence=row.checkpoint, checkpoint_age_seconds=seconds_ago(row.checkpoint_ms, now_ms),
        archived_sequence=row.archived, archive_lag_entries=row.lag,
        archive_lag_seconds=lag_seconds(row, now_ms), holder=row.holder, trouble=list(row.trouble),
    )  # fmt: skip


def lag_seconds(row: LogRow, now_ms: int) -> float | None:
    """How long the oldest entry that the archive lacks has waited for it; 0 if the archive has all."""
    return 0.0 if row.lag == 0 else seconds_ago(row.oldest_ms, now_ms)


def _map(row: MapRow) -> shapes.MapFigures:
    return shapes.MapFigures(map=row.map, entries=row.entries, bytes=row.bytes)


def _archived(row: ArchivedRow, now_ms: int) -> shapes.ArchivedLog:
    return shapes.ArchivedLog(
        business=row.business, node=row.node, objects=row.objects, entries=row.entries, bytes=row.bytes,
        last_sequence=row.last, newest_object_age_seconds=seconds_ago(row.newest_ms, now_ms),
    )  # fmt: skip
