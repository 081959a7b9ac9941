"""kill -9 under load, fifty times on one root: what was acknowledged is there, and transactions are whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kvwal
from tests.support.chance import new_seed
from tests.support.programs.load import TOGETHER

ROUNDS = 50
SAMPLE = 10
LINES = 150
"""About how many lines the process may say before it is killed."""


class Known:
    """What the lines of the process say must be there: by key, the last acknowledged value (None: deleted), and what may be."""

    def __init__(self) -> None:
        self.must: dict[str, int | None] = {}
        self.may: dict[str, set[int | None]] = {}

    def read(self, line: list[Any]) -> None:
        word, _, count, kind, key, *_ = line
        keys = [f"{line[1]}-all-{part}" for part in range(TOGETHER)] if kind == "all" else [key]
        value = None if kind == "delete" else count
        for changed in keys:
            if word == "begin":
                self.may.setdefault(changed, set()).add(value)
            else:
                self.must[changed] = value
                self.may[changed] = set()

    def check(self, found: dict[str, int]) -> None:
        for key, value in self.must.items():
            assert found.get(key) in {value, *self.may.get(key, set())}, key
        assert set(found) <= set(self.must) | set(self.may)
        names = {key.split("-")[0] for key in found}
        for name in names:
            together = {found.get(f"{name}-all-{part}") for part in range(TOGETHER)}
            assert len(together) == 1, f"a transaction of {name} came back in part: {together}"

    def settle(self, found: dict[str, int]) -> None:
        """From now on, what was found is what must be there."""
        self.must = {key: found.get(key) for key in set(self.must) | set(self.may)}
        self.may = {}


def killed_after(root: Path, archive: Path, seed: int, lines: int, known: Known) -> None:
    command = [sys.executable, "-m", "tests.support.programs.load", str(root), str(archive), str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    for number, line in enumerate(process.stdout):
        known.read(json.loads(line))
        if number == lines:
            os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


@pytest.mark.loop
def test_fifty_kills(tmp_path: Path, whole: bool) -> None:
    seed = new_seed()
    chance = random.Random(seed)
    root, archive, known = tmp_path / "root", tmp_path / "archive", Known()
    for round_ in range(ROUNDS if whole else SAMPLE):
        # Some rounds are long enough for the archiver and the checkpoint to be in the middle of something.
        lines = chance.randrange(4, LINES) if round_ % 10 else 20 * LINES
        killed_after(root, archive, seed + round_, lines, known)
        with kvwal.open(root, read_only=True, archive=None) as store:
            seen = dict(store.map("jobs"))
        known.check(seen)
        with kvwal.open(root, archive=None) as store:
            recovered = dict(store.map("jobs"))
        assert recovered == seen
        known.settle(recovered)
    with kvwal.open(root, archive=archive) as store:
        store.map("jobs")
        store.archive()
    kvwal.restore(archive, tmp_path / "second")
    with kvwal.open(tmp_path / "second") as store:
        assert dict(store.map("jobs")) == recovered
