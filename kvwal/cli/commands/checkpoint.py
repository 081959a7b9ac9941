"""kvwal checkpoint: a snapshot of every map."""

from __future__ import annotations

from kvwal.cli.nodes import answer_for_nodes, run_on_nodes
from kvwal.cli.options import AcceptClock, Json, LogSelection


def checkpoint(selection: LogSelection, accept_clock: AcceptClock = False, json: Json = False) -> None:
    """Write a snapshot of every map, so that opening reads less log. Without --node: of every node, one after the other."""
    outcomes = run_on_nodes(selection, accept_clock, lambda store: store.checkpoint())
    answer_for_nodes(selection, outcomes, ("has a snapshot", "have a snapshot"), "saved", json)
