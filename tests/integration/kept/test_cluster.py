"""Event logs that are kept in a cluster: by a command and by a follower, read by stage, recorded again, and pruned."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

import kvwal
from kvwal.spark.kept.contents import KEPT_LOGS
from tests.support.cli import kvwal as command
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running
from tests.support.event_logs import event_log
from tests.support.polling import until
from tests.support.recording.follow_command import follow_command

pytestmark = needs_hazelcast
NAMES = ("--cluster", CLUSTER)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("node") / "root") as made:
        yield made


@pytest.fixture
def location(node: Node) -> str:
    return f"kvwal://{node.address}"


def connected(node: Node) -> Any:
    return kvwal.connect(node.address, cluster=CLUSTER)


def test_a_command_keeps_logs_and_records_them_again(node: Node, location: str, tmp_path: Path) -> None:
    log = event_log("app-1", 3)
    (tmp_path / "app-1").write_bytes(log)
    assert command("jobs", location, "--tasks", "2", *NAMES).code == 2
    ran = command("record", location, tmp_path / "app-1", "--keep-logs", *NAMES)
    assert (ran.code, "1 log is kept." in ran.err) == (0, True), ran.err
    rows = [json.loads(row) for row in command("jobs", location, "--tasks", "2", "--json", *NAMES).out.splitlines()]
    assert [(row["task"], row["duration_ms"]) for row in rows] == [(4, 10), (5, 10)]
    ran = command("content", "get", location, KEPT_LOGS, "app-1/app-1.zstd", "-o", tmp_path / "out", *NAMES)
    assert ran.code == 0, ran.err
    with (tmp_path / "out").open("rb") as file:
        assert zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read() == log
    again = command("record", location, tmp_path / "app-1", "--keep-logs", *NAMES)
    assert again.code == 0, again.err
    with connected(node) as store:
        records = store.map("spark")
        assert len(store.content(KEPT_LOGS).history("app-1/app-1.zstd")) == 1, "it was kept already"
        before = dict(records.items())
        records["app-1/job/0000000009"] = records["app-1/job/0000000001"]
        assert command("record", location, "app-1", "--again", *NAMES).code == 0
        after = dict(records.items())
        assert "app-1/job/0000000009" not in after
        assert after["app-1/app"] == before["app-1/app"]
        assert not [key for key in after if key.startswith(("!lease/", "!follower/"))]


def test_a_follower_keeps_logs_and_prune_deletes_them(node: Node, location: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "app-2").write_bytes(event_log("app-2", 2))
    words = follow_command(location, logs, "--keep-logs", *NAMES, every=0.1)
    with connected(node) as store, (tmp_path / "stderr").open("ab") as errors:
        contents = store.content(KEPT_LOGS)
        process = subprocess.Popen(words, stderr=errors, stdout=subprocess.DEVNULL)
        try:
            until(lambda: "app-2/app-2.zstd" in contents or process.poll() is not None or None)
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0, (tmp_path / "stderr").read_text()
        finally:
            process.kill()
            process.wait()
        assert contents.stat("app-2/app-2.zstd").attributes["application"] == "app-2"
        assert command("prune", location, "--keep", "1d", *NAMES).code == 0
        assert list(contents) == []
