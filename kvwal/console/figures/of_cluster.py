"""Figures of a cluster: each member is asked for its own, and those on the members' record that are away are rows, too."""

from __future__ import annotations

from collections.abc import Iterable

from kvwal.cluster.figures.messages import LogFigures, MemberFigures, NodeFigures
from kvwal.console.figures.fsyncs import Fsyncs
from kvwal.console.figures.rows import Figures, LogRow, MapRow, NodeRow

_AWAY = "It is no member now: it was stopped or has failed, or it has not joined yet. See its log."


def of_cluster(told: Iterable[MemberFigures], fsyncs: Fsyncs, now: float, wall_ms: int) -> Figures:
    """The figures, of what the members told at the moment `now`."""
    members = list(told)
    figures = [each.figures for each in members if each.figures is not None]
    nodes = [_node(each, fsyncs, now, wall_ms) for each in members]
    there = {each.member.node for each in members}
    known = {name: address for each in figures for name, address in each.members.items()}
    nodes += [NodeRow(name, known[name], told=_AWAY) for name in sorted(known.keys() - there)]
    fsyncs.keep([each.node for each in figures])
    logs = [_log(name, each.node, log, wall_ms) for each in figures for name, log in each.logs.items()]
    return Figures(
        "cluster", nodes, sorted(logs, key=lambda log: (log.business, log.node)), _maps(figures),
        note="" if figures else "No member tells its figures.",
    )  # fmt: skip


def _node(each: MemberFigures, fsyncs: Fsyncs, now: float, wall_ms: int) -> NodeRow:
    told, member = each.figures, each.member
    if told is None:
        return NodeRow(member.node, member.address, told=each.why_not)
    latency = fsyncs.look(told.node, told.started_ms, max(0.0, (wall_ms - told.started_ms) / 1000), told.fsyncs, now)
    return NodeRow(
        member.node, member.address, told.phase, told.serves, _details(told), told.written, told.refused,
        latency.fsyncs, latency.within_seconds, latency.p50, latency.p99,
        told.lines.get("warning", 0), told.lines.get("error", 0),
        told.disk_usable_bytes, told.disk_capacity_bytes, told.memory_ratio,
    )  # fmt: skip


def _details(told: NodeFigures) -> str:
    """What the node says of itself beside its phase, as a line."""
    said = {name: value for name, value in told.details.items() if value not in ({}, None)}
    return "; ".join(f"{name}: {_text(value)}" for name, value in said.items())


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)


def _log(business: str, node: str, log: LogFigures, wall_ms: int) -> LogRow:
    trouble = [sentence for sentence in (log.failed, log.full) if sentence is not None]
    return LogRow(
        business, node, log.last_sequence, log.bytes, None, log.snapshot_sequence,
        _ago(log.checkpoint_age_seconds, wall_ms), log.archived_sequence, log.archive_lag_entries,
        _ago(log.archive_lag_seconds, wall_ms) if log.archive_lag_entries else None,
        trouble=[*trouble, *(f"{job} fails: {reason}" for job, reason in log.failing.items())],
    )  # fmt: skip


def _ago(seconds: float | None, wall_ms: int) -> int | None:
    return None if seconds is None else wall_ms - int(1000 * seconds)


def _maps(figures: list[NodeFigures]) -> list[MapRow]:
    found: dict[str, tuple[int, int]] = {}
    for each in figures:
        for name, (entries, size) in each.maps.items():
            before = found.get(name, (0, 0))
            found[name] = before[0] + entries, before[1] + size
    return [MapRow(name, *held) for name, held in sorted(found.items())]
