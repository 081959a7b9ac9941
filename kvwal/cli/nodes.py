"""Work of a command on every node of a root, and its answer: for `kvwal checkpoint` and `kvwal archive run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvwal.cli import show
from kvwal.cli.options import LogSelection
from kvwal.counted import counted
from kvwal.errors import Kind, KvwalError
from kvwal.ports.processes import Child
from kvwal.store.options import Options, archive_argument
from kvwal.store.root_nodes.each_node import NodeOutcome, work_on_each
from kvwal.store.sync import Store


class NotAllNodes(KvwalError):
    """A command did not do its work on some nodes of a root."""


def run_on_nodes(selection: LogSelection, accept_clock: bool, work: Callable[[Store], None]) -> list[NodeOutcome]:
    """Do the work on the selected node, or on every node of the root, one after the other.

    With one node its error is raised. Of several nodes each error is said on stderr, and the other nodes are worked on all the
    same. Raises `ConfigError` if there is no log.
    """
    nodes = sorted({place.node for place in selection.logs(closed=set())})

    def options(node: str, start_archiver: Callable[[], Child]) -> Options:
        return Options(
            selection.root, namespace=selection.namespace, cluster=selection.cluster, node=node,
            archive=archive_argument(selection.archive), flush="sync", storage_options=None, settings=None,
            accept_clock=accept_clock, progress=None if len(nodes) > 1 else report, start_archiver=start_archiver,
        )  # fmt: skip

    with show.progress() as report:
        outcomes = work_on_each(nodes, options, work, report if len(nodes) > 1 else _silent)
    for outcome in outcomes:
        if outcome.error is not None:
            if len(nodes) == 1:
                raise outcome.error
            show.note(f"{outcome.node}: {outcome.error}")
    return outcomes


def _silent(done: int, total: int, what: str) -> None:
    """The progress of a single node is that of its recovery."""


def answer_for_nodes(
    selection: LogSelection, outcomes: Sequence[NodeOutcome], done: tuple[str, str], failed_to_be: str, json: bool
) -> None:
    """Print what was done, and raise `NotAllNodes` if it was not done on every node.

    `done` is the predicate of "1 map" and that of "2 maps", or of "3 logs of 2 nodes". `failed_to_be` completes "could not
    be", for the other nodes. With `json` each node has a line.
    """
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if json:
        for outcome in outcomes:
            show.json_line({"node": outcome.node, "error": str(outcome.error)} if outcome.error else outcome.stats)
    elif len(failed) < len(outcomes):
        show.say(f"{selection.root}: {_counted([each.stats for each in outcomes if each.error is None], done)}.")
    if failed:
        raise _not_all(failed, len(outcomes), failed_to_be)


def _counted(stats: Sequence[dict[str, Any]], done: tuple[str, str]) -> str:
    count = sum(len(figures["businesses"]) for figures in stats)
    if len(stats) == 1:
        return counted(count, f"map {done[0]}", f"maps {done[1]}")
    return f"{counted(count, 'log')} of {len(stats):,} nodes {done[count != 1]}"


def _not_all(failed: Sequence[NodeOutcome], count: int, failed_to_be: str) -> NotAllNodes:
    """The error of a command that failed on these nodes. Its kind is the worst of theirs: damage, then what the caller has to
    correct, then what only needs another try.
    """
    kinds = {outcome.error.kind if isinstance(outcome.error, KvwalError) else Kind.RETRY for outcome in failed}
    names = ", ".join(outcome.node for outcome in failed[:3]) + (", …" if failed[3:] else "")
    error = NotAllNodes(
        f"{counted(len(failed), 'node')} of {count:,} could not be {failed_to_be}: {names}.",
        hint="The lines above say why. Run the command again for them.",
    )
    error.kind = next(kind for kind in (Kind.BUG, Kind.DAMAGE, Kind.CALLER, Kind.RETRY) if kind in kinds)
    return error
