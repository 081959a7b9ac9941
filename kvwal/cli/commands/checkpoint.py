"""kvwal checkpoint: a snapshot of every business."""

from __future__ import annotations

from kvwal.cli import show
from kvwal.cli.options import AcceptClock, Json, LogSelection


def checkpoint(selection: LogSelection, accept_clock: AcceptClock = False, json: Json = False) -> None:
    """Write a snapshot of every business, so that opening reads less log."""
    with selection.open_all(accept_clock=accept_clock) as (store, count):
        store.checkpoint()
        stats = store.stats()
    saved = "1 business has" if count == 1 else f"{count:,} businesses have"
    show.answer(stats, f"{selection.root}: {saved} a snapshot.", json)
