"""The archiver without its process, where a test cannot wait for an interpreter; and what the business `b` has archived."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

import kvwal
from kvwal.archiver.jobs import decode_job, encode
from kvwal.archiver.work import answer
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects
from kvwal_archive.reader import coverage
from kvwal_archive.registry import owner

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


def archivers() -> list[psutil.Process]:
    """The archivers that this process has started, and that run. It may have other children, and ended ones nobody waited for."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if "kvwal.archiver" in child.cmdline():
                found.append(child)
    return found
