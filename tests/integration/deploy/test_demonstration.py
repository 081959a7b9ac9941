"""`make run-cluster`, as it is typed: its three nodes have the same records after all of them were killed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.source import ROOT
from tests.support.cluster.nodes import needs_hazelcast
from tests.support.spark import environment


@needs_hazelcast
@pytest.mark.long
def test_the_demonstration_of_a_cluster_has_the_same_records_after_all_nodes_were_killed(tmp_path: Path) -> None:
    (command,) = re.findall(
        r"^run-cluster:.*\n\t@\$\(WITH_JAVA\) \$\(BIN\)/python (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    ran = subprocess.run(
        [sys.executable, str(ROOT / command), str(tmp_path / "demonstration")],
        env=environment(ROOT), capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-4_000:]
    before, after, differ = re.search(r"([\d,]+) records before, ([\d,]+) after, (\d+) differ", ran.stdout).groups()  # type: ignore[union-attr]
    assert (int(before.replace(",", "")) > 50, after, differ) == (True, before, "0")
    listed = re.findall(r"^\S+ +SUCCEEDED.* flights$", ran.stdout, re.MULTILINE)
    assert len(listed) == 2  # before the kill, and after
    assert listed[0] == listed[1]
    assert "Done in" in ran.stdout
