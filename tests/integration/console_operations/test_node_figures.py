"""Figures that real nodes tell a client: in each phase, and those of /metrics. A node that stands still is a sentence."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from unittest.mock import patch

import pytest

import kvwal
from kvwal.client.member_tasks import _FiguresTask
from kvwal.cluster.figures.messages import OLDER
from kvwal.cluster.figures.quantiles import quantile
from tests.support.cluster.nodes import CLUSTER, cluster, needs_hazelcast

pytestmark = [needs_hazelcast, pytest.mark.long, pytest.mark.timeout(300)]
WITHIN = 30.0


def test_nodes_tell_their_figures_in_each_phase(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as nodes:
        first, second = nodes.nodes
        with kvwal.connect(nodes.addresses, cluster=CLUSTER) as store:
            store.map("jobs").put_many({f"job-{number}": number for number in range(100)})
            told = {each.member.node: each.figures for each in store.figures(WITHIN)}
            for node in (first, second):
                figures, metrics = told[node.name], node.figures()
                assert figures is not None
                assert (figures.phase, figures.serves, set(figures.members)) == (
                    "serving",
                    True,
                    {first.name, second.name},
                )
                jobs = figures.logs["jobs"]
                assert jobs.last_sequence == metrics['kvwal_last_sequence{business="jobs"}']
                assert figures.maps["jobs"] == (100, metrics['kvwal_map_bytes{map="jobs"}'])
                assert (figures.written, figures.fsyncs[-1][1]) == (
                    metrics["kvwal_entries_total"],
                    metrics["kvwal_fsync_seconds_count"],
                )
                assert figures.lines == {
                    level: metrics[f'kvwal_log_lines_total{{level="{level}"}}'] for level in ("warning", "error")
                }
                median, late = quantile(figures.fsyncs, 0.5), quantile(figures.fsyncs, 0.99)
                assert median is not None
                assert late is not None
                assert 0 < median <= late
            with patch.object(
                _FiguresTask, "CLASS_ID", 99
            ):  # a number that no node knows, as an older one does not know 35
                assert {each.why_not for each in store.figures(WITHIN)} == {OLDER}
            os.kill(second.pid, signal.SIGSTOP)
            try:
                still = {each.member.node: each for each in store.figures(5.0)}
            finally:
                os.kill(second.pid, signal.SIGCONT)
            assert still[first.name].figures is not None
            assert (still[second.name].figures, "not answered within 5 s" in still[second.name].why_not) == (None, True)
        for node in (first, second):
            node.kill()
        first.spawn()
        first.told("waiting for members")
        with kvwal.connect(first.address, cluster=CLUSTER) as store:
            (waiting,) = store.figures(WITHIN)
            assert waiting.figures is not None
            assert (waiting.figures.phase, waiting.figures.serves) == ("waiting for members", False)
            assert second.name in waiting.figures.members
        second.start()
        first.wait_ready()
