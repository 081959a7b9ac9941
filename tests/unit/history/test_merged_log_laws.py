"""A log into which nodes were merged is not in the order of time. Its readers find every change after a timestamp, each once."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvwal
from kvwal.errors import BeforeHistory
from kvwal.log.files import format as log_format
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.store.root_nodes.merge import MergePorts, merge_nodes
from kvwal_archive.layout import Place
from tests.support.archive.archiver import InProcess
from tests.support.chance import examples

TARGET = Place("default", "local", "b", "shared")
SETTINGS = kvwal.Settings(segment_bytes=64 << 10)
NODES = ("shared", "app1", "app2", "app3")
WRITES = st.tuples(st.sampled_from(NODES), st.integers(1, 4), st.sampled_from([10, 30_000]))
STEPS = st.lists(
    st.one_of(
        WRITES,
        st.lists(st.sampled_from(NODES[1:]), min_size=1, max_size=3, unique=True),
        st.sampled_from(["checkpoint", "archive"]),
    ),
    min_size=2,
    max_size=12,
)


class Logs:
    """A root whose nodes write and are merged, and every change that was made."""

    def __init__(self, root: Path, archive: Path | None) -> None:
        self.root = root
        self.archive = archive
        self.made: dict[str, int] = {}

    def step(self, step: Any) -> None:
        """Write to a node, merge some nodes into the target, or make a checkpoint or an archive of the target."""
        if isinstance(step, tuple):
            self.write(*step)
        elif isinstance(step, list):
            merge_nodes(MergePorts(OS_DISK, SYSTEM), self.root, TARGET, self.there(step), lambda *told: None)
        elif self.there(["shared"]):
            with kvwal.open(self.root, node="shared", archive=self.archive, settings=SETTINGS) as store:
                store.map("b")
                store.checkpoint() if step == "checkpoint" else store.archive() if self.archive else None

    def there(self, nodes: list[str]) -> list[str]:
        return [node for node in nodes if (self.root / "default/local/b" / node).is_dir()]

    def write(self, node: str, count: int, size: int) -> None:
        """Entries of a node, in a session of its own."""
        archive = self.archive if node == "shared" else None
        with kvwal.open(self.root, node=node, archive=archive, settings=SETTINGS) as store:
            entries = store.map("b")
            for _ in range(count):
                key = f"{node}-{len(self.made)}"
                self.made[key] = entries.put(key, "x" * size)

    def after(self, timestamp: int) -> list[str]:
        """The changes that a watch gives."""
        with kvwal.open(self.root, read_only=True, archive=self.archive) as store:
            watch = store.map("b").watch(after=timestamp)
            given: list[str] = []
            while page := watch.poll():
                given += [entry.key.decode() for entry in page]
        return given


@pytest.mark.breaks("timestamps", reason="segments of earlier versions do not say that they were merged")
@pytest.mark.parametrize("says_merged", [True, False], ids=["merged today", "merged by an earlier version"])
@settings(max_examples=examples(20), deadline=None)
@given(steps=STEPS, archived=st.booleans())
def test_a_watch_gives_every_change_after_a_timestamp_in_any_log(
    says_merged: bool, steps: list[Any], archived: bool
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="kvwal-merged-"))
    encode = log_format._encode

    def as_before(value: Any) -> bytes:
        """Headers as versions wrote them that did not say that nodes were merged."""
        fields = log_format.msgspec.structs.asdict(value) if isinstance(value, log_format.Header) else value
        return encode({n: v for n, v in fields.items() if n != "merged"} if isinstance(fields, dict) else fields)

    logs = Logs(folder / "root", folder / "archive" if archived else None)
    try:
        with (
            patch("kvwal.archiver.remote.Child", InProcess),
            patch.object(log_format, "_encode", encode if says_merged else as_before),
        ):
            logs.write("shared", 1, 10)
            for step in steps:
                logs.step(step)
            made = sorted(logs.made.values())
            for timestamp in [made[0] - 1, *made[:: max(1, len(made) // 5)], made[-1]]:
                wanted = sorted(key for key, made in logs.made.items() if made > timestamp)
                try:
                    assert sorted(logs.after(timestamp)) == wanted
                except BeforeHistory:
                    assert not archived, "what an archive has is found"
                    assert "checkpoint" in steps
    finally:
        shutil.rmtree(folder)
