"""Bytes of contents on their way: from a file or standard input, to a file or standard output, with a progress bar."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kvwal.cli import show
from kvwal.cli.transfer.new_file import NewFile
from kvwal.cli.transfer.standard_input import NAME, STANDARD_INPUT, standard_input
from kvwal.errors import ConfigError
from kvwal_archive.objects import typed_path

STEP = 1 << 20
"""Bytes that are moved at a time."""
SHOWN = 8 << 20
"""Bytes from which on a progress bar is shown."""
_TEXT = frozenset(range(0x20, 0x7F)) | frozenset(b"\t\n\r") | frozenset(range(0x80, 0x100))
"""Bytes of text that a terminal may get. Others move its cursor, or change its state."""


def path_of(what: str, typed: str) -> Path | None:
    """The path of a file that was typed; None for `-`, which is a standard stream. Raises `ConfigError`."""
    return None if typed == STANDARD_INPUT else typed_path(what, typed, "file")


@contextmanager
def opened(source: Path | None) -> Iterator[tuple[BinaryIO, int]]:
    """The bytes of a file, or of standard input, and their number; 0 if it is not known. `ConfigError` if they cannot be read."""
    if source is None:
        yield standard_input("a FILE"), 0
        return
    try:
        file = source.open("rb")
    except OSError as error:
        raise _unread(source, error) from error
    with file:
        yield file, os.fstat(file.fileno()).st_size


def parts_of(source: Path | None, file: BinaryIO, total: int) -> Iterator[bytes]:
    """The bytes of a file that is open, in parts, with a progress bar on a terminal if they are many."""
    with shown(NAME if source is None else source.name, total) as report:
        done = 0
        while part := _read(source, file):
            yield part
            done += len(part)
            report(done)


def to_file(path: Path, data: io.BufferedReader, total: int) -> int:
    """Write what is left of `data` into a new file, which is there whole or not at all. Returns the number of bytes."""
    done = 0
    with shown(path.name, total) as report, NewFile(path) as file:
        while part := data.read(STEP):
            file.write(part)
            done += len(part)
            report(done)
    return done


def to_output(data: io.BufferedReader, name: str, *, asked: bool) -> None:
    """Write what is left of `data` to standard output. Unless it is `asked` for, a terminal gets text only.

    Raises `ConfigError` before the first part with other bytes, and `OutputFailed`.
    """
    text_only = sys.stdout.isatty() and not asked
    sys.stdout.flush()
    while part := data.read(STEP):
        if text_only and not _is_text(part):
            raise ConfigError(
                f"{name!r} is not plain text, and standard output is a terminal.",
                hint="Write it to a file with -o FILE, pipe it into a program, or print it all the same with -o -.",
            )
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


@contextmanager
def shown(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function that is told how many bytes are done: it draws a progress bar on a terminal, if `total` is large.

    `what` is short, so that the bar has room beside it.
    """
    with show.progress() as report:
        yield lambda done: report(done, total, what) if total >= SHOWN else None


def _is_text(part: bytes) -> bool:
    return _TEXT.issuperset(part) and b"\xc2\x9b" not in part


def _read(source: Path | None, file: BinaryIO) -> bytes:
    try:
        return file.read(STEP)
    except OSError as error:
        raise _unread(source, error) from error


def _unread(source: Path | None, error: OSError) -> ConfigError:
    return ConfigError(
        f"{source or NAME} cannot be read ({error.strerror}); nothing was put.", hint="Name a file of bytes."
    )
