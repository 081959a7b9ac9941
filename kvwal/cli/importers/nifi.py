"""The command `kvwal import nifi`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.importers.findings import Findings
from kvwal.cli.importers.log_folder import LogFolder, check_apart, unlocked
from kvwal.cli.importers.maps import put_latest
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import AcceptClock, Json
from kvwal.importers.nifi.folders import lock_files, repository
from kvwal.importers.nifi.replay import RepositoryReplay
from kvwal.importers.recognize import NIFI, check_folder
from kvwal.ports.disk import OS_DISK
from kvwal_archive.layout import check_name


def import_nifi(
    folder: LogFolder,
    selection: StoreSelection,
    map: Annotated[str, typer.Option("--map", metavar="MAP", help="The map.")] = "flowfiles",
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put the records of NiFi's FlowFile repository into a map: DIR is the folder of nifi.flowfile.repository.directory.

    The key is the number of the record. The value has its queue, its attributes and its content claim. A record that the journals
    delete is deleted. Entries that are there already are not put again. Damage is named by file and offset; the rest is imported,
    and the exit code is 4.
    """
    check_folder(OS_DISK, folder, NIFI)
    check_apart(folder, selection.location)
    check_name("business", map)
    findings = Findings()
    with unlocked(folder, lock_files(OS_DISK, folder), NIFI.name):
        with show.progress() as progress:
            replay = RepositoryReplay(OS_DISK, repository(OS_DISK, folder), findings, progress)
        with selection.writer(begins=map, accept_clock=accept_clock) as store:
            changes = put_latest(store, store.map(map), replay.entries(), findings, map)
    for swap_file in sorted(replay.swap_files):
        findings.swapped_out(swap_file)
    counts = {"put": changes.put, "unchanged": changes.unchanged, "deleted": changes.deleted}
    show.answer({"map": map, **counts, "left_out": findings.count}, changes.sentence(map), json)
    selection.check_archived(store)
    findings.end()
