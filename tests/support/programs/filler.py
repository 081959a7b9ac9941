"""The program `tests.support.programs.fill` from outside: what it is told, what it says, and what must therefore be there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kvwal
from tests.support.programs.fill import THREADS

Known = dict[str, int]


class Filler:
    """Drives `tests.support.programs.fill`. `known` is what was acknowledged, `unknown` what may be there too."""

    def __init__(self, root: Path, archive: Path | str, under: Sequence[str] = ()) -> None:
        """`under`: a command that runs the program, as `strace` does."""
        command = [*under, sys.executable, "-m", "tests.support.programs.fill", str(root), str(archive)]
        where = Path(__file__).parents[3]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=where)
        self.known: Known = self._answer()
        self.unknown: Known = {}

    def tell(self, word: str) -> Any:
        """Give a command, and return what it answers."""
        self.say(word)
        answer = self._answer()
        if isinstance(answer, dict) and "known" in answer:
            self.known, self.unknown = answer["known"], answer["unknown"]
        return answer

    def say(self, word: str) -> None:
        """Give a command, and do not wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def lines(self) -> Iterator[Any]:
        """What it says."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def _answer(self) -> Any:
        return next(self.lines())

    def close(self) -> int:
        """Let it close its store, and return how it ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()

    def may(self) -> dict[str, list[int]]:
        """What may be there instead of what is known."""
        return {key: [value] for key, value in self.unknown.items()}

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()


@contextmanager
def filling(root: Path, archive: Path | str, under: Sequence[str] = ()) -> Iterator[Filler]:
    """A filler, killed at the end if it has not ended."""
    filler = Filler(root, archive, under)
    try:
        yield filler
    finally:
        filler.kill()
        for pipe in (filler.process.stdin, filler.process.stdout):
            assert pipe is not None
            pipe.close()


def counts(jobs: kvwal.Map) -> Known:
    """What is there, as the counts that `fill` knows."""
    return {key: count for key, (count, _) in jobs.items()}


def check(found: Known, must: Known, may: dict[str, list[int]]) -> None:
    """Every acknowledged value or one that was on its way, and transactions whole."""
    assert set(found) >= set(must)
    assert not {key: value for key, value in found.items() if value not in (must.get(key), *may.get(key, []))}
    for name in range(THREADS):
        assert len({found.get(f"{name}-all-{part}") for part in range(3)}) == 1, "a transaction came back in part"
