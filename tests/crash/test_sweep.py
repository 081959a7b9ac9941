"""A store's life (`tests.support.sweep.lifecycle`) is killed, or a call of it fails, at each system call that changes a disk.

In every state that is left, every acknowledged transaction is there and whole, the archive has no fault, and the next life
goes on from there to its end and restores the same. `make test-long` draws some calls by chance, of each kind in each stage,
and `make test` a few of these; `make sweep` takes every call in every mode.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.support.chance import new_seed
from tests.support.sweep.syscalls import missing

ALL = os.environ.get("KVWAL_SWEEP")
"""Set by `tests.support.sweep.run`: every call is tried, and the figures go into that folder."""
SEED = new_seed()
WORKERS = 2
MORE = 100
"""A sweep of all calls tries so many more than the life had that was listed: the last turns find that it had ended."""
MODES = {"program": 1, "archiver": 2, "both": 3, "orphan": 3, "EIO": 2, "ENOSPC": 2}
"""How the life is hurt (see `tests.support.sweep.calls`), and in how many stages each kind of call is tried when not every
call is.
"""
WRITES = {"write", "pwrite64", "pwritev2", "fsync", "fdatasync", "ftruncate", "fallocate"}
KINDS = WRITES | {"rename", "unlink", "link", "mkdir", "openat"}
STAGES = {"open", "write", "checkpoint", "delta", "archive", "close", "rewrite", "gc", "restore", "lose", "take over"}
FEW = 4
"""In `make test` a fourth of the kinds in their stages is tried."""
SweepPoint = dict[str, Any]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[SweepPoint]:
    """The calls of a life that nobody hurts."""
    lacking = missing()
    if lacking:
        pytest.skip(lacking)
    (found,) = sweep(tmp_path_factory.mktemp("listed"), "list", [[]])
    return found


def test_a_life_has_every_kind_of_call_in_every_stage(calls: list[SweepPoint]) -> None:
    assert len(counted(calls, "program")) > 300
    assert {call["name"] for call in calls} == KINDS
    assert {call["stage"] for call in calls} >= STAGES
    assert {call["stage"] for call in counted(calls, "archiver")} == {"checkpoint", "delta", "archive", "close"}


@pytest.mark.long
@pytest.mark.loop
@pytest.mark.timeout(7200 if ALL else 900)
@pytest.mark.parametrize("mode", MODES)
def test_a_life_is_hurt_at_every_call_that_changes_the_disk(
    mode: str, calls: list[SweepPoint], whole: bool, tmp_path: Path
) -> None:
    known = counted(calls, mode)
    every = MODES[mode] if whole else MODES[mode] * FEW
    numbers = list(range(1, len(known) + MORE)) if ALL else drawn(known, mode, every)
    shares = [numbers[worker::WORKERS] for worker in range(WORKERS)]
    found = sweep(tmp_path, mode, shares)
    turns = [turn for share in found for turn in share if turn["name"]]
    report(mode, turns, len(known))
    assert not [turn for turn in turns if turn["wrong"]], wrongs(turns)
    if ALL:
        assert not any(share[-1]["name"] for share in found), "each went on until a life ended before its turn came"
        assert sorted(turn["number"] for turn in turns) == list(range(1, len(turns) + 1)), "not one was left out"
        assert len(turns) > len(known) * 0.9
    else:
        assert len(turns) == len(numbers) >= len({(call["name"], call["stage"]) for call in known}) // every > 0
    if ALL or every == 1:
        assert {turn["name"] for turn in turns} == {call["name"] for call in known}
        assert {turn["stage"] for turn in turns} >= STAGES & {call["stage"] for call in known}
    if ALL:
        Path(ALL, f"{mode}.json").write_text(json.dumps(Counter(turn["name"] for turn in turns)))


def counted(calls: list[SweepPoint], mode: str) -> list[SweepPoint]:
    """The calls that a mode counts: of both processes, or of the archiver's alone."""
    alone = mode in ("archiver", "both", "orphan")
    return [call for call in calls if call["alone"] == alone]


def drawn(known: list[SweepPoint], mode: str, every: int) -> list[int]:
    """One call of each kind in each stage, or of one in `every` of these."""

    def which(call: SweepPoint) -> tuple[str, str]:
        return call["name"], call["stage"]

    chance = random.Random(f"{SEED} {mode}")
    groups = [list(group) for _, group in groupby(sorted(known, key=which), key=which)]
    some = chance.sample(groups, len(groups) // every)
    return sorted(chance.choice(group)["number"] for group in some)


def report(mode: str, turns: list[SweepPoint], of: int) -> None:
    """How many points were covered, and which."""
    again = "" if ALL else f", drawn with KVWAL_SEED={SEED}"
    kinds = Counter(turn["name"] for turn in turns)
    stages = Counter(turn["stage"] for turn in turns)
    print(f"{mode}: {len(turns)} points of about {of}{again}: ", *(f"{count} {kind}" for kind, count in kinds.items()))
    print(f"{mode}: in the stages ", *(f"{stage} ({count})" for stage, count in stages.items()))


def wrongs(turns: list[SweepPoint]) -> str:
    """What was wrong, to be read."""
    found = [turn for turn in turns if turn["wrong"]]
    return "\n\n".join(
        f"{turn['number']}, {turn['name']} {turn['path']}, {turn['stage']}:\n{turn['wrong']}" for turn in found
    )


def sweep(folder: Path, mode: str, shares: list[list[int]]) -> list[list[SweepPoint]]:
    """A process for each share of the calls; what each turn found."""
    processes = []
    for worker, numbers in enumerate(shares):
        mine = folder / str(worker)
        mine.mkdir()
        command = [sys.executable, "-m", "tests.support.sweep.calls", str(mine), mode, *map(str, numbers)]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]))
    try:
        found = [[json.loads(line) for line in process.communicate()[0].splitlines()] for process in processes]
        assert [process.returncode for process in processes] == [0] * len(shares)
    finally:
        for process in processes:
            process.kill()
    return found
