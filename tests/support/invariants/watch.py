"""What must always hold, watched in every store of this process that a test opens.

`watching` looks at each store where it ticks and where it closes. `left_in` looks at what a test leaves on the disk, stores of
other processes included.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kvwal.log.files.names import LOCK, FileKind, parse_name
from kvwal.ports.disk import OS_DISK, Disk
from kvwal.store.maintenance import Maintenance
from kvwal.store.open_business import OpenBusiness
from kvwal.store.scheduling.timetable import Timetable
from kvwal_archive.layout import Place, parse_registration_key
from kvwal_archive.objects import open_objects
from tests.support.invariants.contents import names_without_bytes
from tests.support.invariants.formats import unmarked
from tests.support.invariants.job_waits import Idle, Passed, due_jobs
from tests.support.invariants.owners import (
    Ended,
    strangers_of_archive,
    strangers_of_cluster,
    strangers_of_log,
    strangers_of_root,
)
from tests.support.invariants.time_order import disorder

Report = Callable[[str, str], None]
"""Called with the law that is broken (one of `LAWS`), and a sentence."""
LAWS = ("contents", "files", "formats", "jobs", "timestamps")


@contextmanager
def watching(report: Report, seen: Callable[[Disk], Disk | None], closed: Ended = Ended.CLOSED) -> Iterator[None]:
    """Watch all stores for the block.

    `seen` is the disk behind a store's disk: reading it is no step of the test. `closed` is how a log has ended whose store was
    closed, and whose jobs had succeeded.
    """
    with ExitStack() as undo:
        for owner, name, wrapped in (
            (Timetable, "begin", _begin(report)),
            (Maintenance, "_tick", _tick(report)),
            (OpenBusiness, "close", _close(report, seen, closed)),
        ):
            undo.enter_context(patch.object(owner, name, wrapped(getattr(owner, name))))
        yield


def _begin(report: Report) -> Callable[..., Any]:
    passed = Passed()

    def wrapped(begin: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(begin)
        def watched(timetable: Timetable, now: float) -> str | None:
            due = due_jobs(timetable, now)
            name: str | None = begin(timetable, now)
            for broken in passed.began(timetable, due, name):
                report("jobs", broken)
            return name

        return watched

    return wrapped


def _tick(report: Report) -> Callable[..., Any]:
    idle = Idle()

    def wrapped(tick: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(tick)
        async def watched(maintenance: Maintenance) -> None:
            await tick(maintenance)
            for broken in idle.ticked(maintenance):
                report("jobs", f"{'/'.join(maintenance.place)}: {broken}")

        return watched

    return wrapped


def _close(report: Report, seen: Callable[[Disk], Disk | None], closed: Ended) -> Callable[..., Any]:
    def wrapped(close: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(close)
        async def watched(business: OpenBusiness, **given: Any) -> None:
            await close(business, **given)
            disk = seen(business._context.ports.disk)
            if disk is not None and business.log.writer.failed is None:
                ended = Ended.KILLED if business.maintenance.failing.failures else closed
                for broken in strangers_of_log(disk, business.log.folder, ended):
                    report("files", broken)
                if (step := disorder(disk, business.log.folder)) is not None:
                    report("timestamps", step)
                for broken in unmarked(disk, business.log.folder):
                    report("formats", broken)
                for broken in names_without_bytes(disk, business):
                    report("contents", broken)

        return watched

    return wrapped


def left_in(folder: Path) -> Iterator[tuple[str, str]]:
    """The laws that are broken by what is left in a folder: by all stores and archives in it, those of killed processes too."""
    clusters, archives = _stores_in(folder)
    for cluster in sorted(clusters):
        yield from (("files", broken) for broken in strangers_of_cluster(OS_DISK, cluster))
        if (root := cluster.parents[1]).is_relative_to(folder):
            yield from (("files", broken) for broken in strangers_of_root(OS_DISK, root))
        for log in sorted(path.parent for path in cluster.glob(f"*/*/{LOCK}")):
            if (step := disorder(OS_DISK, log)) is not None:
                yield "timestamps", step
            yield from (("formats", broken) for broken in unmarked(OS_DISK, log))
    for archive in sorted(archives):
        yield from (("files", broken) for broken in strangers_of_archive(open_objects(str(archive)).list("")))


def _stores_in(folder: Path) -> tuple[set[Path], set[Path]]:
    """The folders of clusters, and the folders of archives, below a folder."""
    clusters, archives = set[Path](), set[Path]()
    for parent, _, names in os.walk(folder):
        path = Path(parent)
        if len(path.relative_to(folder).parts) < len(Place._fields) - 1:
            continue
        key = "/".join((*path.parts[-len(Place._fields) :], "_log"))
        if "_log" in names and parse_registration_key(key) is not None:
            archives.add(path.parents[3])
        elif not any(part.startswith("_") for part in path.parts[-4:]) and any(map(_is_of_log, names)):
            clusters.add(path.parents[1])
    return clusters, archives


def _is_of_log(name: str) -> bool:
    return parse_name(name).kind in (FileKind.LOCK, FileKind.SEGMENT, FileKind.SNAPSHOT)
