"""`kvwal queue` without a node: the locations and names that are refused, and what is said of a queue without items to take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvwal.cli.queue.names import QueueName
from kvwal.cli.queue.reader import Numbers
from kvwal.cli.queue.selection import note_nothing_in
from tests.support.cli import Ran, kvwal

COMMANDS = {
    "list": [],
    "put": ["mail", "1"],
    "take": ["mail"],
    "browse": ["mail"],
    "move": ["mail", "mail/urgent"],
    "purge": ["mail", "--yes"],
    "options": ["mail"],
    "stats": ["mail"],
}
CLUSTER = "kvwal://127.0.0.1:1"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_archive_is_refused(command: str) -> None:
    ran = kvwal("queue", command, "s3://bucket/prefix", *COMMANDS[command])
    sentence = (
        "kvwal: s3://bucket/prefix is an archive, and `kvwal queue` works on folders and clusters. Name the folder or the cluster"
        " that archives there. Its queues are tables of `kvwal query`.\n"
    )
    assert ran == Ran(2, "", sentence)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_cluster_that_does_not_answer_is_named(command: str) -> None:
    ran = kvwal("queue", command, CLUSTER, *COMMANDS[command])
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("kvwal: no node of the cluster local answers (127.0.0.1:1: Connection refused).")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_cluster_has_no_node_and_no_archive_to_choose(command: str) -> None:
    for option in ("node", "archive"):
        ran = kvwal("queue", command, CLUSTER, *COMMANDS[command], f"--{option}", "x")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"kvwal: {CLUSTER} is a cluster, and")
        assert ran.err.endswith(f"Leave out --{option}.\n")


def test_events_of_flume_need_a_folder(tmp_path: Path) -> None:
    ran = kvwal("import", "flume", tmp_path, CLUSTER)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(
        f"kvwal: {CLUSTER} is a cluster, and this command needs the folder of a store. Name a folder."
    )


class Queues:
    """A reader of a business with these queues, for the sentence on one of them."""

    def __init__(self, names: list[str], numbers: Numbers) -> None:
        self._names = names
        self._numbers = numbers

    def names(self, business: str) -> list[str]:
        return self._names

    def numbers(self, queue: QueueName) -> Numbers:
        return self._numbers


@pytest.mark.parametrize(
    ("names", "numbers", "told"),
    [
        (["mail/a"], Numbers(0, 0), "mail has no item (queues with items in mail: mail/a)."),
        ([], Numbers(0, 0), "mail has no item (queues with items in mail: none)."),
        (["mail"], Numbers(2, 0), "mail has no item that can be taken now (2 in flight)."),
        (["mail"], Numbers(None, 1_000), "mail has no item that can be taken now (1,000 delayed)."),
        (["mail", "mail/a"], Numbers(1, 3), "mail has no item that can be taken now (1 in flight and 3 delayed)."),
        (["mail"], Numbers(0, 0), "mail has no item that can be taken now."),
    ],
)
def test_a_queue_without_an_item_to_take_is_told(
    names: list[str], numbers: Numbers, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    queues: Any = Queues(names, numbers)
    note_nothing_in(queues, QueueName("mail"))
    assert capsys.readouterr().err == f"kvwal: {told}\n"
