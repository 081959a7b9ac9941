"""The past while the archive is away: a question for it is refused, and keeps nothing else waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
from kvwal.client.member_tasks import ask_history
from kvwal.cluster.requests import Question
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast
from tests.support.ports import free_port

MORE_THAN_THREADS = 70


@pytest.mark.long
@needs_hazelcast
def test_questions_that_need_the_archive_keep_no_transaction_waiting(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    node = Node(tmp_path / "root")
    gone = f"127.0.0.1:{free_port()}"
    node.more = ["--members", f"{node.address},{gone}", "--without", gone, "--archive", str(archive)]
    node.start()
    try:
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            jobs = store.map("jobs")
            jobs.put("a", 1)
            assert len(jobs.history("a")) == 1
            archive.write_text("no folder")  # nothing was archived for the question
            jobs.put("a", 2)
            with pytest.raises(kvwal.ArchiveError):
                jobs.history("a")
            question = Question("jobs", "str", b"a")
            asked = [ask_history(store.hazelcast, question) for _ in range(MORE_THAN_THREADS)]
            jobs.put_many({"a": 3, "b": 3})
            assert all(isinstance(answer.exception(), Exception) for answer in asked)
            archive.unlink()
            assert len(jobs.history("a")) == 3
    finally:
        node.kill()
