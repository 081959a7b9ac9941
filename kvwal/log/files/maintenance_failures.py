"""Status file of failed maintenance jobs in a log's folder, for other processes (`kvwal doctor`).

A job is in it if its last try failed. The open store writes it when a job begins or ceases to fail, and removes it when none
fails. It is JSON, and nothing of the log depends on it: a file that cannot be read counts as none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from kvwal.errors import Kind, KvwalError
from kvwal.log.files.atomic_file import write_file
from kvwal.log.files.names import FAILURES
from kvwal.ports.boundary import trace_of_bug
from kvwal.ports.disk import Disk

_BUG_HINT = "Report it, with the trace that the log of its process has under `maintenance failed`."


class JobFailure(msgspec.Struct, frozen=True):
    """The failure of a job: why its last try failed, and what to do about it (or "").

    `since_ms`: when the current series of failures began.
    `is_damage`: a file of the log or an object of the archive is damaged, so no later try succeeds by itself.
    """

    what: str
    hint: str
    since_ms: int
    is_damage: bool = False

    @property
    def reason(self) -> str:
        """What failed and what to do, as the text of an error has both."""
        return f"{self.what} {self.hint}" if self.hint else self.what


def failure_of(error: BaseException, since_ms: int) -> JobFailure:
    """The failure of a job that raised `error`."""
    if trace_of_bug(error) is not None:
        return JobFailure(f"a bug: {type(error).__name__}: {error}.", _BUG_HINT, since_ms)
    if isinstance(error, KvwalError):
        return JobFailure(error.what, error.hint, since_ms, error.kind is Kind.DAMAGE)
    return JobFailure(str(error), "", since_ms)


def read_failures(disk: Disk, folder: Path) -> dict[str, JobFailure]:
    """The failures in the status file of a log's folder, by job. Empty if there is no such file, or none that can be read."""
    try:
        return _decode(disk.read(folder / FAILURES))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def write_failures(disk: Disk, folder: Path, failures: Mapping[str, JobFailure]) -> None:
    """Replace the status file, or remove it if there are no failures. Raises `OSError`."""
    if failures:
        write_file(disk, folder / FAILURES, [_encode(failures)])
    else:
        disk.unlink(folder / FAILURES)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, JobFailure]).decode
