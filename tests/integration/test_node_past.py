"""The past while the archive is away: whoever asks for it waits, and nobody else."""

from __future__ import annotations

from pathlib import Path

import kvwal
from kvwal.client.past import ask
from kvwal.cluster.questions import Question
from tests.support.cluster import CLUSTER, Node, needs_hazelcast
from tests.support.ports import free_port

MORE_THAN_THREADS = 70


@needs_hazelcast
def test_questions_that_wait_for_the_archive_keep_no_transaction_waiting(tmp_path: Path) -> None:
    """The last of two members: what it is asked waits for an archive, as it would for the other one's."""
    archive, kept = tmp_path / "archive", tmp_path / "kept"
    node = Node(tmp_path / "root")
    gone = f"127.0.0.1:{free_port()}"
    node.more = ["--members", f"{node.address},{gone}", "--without", gone, "--archive", str(archive)]
    node.start()
    try:
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            jobs = store.map("jobs")
            jobs.put("a", 1)
            assert len(jobs.history("a")) == 1
            archive.rename(kept)
            archive.write_text("no folder")
            jobs.put("a", 2)
            question = Question("jobs", "str", b"a")
            asked = [ask(store.hazelcast, question) for _ in range(MORE_THAN_THREADS)]
            # Each thread of the member takes what is sent to it in order: behind this all questions are asked.
            store.hazelcast.get_map("tmp.behind").blocking().put_all(dict.fromkeys(range(5000), 1))
            jobs.put_many({"a": 3, "b": 3})
            assert not any(answer.done() for answer in asked)
            archive.unlink()
            kept.rename(archive)
            assert len(jobs.history("a")) == 3
    finally:
        node.kill()
