"""Small disks that really fill: a tmpfs, and an ext4 in a file. Both need root; without it a test skips and says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.polling import until

MIB = 1 << 20


@contextmanager
def small_disk(kind: str, size: int) -> Iterator[Path]:
    """A folder that is a disk of its own of `size` bytes; `kind` is `tmpfs` or `ext4`. Gone at the end."""
    if os.geteuid():
        pytest.skip("mounting a small disk needs root")
    with tempfile.TemporaryDirectory(prefix="kvwal-disk-") as made:
        folder, image = Path(made, "disk"), Path(made, "image")
        folder.mkdir()
        mount(kind, image, folder, size)
        try:
            yield folder
        finally:
            unmount(folder)


@contextmanager
def tmpfs(folder: Path, size: int) -> Iterator[None]:
    """A new folder at this path that is a disk of its own of `size` bytes while the context lasts."""
    folder.mkdir()
    mount("tmpfs", folder, folder, size)
    try:
        yield
    finally:
        unmount(folder)


def take_all(disk: Path) -> Path:
    """A file of somebody else, which may be there already, to which the last byte of the disk goes."""
    path = disk / "of somebody else"
    with path.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return path


def mount(kind: str, image: Path, folder: Path, size: int) -> None:
    """Mount a tmpfs, or the ext4 in `image`, which is made if it is not there."""
    if kind == "tmpfs":
        _run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder))
        return
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed: apt-get install e2fsprogs")
    if not image.exists():
        with image.open("wb") as file:
            file.truncate(size)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True, stdout=subprocess.PIPE)
    _run("mount", "-o", "loop", str(image), str(folder))


def unmount(folder: Path) -> None:
    """Unmount it, when the archivers of killed processes, which may still use it, have noticed and ended."""
    until(lambda: _unmounted(folder))


def _unmounted(folder: Path) -> bool | None:
    done = subprocess.run(["umount", str(folder)], check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode and "busy" not in done.stderr:
        raise OSError(done.stderr.strip())
    return None if done.returncode else True


def abort(folder: Path) -> None:
    """Make an ext4 read-only under its writers, as the kernel does with a disk that fails."""
    subprocess.run(["mount", "-o", "remount,abort", str(folder)], check=False, stderr=subprocess.PIPE)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        pytest.skip(f"this machine does not let a test mount a disk: {done.stderr.strip()}")
