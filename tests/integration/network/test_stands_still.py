"""A member that stands still: the system accepts connections for it, and nobody answers on them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.cluster.links import members_of
from tests.support.cluster.nodes import Node, cluster, needs_hazelcast
from tests.support.polling import until

pytestmark = [pytest.mark.long, needs_hazelcast]
OBSERVED_S = 10.0
TICKS = os.sysconf("SC_CLK_TCK")


def network_seconds(node: Node) -> float:
    """Processor time of the threads of a member that read and write its connections."""
    used = 0
    for task in Path(f"/proc/{node.pid}/task").iterdir():
        name, _, figures = (task / "stat").read_text().partition("(")[2].rpartition(")")
        if ".IO.th" in name:
            used += sum(map(int, figures.split()[11:13]))
    return used / TICKS


def test_those_that_serve_do_not_ask_it_again_and_again(tmp_path: Path) -> None:
    """A thread that did took a core, and served its other connections late: the others gave each other up, too."""
    with cluster(tmp_path, 3) as three:
        stopped, *others = three.nodes
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            until(lambda: all(members_of(node) == len(others) for node in others) or None)
            before = [network_seconds(node) for node in others]
            began = time.monotonic()
            with others[0].client() as client:
                jobs = client.get_map("jobs").blocking()
                while (elapsed := time.monotonic() - began) < OBSERVED_S:
                    jobs.put("key", elapsed)
            used = [network_seconds(node) - earlier for node, earlier in zip(others, before, strict=True)]
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        assert max(used) < OBSERVED_S / 2
        assert all(members_of(node) >= len(others) for node in others)
