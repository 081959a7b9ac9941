"""examples/flow.py is killed at each of its steps, before and after the step is in the log, and at any moment: each record is in
exactly one queue, with the attributes of a record of that queue, or its life is over; no child is there without its parent.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import kvwal
from tests.repository.source import ROOT
from tests.support.chance import new_seed
from tests.support.sweep.syscalls import launched, missing

FLOW = str(ROOT / "examples" / "flow.py")
RECORDS = 8
"""A record of each kind: dropped, delivered, split into two or three, and of each of these one that is penalized or fails."""
ROUNDS, SAMPLE = 30, 3
HAS = {
    "enrich": {"number", "tries"}, "penalized": {"tries", "until"}, "failed": {"tries", "until"}, "route": {"lines"},
    "split": {"lines"}, "originals": {"lines"}, "count": {"parent", "line"}, "merge": {"parent", "line", "amount"},
    "deliver": {"amount"}, "delivered": {"amount"},
}  # fmt: skip
"""What a record of a queue has: what the step that put it there gave it."""
HAS_NOT = {
    "enrich": {"lines"}, "penalized": {"lines"}, "failed": {"lines"}, "route": {"amount"}, "split": {"amount"},
    "originals": {"amount"}, "count": {"amount", "lines"}, "merge": {"lines"}, "deliver": {"parent"}, "delivered": {"parent"},
}  # fmt: skip


def environment() -> dict[str, str]:
    """Where the example finds kvwal."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'archive'}"}


def checked(root: Path, *, read_only: bool) -> dict[str, int]:
    """Check what is in a root. Returns the report."""
    with kvwal.open(root, read_only=read_only) as store:
        flow = store.business("flow")
        where = [(name, queue) for queue in HAS for name in flow.queue(queue).browse()]
        records: dict[str, dict[str, Any]] = dict(flow.map("records"))
        report: dict[str, int] = dict(flow.map("report"))
    assert len(dict(where)) == len(where), "a record is in one queue only"
    assert dict(where) == {name: record["queue"] for name, record in records.items()}
    for name, queue in where:
        assert HAS[queue] <= records[name].keys(), name
        assert not HAS_NOT[queue] & records[name].keys(), name
    waiting = [name for name, queue in where if queue == "originals"]
    of_them = Counter({name: records[name]["lines"] for name in waiting})
    assert of_them == Counter(record["parent"] for record in records.values() if "parent" in record)
    ended = sum(report.get(how, 0) for how in ("dropped", "forgotten"))
    assert ended + sum("parent" not in record for record in records.values()) == report.get("created", 0)
    return report


def after_a_kill(root: Path, told: int) -> int:
    """Check what a killed program left, before and after recovery. Returns how many steps are done.

    `told` is how many steps it said to be done; one more may be.
    """
    seen = checked(root, read_only=True)
    report = checked(root, read_only=False)
    assert report == seen
    assert told <= report.get("steps", 0) <= told + 1
    return report.get("steps", 0)


def finished(root: Path, records: int) -> int:
    """Let the flow come to its end, and check that everything was counted once. Returns how many steps it took."""
    subprocess.run(
        [sys.executable, FLOW, str(root), str(records)], env=environment(), check=True, stdout=subprocess.PIPE
    )
    report = checked(root, read_only=False)
    expected, ends = Counter[str](), Counter[str]()
    for number in range(records):
        lines = 0 if number % 8 == 5 else number % 4
        expected["amount"] += lines * (10 * number + 7) + lines * (lines - 1) // 2
        expected["merged"] += lines if lines > 1 else 0
        ends["failed" if number % 8 == 5 else "delivered" if lines else "dropped"] += 1
    assert {name: report[name] for name in expected} == expected
    assert report["dropped"] == ends["dropped"]
    assert report["created"] == records
    with kvwal.open(root, read_only=True) as store:
        flow = store.business("flow")
        assert len(flow.queue("failed")) == ends["failed"]
        assert len(flow.queue("delivered")) + report["forgotten"] == ends["delivered"]
        assert len(flow.map("records")) == ends["failed"] + len(flow.queue("delivered"))
    return report["steps"]


def killed_at(root: Path, told: int, call: str) -> int:
    """Run the flow, and kill it at a call on a segment, once it said that `told` steps are done: how many it said."""
    with launched([FLOW, str(root), str(RECORDS)], [call]) as program:
        assert program.process.stdout is not None
        os.set_blocking(program.process.stdout.fileno(), False)
        said = b""
        for waiting in program.calls:
            said += program.process.stdout.read() or b""
            if said.count(b"\n") == told and waiting.path.endswith(".wal"):
                waiting.kill()
            else:
                waiting.go()
        assert program.process.wait() == -signal.SIGKILL
        return (said + (program.process.stdout.read() or b"")).count(b"\n")


@pytest.mark.loop
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("call", ["pwritev2", "fdatasync"])
def test_killed_at_each_step_every_record_is_in_one_queue(
    tmp_path: Path, whole: bool, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Killed at the write of a step, nothing of it is there; at its fdatasync all is, as the page cache outlives the process."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    steps = finished(tmp_path / "unharmed", RECORDS)
    chance = random.Random(new_seed())
    for told in range(steps) if whole else sorted(chance.sample(range(steps), SAMPLE)):
        root = tmp_path / str(told)
        said = killed_at(root, told, call)
        assert said == told
        assert after_a_kill(root, said) == said + (call == "fdatasync")
        if chance.random() < 0.2:
            finished(root, RECORDS)
        shutil.rmtree(root)


@pytest.mark.loop
def test_killed_at_any_moment_every_record_is_in_one_queue(tmp_path: Path, whole: bool) -> None:
    chance = random.Random(new_seed())
    root, records, steps = tmp_path / "root", 0, 0
    for _ in range(ROUNDS if whole else SAMPLE):
        records += 8
        command = [sys.executable, FLOW, str(root), str(records)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), text=True) as process:
            assert process.stdout is not None
            lines = list(islice(process.stdout, chance.randrange(1, 60)))
            threading.Event().wait(chance.random() / 50)
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        steps = after_a_kill(root, steps + len(lines))
    finished(root, records)
