"""Figures of a folder: twenty who look at once cost one examination, and files are read as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import kvwal
from kvwal.console.figures.examinations import Beside, Examinations
from kvwal.console.figures.of_files import FileFigures
from kvwal.console.figures.shared import Looked, SharedFigures, beside_of
from kvwal.console.shared_reader import SharedReader
from kvwal.ports.clock import SYSTEM
from kvwal.ports.tasks import ThreadWorkers, side_by_side
from kvwal.scrub.diagnose import OK, Finding
from kvwal.store.sync import ReadOnlyStore
from tests.support.disk.faults import make_options

VIEWERS = 20


def test_twenty_who_look_at_once_share_one_examination_and_its_figures(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, node="writer") as store:
        store.map("jobs").put_many({f"job-{number}": number for number in range(10)})
        store.content("files").put("report", b"x" * 100)
        store.archive()
    examined: list[int] = []

    def examine() -> list[Finding]:
        examined.append(1)
        return [Finding(OK, "disk", "fine")]

    reads = SharedReader(
        lambda: cast(ReadOnlyStore, kvwal.open(tmp_path, read_only=True)), ThreadWorkers("test"), SYSTEM
    )
    shared = SharedFigures(Examinations(examine, partial(beside_of, reads), SYSTEM), SYSTEM)

    def look() -> Looked:
        with reads.view() as view:
            return shared.look(view)

    looks: list[Callable[[], Looked]] = [look] * VIEWERS
    seen = side_by_side(looks, threads=VIEWERS)
    reads.close()
    assert len(examined) == 1
    assert len({id(each.examination) for each in seen}) == 1
    logs = {log.business: log for log in seen[-1].figures.logs}
    assert (logs["jobs"].last, logs["jobs"].archived, logs["jobs"].lag) == (10, 10, 0)
    assert logs["files"].contents is not None
    assert logs["files"].contents >= 100


def test_a_log_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    figures, options = FileFigures(), make_options(tmp_path)
    with kvwal.open(tmp_path, node="writer", archive=None) as store:
        jobs = store.map("jobs")
        for number in range(1, 4):
            jobs["job-1"] = number
            (log,) = figures.look(options, Beside()).logs
            assert (log.last, log.archived, log.lag, log.trouble) == (number, None, None, [])
            assert log.holder
        store.checkpoint()
        (log,) = figures.look(options, Beside(archived={})).logs
        assert (log.checkpoint, log.archived, log.lag) == (3, 0, 3)
        assert log.checkpoint_ms is not None
    (snapshot,) = tmp_path.rglob("*.snapshot")
    snapshot.write_bytes(snapshot.read_bytes()[:-8])
    (log,) = figures.look(options, Beside()).logs
    assert log.trouble
    assert log.holder == ""
