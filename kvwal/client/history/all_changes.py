"""All changes of a structure of a cluster at once, as a table of SQL needs them."""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from kvwal.cluster.requests import POLL_SECONDS, WatchStarted
from kvwal.errors import ClusterUnreachable
from kvwal.ports.clock import SYSTEM
from kvwal.ports.locks import Signal
from kvwal.structures.watch import Change, Positions, Start


class ChangePages(Protocol):
    """Changes in pages: see `kvwal.client.member_tasks.MapChanges`."""

    def begin(self, start: Start) -> WatchStarted:
        """See `MapChanges.begin`."""
        ...

    def begin_with_all(self) -> WatchStarted:
        """See `MapChanges.begin_with_all`."""
        ...

    def page(self, at: WatchStarted, until: Positions | None = None) -> tuple[list[Change], Positions]:
        """See `MapChanges.page`."""
        ...


def all_changes(changes: ChangePages, label: str, within: float) -> list[Change]:
    """The changes that are kept, up to the ends of all logs at this call: all that were acknowledged before it are among them.

    It waits for a change that a member does not give yet, because the clock of another one is behind. `ClusterUnreachable` if
    it has not come after `within` seconds. `label` names the map in that error. Raises the errors of `MapChanges`.
    """
    until = changes.begin(None).positions
    at = changes.begin_with_all()
    deadline = SYSTEM.elapsed() + within
    found: list[Change] = []
    while True:
        page, positions = changes.page(at, until)
        found += page
        moved, at = positions != at.positions, replace(at, positions=positions)
        lacking = sorted(node for node, last in until.items() if positions.get(node, 0) < last)
        if not lacking:
            return found
        if moved:
            continue
        if SYSTEM.elapsed() >= deadline:
            node = lacking[0]
            raise ClusterUnreachable(
                f"{label}: {node} has not given its changes up to sequence {until[node]} within {within:g} s.",
                hint="See whether it is a member still, and whether the clocks of the members agree; then ask again.",
            )
        Signal().wait(POLL_SECONDS)
