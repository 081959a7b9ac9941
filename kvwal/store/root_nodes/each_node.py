"""Work on the nodes of a root, one node after the other.

One node is open at a time, so the work needs the memory and the file descriptors of one node. All nodes share one archiver
process, because starting a process takes longer than archiving a small node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from kvwal.archiver.remote import MODULE
from kvwal.errors import KvwalError
from kvwal.log.reader import Progress
from kvwal.ports.processes import Child
from kvwal.store.options import Options
from kvwal.store.sync import Store, WritableStore


class NodeOutcome(NamedTuple):
    """The outcome of the work on one node: its figures as `Store.stats` has them, or the error that stopped it."""

    node: str
    stats: dict[str, Any]
    error: KvwalError | OSError | None = None


def work_on_each(
    nodes: Sequence[str],
    options: Callable[[str, Callable[[], Child]], Options],
    work: Callable[[Store], None],
    progress: Progress,
) -> list[NodeOutcome]:
    """Open each node, call `work` with its store, and close the store.

    `options` makes the options of a node; the store starts its archiver with the given function. An error of kvwal or of the
    operating system ends the work on its node only. `progress` is called with the nodes done, the number of nodes, and the
    name of the next one.
    """
    outcomes = []
    with closing(_SharedArchiver()) as archiver:
        for number, node in enumerate(nodes):
            progress(number, len(nodes), "nodes")
            try:
                outcomes.append(NodeOutcome(node, _worked(options(node, archiver.start), work)))
            except (KvwalError, OSError) as error:
                outcomes.append(NodeOutcome(node, {}, error))
        progress(len(nodes), len(nodes), "nodes")
    return outcomes


def _worked(options: Options, work: Callable[[Store], None]) -> dict[str, Any]:
    with WritableStore(options) as store:
        work(store)
        return store.stats()


class _SharedArchiver:
    """The archiver process of several stores that are open one after the other."""

    def __init__(self) -> None:
        self._child: _SharedChild | None = None

    def start(self) -> Child:
        """The running process; a new one if there is none, or if it died."""
        if self._child is None or self._child.is_dead:
            self.close()
            self._child = _SharedChild(MODULE)
        return self._child

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.end()
            self._child = None


class _SharedChild(Child):
    """A child process that outlives the store that closes it."""

    is_dead = False

    def ask(self, line: bytes) -> bytes:
        """See `Child.ask`."""
        try:
            return super().ask(line)
        except EOFError:
            self.is_dead = True
            raise

    def close(self) -> None:
        """Leave the process running, for the next store."""

    def end(self) -> None:
        """End the process."""
        super().close()
