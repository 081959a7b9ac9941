"""The archiver without its process, where a test cannot wait for an interpreter; and what the business `b` has archived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kvwal
from archive.layout import Place
from archive.objects import open_objects
from archive.reader import coverage
from archive.registry import owner
from kvwal.archiver.jobs import decode_job, encode
from kvwal.archiver.work import answer

PLACE = Place("default", "local", "b", "local")


class InProcess:
    """Stands for `kvwal.ports.tasks.Child`: the same jobs by the same code."""

    def __init__(self, module: str) -> None:
        self.module = module

    def ask(self, line: bytes) -> bytes:
        """Do the job."""
        return encode(answer(decode_job(line)))

    def close(self) -> None:
        """Nothing to end."""


def business(store: kvwal.Store) -> dict[str, Any]:
    """What the store says of `b`."""
    found: dict[str, Any] = store.stats()["businesses"]["b"]
    return found


def coverage_of(archive: Path, place: Place = PLACE) -> Any:
    """What the archive holds of the log that owns `place`."""
    objects = open_objects(str(archive))
    registration = owner(objects, place)
    assert registration is not None
    return coverage(objects, place, registration.log_id)
