"""kill -9 of a process that moves the records of finished applications to one node, at its system calls that change the disk.

After each kill every record is there once, equal to before, and the next merge ends with one node. A sample of the calls is
tried, and with `loop` all of them.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import kvwal
from kvwal.entry import DataEntry
from kvwal.ports.disk import OS_DISK
from kvwal.spark.index import complete_index, is_mark
from kvwal.spark.recording.nodes import SHARED, RecorderRoot, merge_finished
from tests.support.chance import new_seed
from tests.support.sweep.syscalls import CHANGES, launched, missing

APPLICATIONS = 3
SAMPLE = 12
FOLDER = Path("default/local/spark")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nodes of a few finished applications, one of them with a snapshot."""
    if lacking := missing():
        pytest.skip(lacking)
    root = tmp_path_factory.mktemp("root")
    for number in range(APPLICATIONS):
        app = f"app-{number}"
        with kvwal.open(root, node=app, archive=None) as store:
            records = store.map("spark")
            records.put_many(
                {f"{app}/app": {"status": "RUNNING"}, **{f"{app}/job/{job}": {"x": 0} for job in range(9)}}
            )
            complete_index(records, app)
            if number == 1:
                store.checkpoint()
            records.put_many(
                {f"{app}/app": {"status": "SUCCEEDED"}, **{f"{app}/job/{job}": {"x": job} for job in range(9)}}
            )
    return root


def entries(root: Path) -> list[DataEntry]:
    """Every record as readers see it, with its timestamp. Left out are the marks of nodes, since the shared node gets its own."""
    with kvwal.open(root, read_only=True, archive=None) as store:
        return [entry for entry in store.map("spark").entries() if not is_mark(entry.key.decode())]


def history(root: Path) -> list[DataEntry]:
    """Every version of two records."""
    with kvwal.open(root, read_only=True, archive=None) as store:
        return [version for app in ("app-0", "app-1") for version in store.map("spark").history(f"{app}/app")]


def calls_of_merge(root: Path, kill_at: int) -> int:
    """Run the merge in a process, and kill it before its call of this number (0: never). Returns the calls it came to."""
    count = 0
    with launched(["-m", "tests.support.programs.merging", str(root)], CHANGES) as program:
        for call in program.calls:
            count += call.path.startswith(str(root))
            if count == kill_at and call.path.startswith(str(root)):
                call.kill()
                break
            call.go()
    return count


@pytest.mark.long
@pytest.mark.loop
def test_killed_at_any_call_no_read_changes_and_the_next_merge_ends(root: Path, tmp_path: Path, whole: bool) -> None:
    before, versions = entries(root), history(root)
    assert len(before) == APPLICATIONS * 10
    unhurt = Path(shutil.copytree(root, tmp_path / "unhurt"))
    most = calls_of_merge(unhurt, 0)
    assert [path.name for path in (unhurt / FOLDER).iterdir()] == [SHARED]
    assert (entries(unhurt), history(unhurt)) == (before, versions)
    assert most > 30
    numbers = list(range(1, most + 1))
    chance = random.Random(new_seed())
    tried = numbers if whole else sorted(chance.sample(numbers, SAMPLE))
    print(f"killed at {len(tried)} of {most} calls")
    for number in tried:
        killed = Path(shutil.copytree(root, tmp_path / f"killed-{number}"))
        assert calls_of_merge(killed, number) == number
        assert (entries(killed), history(killed)) == (before, versions), f"killed at call {number} of {most}"
        merge_finished(RecorderRoot(killed, "default", "local"), lambda done, total, what: None)
        assert [place.node for place in RecorderRoot(killed, "default", "local").places(OS_DISK)] == [SHARED]
        assert (entries(killed), history(killed)) == (before, versions), (
            f"merged after a kill at call {number} of {most}"
        )
