"""How a line of docs/mistakes.md is typed: in this process, in a shell, by another user, or interrupted."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, NamedTuple
from unittest.mock import patch

import pytest

from tests.support.cli import kvwal
from tests.support.disk.users import NOBODY, kvwal_as
from tests.support.polling import until

OTHER_USER = "sudo -u nobody "
_QUOTED = re.compile(r"'[^']*'|\"[^\"$`]*\"")
_FOR_A_SHELL = set("|&;<>$*(){}~\\#!`\"'")
_PREFIX = re.compile(r"^kvwal: ", re.MULTILINE)
SIGNALS = {"Ctrl-C": signal.SIGINT, "kill": signal.SIGTERM}
_TICKS = 2 * os.sysconf("SC_CLK_TCK")
_INTERRUPTED = re.compile(r"(.+?) +# (Ctrl-C|kill)")


class Ended(NamedTuple):
    """How a line ended: its exit code, and what it said. That is standard error, or standard output if that is empty."""

    code: int
    said: str


def ended(code: int, out: str, err: str) -> Ended:
    return Ended(code, _PREFIX.sub("", err or out).strip())


def type_line(line: str, folder: Path) -> Ended:
    """Type a line in the folder. It must end by itself, or be interrupted."""
    if line.startswith(OTHER_USER):
        if os.geteuid():
            pytest.skip("only root may act as another user")
        done = kvwal_as(NOBODY, *shlex.split(line.removeprefix(OTHER_USER))[1:], folder=folder)
        return ended(done.returncode, done.stdout, done.stderr)
    if interrupted := _INTERRUPTED.fullmatch(line):
        return _interrupt(interrupted[1], SIGNALS[interrupted[2]], folder)
    words = shlex.split(line)
    given = {}
    while "=" in words[0]:
        name, _, given[name] = words.pop(0).partition("=")
    if words.pop(0) != "kvwal" or _FOR_A_SHELL & set(_QUOTED.sub("", line)):
        return _in_a_shell(line, folder)
    with patch.dict(os.environ, given):
        return ended(*kvwal(*words))


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def _in_a_shell(line: str, folder: Path) -> Ended:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ended(done.returncode, done.stdout, done.stderr)


def _interrupt(line: str, number: signal.Signals, folder: Path) -> Ended:
    """Send a signal once the command waits for its input, for its reader, or for its answer."""
    process = subprocess.Popen(
        shlex.split(line), cwd=folder, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=_hear_interrupts,
    )  # fmt: skip
    typed, process.stdin = process.stdin, None  # it stays open: an end of the input would end the command in order
    assert typed is not None
    with typed:
        if " import " in line:
            _feed(typed)
        until(lambda: _waits(process) or None)
        process.send_signal(number)
        out, err = process.communicate()
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return ended(code, "" if number is signal.SIGINT else out, err)


def _hear_interrupts() -> None:
    """A shell lets the programs that it starts in the background ignore Ctrl-C, and these tests may be among them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _feed(stdin: IO[str]) -> None:
    """More rows than a transaction has, and no end of file."""
    for number in range(2_000):
        stdin.write(f'{{"key": "row-{number}", "value": {number}}}\n')
    stdin.flush()


def _waits(process: subprocess.Popen[str]) -> bool:
    """Whether the main thread waits for standard input or for the reader of standard output, or a query is under way."""
    assert process.poll() is None, process.communicate()
    try:
        call = Path(f"/proc/{process.pid}/syscall").read_text().split()
        return call[:2] in (["0", "0x0"], ["1", "0x1"]) or _works(process.pid)
    except OSError:
        return False


def _works(pid: int) -> bool:
    """Whether the process has used the processor for longer than a command takes to start: a query is under way."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11]) >= _TICKS
