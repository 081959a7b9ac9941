"""`make mutants`: breaks each promise in a copy of the source, and demands that the tests notice.

    python -m tests.mutants.run [WORD …]        only the mutants whose names hold one of the words

First the tests must pass without any mutation; then, for each mutant, one of those that it names must fail. Two run at a time.
Prints a table; exit code 1 if a mutant survived.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.mutants import (
    of_files_beside,
    of_provenance,
    of_shared_queues,
    of_spark,
    of_the_archive,
    of_the_cluster,
    of_the_disk,
    of_the_importers,
    of_the_log,
    of_the_queue,
)
from tests.mutants.mutant import Mutant
from tests.repository.source import ROOT, committed

MUTANTS = [
    *of_the_disk.MUTANTS, *of_the_log.MUTANTS, *of_files_beside.MUTANTS, *of_the_queue.MUTANTS, *of_the_archive.MUTANTS,
    *of_the_cluster.MUTANTS, *of_shared_queues.MUTANTS, *of_the_importers.MUTANTS, *of_spark.MUTANTS,
    *of_provenance.MUTANTS,
]  # fmt: skip
AT_ONCE = 2
TIMEOUT_S = 1_200.0
"""Seconds after which the tests of a mutant have no verdict. Some wait for what a mutant may keep from ever happening."""
TESTS_FAILED = 1
"""What pytest answers when tests ran and some failed; anything else is no verdict on a mutant."""


class Outcome(NamedTuple):
    """How the tests of a mutant ended: pytest's exit code, its last lines, and the seconds they took."""

    mutant: Mutant
    code: int
    said: str
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether a test noticed."""
        return self.code == TESTS_FAILED

    @property
    def by(self) -> str:
        """The test that noticed; of a survivor, the last lines of pytest."""
        failed = re.search(r"^(?:FAILED|ERROR) tests/(\S+)", self.said, re.MULTILINE)
        return failed[1] if self.caught and failed else self.said


def copy(folder: Path) -> Path:
    """The committed files, as they stand, in a folder of their own."""
    for path in committed():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, folder / path)
    return folder


def pytest(folder: Path, tests: list[str]) -> tuple[int, str]:
    """Run tests of a copy, up to the first failure; the exit code and the last lines."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=verdict", f"--basetemp={folder}/scratch"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return -1, f"The tests did not end in {TIMEOUT_S:g} s: name one that fails instead of waiting."
    return ran.returncode, "\n".join((ran.stdout + ran.stderr).strip().splitlines()[-3:])


def run(mutant: Mutant) -> Outcome:
    """Run the tests of one mutant in a copy of its own."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kvwal-mutant-") as name:
        folder = copy(Path(name))
        (folder / mutant.file).write_text(mutant.applied(ROOT))
        code, said = pytest(folder, mutant.caught_by.split())
    return Outcome(mutant, code, said, time.monotonic() - began)


def check_unbroken(mutants: list[Mutant]) -> None:
    """The tests must pass while nothing is broken, else a failure says nothing."""
    tests = sorted({test for mutant in mutants for test in mutant.caught_by.split() if test.startswith("tests/")})
    with tempfile.TemporaryDirectory(prefix="kvwal-mutant-") as name:
        code, said = pytest(copy(Path(name)), tests)
    if code:
        raise SystemExit(f"The tests fail without any mutation:\n{said}")


def main(words: list[str]) -> int:
    """Run the mutants that are meant; 0 when all were caught."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    check_unbroken(chosen)
    outcomes = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for outcome in pool.map(run, chosen):
            outcomes.append(outcome)
            verdict = "caught" if outcome.caught else "SURVIVED"
            mutant = outcome.mutant
            print(
                f"{mutant.promise}  {verdict:8}  {outcome.seconds:4.0f} s  {mutant.name:75}  {outcome.by}", flush=True
            )
    survived = [outcome for outcome in outcomes if not outcome.caught]
    print(f"{len(outcomes) - len(survived)} of {len(outcomes)} mutants were caught.")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
