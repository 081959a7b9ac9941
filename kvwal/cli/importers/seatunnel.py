"""The command `kvwal import seatunnel`."""

from __future__ import annotations

from collections import Counter

from kvwal.cli import show
from kvwal.cli.importers.findings import Findings
from kvwal.cli.importers.log_folder import LogFolder, check_apart
from kvwal.cli.importers.maps import put_latest
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import AcceptClock, Json
from kvwal.counted import counted
from kvwal.importers.recognize import SEATUNNEL, check_folder
from kvwal.importers.seatunnel.folders import business_logs
from kvwal.importers.seatunnel.latest import LatestRecords
from kvwal.ports.disk import OS_DISK
from kvwal_archive.layout import check_name

_MOST_CLASSES = 10


def import_seatunnel(
    folder: LogFolder, selection: StoreSelection, accept_clock: AcceptClock = False, json: Json = False
) -> None:
    """Put the maps of SeaTunnel's IMap storage: DIR is the folder of a cluster, or of one of its maps, on this machine.

    Each becomes a map of its name, with the latest record of each key; a key whose last record is a delete is deleted.
    Entries that are there already are not put again. Damage is named by file and offset; the rest is imported, and the exit code
    is 4.
    """
    check_folder(OS_DISK, folder, SEATUNNEL)
    check_apart(folder, selection.location)
    logs = business_logs(OS_DISK, folder)
    for log in logs:
        check_name("business", log.name)
    findings = Findings()
    answer = {}
    begun = [selection.begun(log.name) for log in logs]
    with selection.writer(accept_clock=accept_clock) as store:
        for log in logs:
            with show.progress() as progress:
                latest = LatestRecords(OS_DISK, log, findings, progress)
            changes = put_latest(store, store.map(log.name), latest.entries(), findings, log.name)
            answer[log.name] = {"put": changes.put, "unchanged": changes.unchanged, "deleted": changes.deleted}
            if not json:
                show.say(changes.sentence(log.name))
            _note_classes(log.name, latest)
    for sentence in filter(None, begun):
        show.note(f"kvwal: {sentence}")
    if json:
        show.json_line({"maps": answer, "left_out": findings.count})
    selection.check_archived(store)
    findings.end()


def _note_classes(name: str, latest: LatestRecords) -> None:
    """Say on standard error which objects stayed bytes, and which keys of Java became one."""
    if latest.kept_as_bytes:
        values = counted(latest.kept_as_bytes.total(), "value")
        show.note(
            f"kvwal: {name}: {values} stayed the bytes of SeaTunnel's serializer: {_listed(latest.kept_as_bytes)}."
        )
    if latest.same_keys:
        show.note(
            f"kvwal: {name}: records of keys that are equal here and not in Java; the newest counts: {_listed(latest.same_keys)}."
        )


def _listed(counts: Counter[str]) -> str:
    shown = [f"{name} ({count:,})" for name, count in counts.most_common(_MOST_CLASSES)]
    rest = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest else "")
