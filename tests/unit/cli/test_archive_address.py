"""A secret in the URL of an archive reaches the workers of Spark, and no sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.cli.commands.archives import ArchiveSelection
from kvwal.errors import ArchiveError, ConfigError
from kvwal.location.opening import Names, only_reads, open_reader
from kvwal.location.parse import ArchiveLocation
from kvwal.spark import restore
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects
from kvwal_archive.registry import register

URL = "memory://user:hunter2@shown"


@contextmanager
def no_session(master: str) -> Iterator[str]:
    yield master


def test_the_workers_open_the_archive_with_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the session is none: what it is given is what is looked at."""
    monkeypatch.setattr("kvwal.cli.commands.archives.spark_session", no_session)
    objects = open_objects(URL)
    register(objects, Place("default", "local", "jobs", "n1"), "log-1")
    given = ArchiveSelection(source=URL).on_spark("local", objects, lambda _, url, **names: (url, names["business"]))
    assert given == [(URL, "jobs")]


def test_no_sentence_repeats_the_secret(tmp_path: Path) -> None:
    spark: Any = None
    told = [str(only_reads(ArchiveLocation(URL)))]
    with pytest.raises(ConfigError) as refused, open_reader(ArchiveLocation(URL), Names(archive="none")):
        pass
    told.append(str(refused.value))
    with pytest.raises(ArchiveError) as nothing:
        kvwal.restore(URL, tmp_path / "root", namespace="none")
    told.append(str(nothing.value))
    with pytest.raises(ConfigError) as target:
        restore(spark, tmp_path, URL)
    told.append(str(target.value))
    assert all("memory://shown" in sentence and "hunter2" not in sentence for sentence in told), told
