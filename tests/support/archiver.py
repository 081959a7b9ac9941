"""The archiver without its process: the same jobs by the same code, where a test cannot wait for an interpreter."""

from __future__ import annotations

from kvwal.archiver.jobs import decode_job, encode
from kvwal.archiver.work import answer


class InProcess:
    """Stands for `kvwal.ports.tasks.Child`."""

    def __init__(self, module: str) -> None:
        self.module = module

    def ask(self, line: bytes) -> bytes:
        """Do the job."""
        return encode(answer(decode_job(line)))

    def close(self) -> None:
        """Nothing to end."""
