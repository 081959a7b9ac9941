"""Programs of a second user, as the tests of owners need them. They need root; without it a test skips and says so."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kvwal

NOBODY = 65534
"""The user and the group of the second user."""
_KVWAL = "import sys; from kvwal.cli.main import main; sys.argv[0] = 'kvwal'; main()"


@contextmanager
def home_of_another_user() -> Iterator[Path]:
    """An empty folder of the second user, which every user can reach."""
    if os.geteuid():
        pytest.skip("a test of two users is run by root, which may act as both")
    with tempfile.TemporaryDirectory(prefix="kvwal-user-") as made:
        folder = Path(made)
        os.chown(folder, NOBODY, NOBODY)
        folder.chmod(0o755)
        yield folder


def kvwal_as(user: int, *words: str | Path, folder: Path = Path("/")) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user, 0 or the second one, in a folder."""
    return run_as(user, [sys.executable, "-c", _KVWAL, *map(str, words)], folder)


def python_as(user: int, program: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program of Python as a user: 0, or the second one."""
    return run_as(user, [sys.executable, "-c", program, *map(str, words)])


def run_as(user: int, command: list[str], folder: Path = Path("/")) -> subprocess.CompletedProcess[str]:
    """Run a command as a user. Where Python or kvwal is below a folder that only root may enter, as a home, the command sees it
    mounted elsewhere: in mounts of its own.
    """
    if user:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
        if bindings := _bindings({Path(sys.base_prefix), Path(sys.prefix), Path(kvwal.__file__).parents[1]}):
            if shutil.which("unshare") is None:
                pytest.skip(
                    "unshare, which lets another user reach Python, is not installed: apt-get install util-linux"
                )
            command = ["unshare", "--mount", "sh", "-ec", "\n".join([*bindings, shlex.join(command)])]
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)


def _bindings(needed: Iterable[Path]) -> list[str]:
    """Lines of a shell that mount an empty folder over each closed one, and what is needed of it inside."""
    closed: dict[Path, list[Path]] = {}
    for path in needed:
        for folder in reversed(path.resolve().parents):
            if not folder.stat().st_mode & 0o001:
                closed.setdefault(folder, []).append(path.resolve())
                break
    lines = []
    for folder, paths in closed.items():
        at, shown = shlex.quote(str(folder)), [shlex.quote(str(path)) for path in paths]
        lines += [f"exec {number}< {path}" for number, path in enumerate(shown, 3)]
        lines += [f"mount -t tmpfs -o mode=755 none {at}"]
        for number, path in enumerate(shown, 3):
            lines += [
                f"mkdir -p {path}",
                f"mount --no-canonicalize --bind /proc/self/fd/{number} {path}",
                f"exec {number}<&-",
            ]
    return lines
