"""The command `kvwal import flume`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.importers.events import put_events
from kvwal.cli.importers.findings import Findings
from kvwal.cli.importers.log_folder import LogFolder, check_apart, unlocked
from kvwal.cli.options import AcceptClock, Json
from kvwal.cli.queue.folder import QueueFolder
from kvwal.cli.queue.names import QueueName, queue_name
from kvwal.importers.flume.checkpoint import checkpoint_in
from kvwal.importers.flume.folders import lock_files, log_paths
from kvwal.importers.flume.records import check_meta
from kvwal.importers.flume.replay import Replay
from kvwal.importers.recognize import FLUME, check_folder
from kvwal.ports.disk import OS_DISK


def import_flume(
    folder: LogFolder,
    selection: QueueFolder,
    queue: Annotated[
        QueueName,
        typer.Option("--queue", metavar="QUEUE", help="The queue: BUSINESS, or BUSINESS/NAME.", parser=queue_name),
    ] = "flume",  # type: ignore[assignment]  # the parser takes the text
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put the events of Flume's file channel into a queue: DIR is the folder that has its data folders, or its only data folder.

    Events that were committed and not taken become items, in the order of their commits: {"headers": …, "body": …}. A second
    import puts only events that are new. Damage is named by file and offset; the rest is imported, and the exit code is 4.
    """
    selection.logs()
    check_folder(OS_DISK, folder, FLUME)
    check_apart(folder, selection.location)
    findings = Findings()
    with unlocked(folder, lock_files(OS_DISK, folder), FLUME.name):
        logs = log_paths(OS_DISK, folder)
        for log in logs:
            check_meta(OS_DISK, log.path)
        several = len({log.path.parent for log in logs}) > 1
        checkpoint = checkpoint_in(OS_DISK, folder) if several else None
        with show.progress() as progress:
            replay = Replay(OS_DISK, logs, findings, progress, checkpoint)
        with selection.beginning(queue, accept_clock) as store:
            counts = put_events(store.business(queue.business), queue, replay, findings)
    answer = {"queue": str(queue), "put": counts.put, "unchanged": counts.unchanged, "left_out": findings.count}
    show.answer(answer, counts.sentence(str(queue)), json)
    selection.logs().check_archived(store)
    findings.end()
