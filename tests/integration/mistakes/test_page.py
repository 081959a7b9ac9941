"""docs/mistakes.md: each line is typed as it stands, and what it says and how it ends is what the page has."""

from __future__ import annotations

import asyncio
import copy
import datetime
import pickle
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import kvwal
from tests.support.archive import s3
from tests.support.cluster.nodes import CLUSTER, GLUE, JAR, running
from tests.support.mistakes.page import PYTHON, Row, rows
from tests.support.mistakes.scene import TOKEN, scene, small_disks
from tests.support.mistakes.typed import OTHER_USER, type_line
from tests.support.ports import closing, silent

ROWS = list(rows())
LINES = [row for row in ROWS if row.section != PYTHON]
STATEMENTS = [row for row in ROWS if row.section == PYTHON]


def named(row: Row) -> str:
    return f"{row.section}: {row.typed}"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with scene() as made:
        yield made


@pytest.fixture(scope="module")
def disks(folder: Path) -> Iterator[None]:
    with small_disks(folder):
        yield


@pytest.fixture(scope="module")
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def address_of(servers: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the words of the page in capital letters stand for. A server is started when it is named first."""
    return Addresses(servers, tmp_path_factory.mktemp("node"))


class Addresses(dict[str, str]):
    def __init__(self, servers: ExitStack, folder: Path) -> None:
        super().__init__()
        self._servers = servers
        self._folder = folder

    def __missing__(self, word: str) -> str:
        self[word] = self._start(word)
        return self[word]

    def _start(self, word: str) -> str:
        if word == "NODE":
            if not (JAR.exists() and GLUE.exists()):
                pytest.skip(
                    "Hazelcast's jar or the glue is not here: `make setup` brings both where there is a network"
                )
            (self._folder / "token").write_text(TOKEN)
            config = f'token_file = "{self._folder / "token"}"\n'
            node = self._servers.enter_context(running(self._folder / "root", config=config))
            with kvwal.connect(node.address, cluster=CLUSTER, token=TOKEN) as store:
                store.queue("mail").put("a letter")
            return node.address
        if word == "BUCKET":
            return s3.bucket(s3.server())
        return self._servers.enter_context({"SILENT": silent, "CLOSING": closing}[word]())


WORDS = ("NODE", "BUCKET", "SILENT", "CLOSING")


@pytest.mark.parametrize("row", LINES, ids=named)
def test_a_mistake_has_its_sentence(
    row: Row,
    folder: Path,
    address_of: dict[str, str],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if any(word.startswith(("full/", "readonly/")) for word in row.typed.split()):
        request.getfixturevalue("disks")
    line = row.typed
    for word in WORDS:
        if word in line:
            line = line.replace(word, address_of[word])
    if "BUCKET" in row.typed:
        for name, value in s3.server().environment().items():
            monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("TZ", "UTC")
    before = files(folder)
    ended = type_line(line, folder)
    assert (ended.code, row.is_said_by(ended.said)) == (int(row.ends), True), ended
    if row.ends == "2" and " new-" not in row.typed:
        assert files(folder) == before, "what is refused leaves no file"


def files(folder: Path) -> list[Path]:
    """The files, but for the segments of a log: an opening for nothing may leave another one, without an entry."""
    return sorted(path for path in folder.rglob("*") if path.suffix != ".wal")


@pytest.fixture(scope="module")
def names(folder: Path) -> Iterator[dict[str, Any]]:
    """The names that the statements of the page use."""
    with kvwal.open(folder / "program") as store, kvwal.open(folder / "other", archive=None) as other:
        jobs, closed = store.map("jobs"), other.map("jobs")
        jobs["job-1"] = {"state": "RUNNING"}
        store.archive()
        with jobs.transaction() as over:
            over["job-2"] = 1
        other.close()

        async def unopened() -> None:
            await kvwal.aio.open(folder / "aio").map("jobs").put("k", 1)

        async def of_another_loop() -> None:
            async with kvwal.aio.open(folder / "aio") as aio_store:
                await asyncio.to_thread(asyncio.run, aio_store.map("jobs").put("k", 1))

        yield {
            "kvwal": kvwal, "store": store, "jobs": jobs, "closed": closed, "over": over, "asyncio": asyncio, "copy": copy,
            "datetime": datetime, "pickle": pickle, "time": time, "unopened": unopened, "of_another_loop": of_another_loop,
        }  # fmt: skip


@pytest.mark.parametrize("row", STATEMENTS, ids=named)
def test_a_mistake_in_a_program_has_its_sentence(
    row: Row, folder: Path, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        exec(row.typed, dict(names))
    assert (type(caught.value).__name__, row.is_said_by(str(caught.value))) == (row.ends, True), caught.value
    assert dict(names["jobs"]) == {"job-1": {"state": "RUNNING"}, "job-2": 1}


def test_the_page_has_more_than_a_hundred_mistakes_and_each_once() -> None:
    assert len(ROWS) > 100
    assert [typed for typed, count in Counter(row.typed for row in ROWS).items() if count > 1] == []
    assert any(row.typed.startswith(OTHER_USER) for row in ROWS)
