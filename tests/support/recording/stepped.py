"""An application of Spark as a process group of its own, which prints lines and goes on when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.repository.source import ROOT
from tests.support.spark import environment


class SteppedDriver:
    """The application. Its first line is its id, `app`; its standard error is in the file `stderr` of its folder."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.folder = folder
        self._process = process
        self.app = self.line()

    def line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.said()[-4_000:]
        return line.strip()

    def go_on(self) -> None:
        """Let it go on from where it waits."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill -9 its Python, its JVM and their workers."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def exit_code(self) -> int:
        """Wait for its end."""
        return self._process.wait()

    def said(self) -> str:
        """Its standard error."""
        return (self.folder / "stderr").read_text()


@contextmanager
def stepped_process(words: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A Python with these words, in `folder`. It is killed afterwards, with all that it started."""
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env=environment(ROOT), cwd=folder, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
