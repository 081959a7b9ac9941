"""The restore of a store whose contents are in a bucket: it is ready without their bytes."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child, peak_memory

QUESTION = Question(
    "restore_contents",
    "How long does a restore with 10 GB of contents take?",
    "a restore of a store with one content of one byte, from the same bucket of SeaweedFS; and a read of a whole content. The"
    " contents have 64 MiB each.",
    "starting the interpreter, importing kvwal, and making the archive.",
)
MODULE = "benchmarks.questions.archive.restore_contents"
MIB = 1 << 20
SETTINGS = kvwal.Settings(archive_seconds=1e6, checkpoint_seconds=1e6)


def measured(root: str, contents: int, size: int, rounds: int) -> dict[str, Any]:
    """Restore, in turn, a store with one content of one byte, and a store with `contents` contents of `size` bytes.

    Returns the seconds of each restore, and of the reads after the large ones.
    """
    from tests.support.archive import s3

    server = s3.server()
    os.environ.update(server.environment())
    few, many = f"{s3.bucket(server)}/few", f"{s3.bucket(server)}/many"
    _fill(f"{root}/few", few, 1, 1)
    block = _fill(f"{root}/many", many, contents, size)
    found: dict[str, list[float]] = {"few": [], "many": [], "first": [], "whole": []}
    for turn in range(rounds):
        for name, archive in (("few", few), ("many", many)):
            began = time.perf_counter()
            kvwal.restore(archive, f"{root}/{name}-{turn}", node=f"restored-{turn}")
            found[name].append(time.perf_counter() - began)
        with kvwal.open(f"{root}/many-{turn}", node=f"restored-{turn}", archive=many, settings=SETTINGS) as store:
            files = store.content("work")
            began = time.perf_counter()
            with files.open("content-0", offset=size // 2, length=MIB) as file:
                assert len(file.read()) == MIB
            found["first"].append(time.perf_counter() - began)
            began = time.perf_counter()
            assert files.get(f"content-{contents - 1}") == block
            found["whole"].append(time.perf_counter() - began)
            assert len(files) == contents
    return {**found, "mib": peak_memory()}


def _fill(root: str, archive: str, contents: int, size: int) -> bytes:
    """An archive of these contents, which all have the bytes that are returned. The root is gone."""
    block = os.urandom(size)
    with kvwal.open(root, archive=archive, settings=SETTINGS) as store:
        files = store.content("work")
        for number in range(contents):
            files.put(f"content-{number}", block)
        store.archive()
    shutil.rmtree(root)
    return block


def measure(run: Run) -> list[Row]:
    """The time until a restored store is open, and what the first bytes take then."""
    contents, size = run.size(150, 3), run.size(64 * MIB, 2 * MIB)
    found = in_child(
        f"{MODULE}:measured", root=str(run.root()), contents=contents, size=size, rounds=run.rounds(5)
    )  # fmt: skip
    notes = {"peak memory, MiB": found["mib"]}
    return [
        absolute_row(
            "Restore with 10 GB of contents, until it is ready", "s", found["few"], found["many"], "at most", 2, notes
        ),
        absolute_row("The first MiB of a content after it", "s", found["whole"], found["first"], "at most", 1),
    ]
