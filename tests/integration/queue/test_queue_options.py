"""`kvwal queue options`, and what options do to the other commands of a queue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvwal as library
from tests.support.cli import Ran, kvwal
from tests.support.queue.blocks import rolled_back

NOT_SET = {
    "capacity": None, "capacity_bytes": None, "redelivery_delay": None, "max_deliveries": None, "dead_letters": None, "ttl": None,
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    with library.open(root, archive=None) as store:
        store.queue("mail").put_many(["a", "b"])
    return root


def printed(ran: Ran) -> Any:
    assert ran.code == 0, ran
    return json.loads(ran.out)


def items(root: Path, name: str = "") -> list[Any]:
    with library.open(root, read_only=True) as store:
        return list(store.business("mail").queue(name).browse())


def test_options_are_set_shown_and_cleared(root: Path) -> None:
    assert printed(kvwal("queue", "options", root, "mail", "--json")) == {"queue": "mail", **NOT_SET}
    words = ["--capacity", 5, "--capacity-bytes", 1000, "--redelivery-delay", "1m", "--ttl", "1h"]
    ran = kvwal("queue", "options", root, "mail", *words, "--max-deliveries", 3, "--dead-letters", "mail/dead")
    assert ran.code == 0
    assert [tuple(line.split()) for line in ran.out.splitlines()] == [
        ("queue", "mail"), ("capacity", "5"), ("capacity_bytes", "1,000"), ("redelivery_delay", "60.0"), ("max_deliveries", "3"),
        ("dead_letters", "mail/dead"), ("ttl", "3600.0"),
    ]  # fmt: skip
    with library.open(root, archive=None) as store:  # shown while another program holds the store
        assert store.queue("mail").options().capacity == 5
        assert printed(kvwal("queue", "options", root, "mail", "--json"))["dead_letters"] == "mail/dead"
    cleared = [word for name in ("max-deliveries", "dead-letters", "ttl") for word in (f"--{name}", "none")]
    assert printed(kvwal("queue", "options", root, "mail", *cleared, "--json")) == {
        "queue": "mail", **NOT_SET, "capacity": 5, "capacity_bytes": 1000, "redelivery_delay": 60.0,
    }  # fmt: skip
    assert items(root) == ["a", "b"]


def test_options_begin_a_queue_and_show_none_that_is_not_there(root: Path) -> None:
    ran = kvwal("queue", "options", root, "mail/urgnet")
    assert ran == Ran(1, "", "kvwal: mail/urgnet has no item (queues with items in mail: mail).\n")
    ran = kvwal("queue", "options", root, "mail/new", "--capacity", 1, "--json")
    assert printed(ran)["capacity"] == 1
    assert ran.err == "kvwal: the queue mail/new is new in mail (there are: mail).\n"
    assert printed(kvwal("queue", "options", root, "mail/new", "--json"))["capacity"] == 1
    assert kvwal("queue", "put", root, "mail/new", "1") == Ran(0, "mail/new: 1 item was put.\n", "")


def test_a_full_queue_ends_puts_and_moves(root: Path) -> None:
    assert kvwal("queue", "options", root, "mail/few", "--capacity", 1).code == 0
    full = "mail/queue/few is full: its capacity is 1 item"
    more = " Take items, or set a larger capacity.\n"
    assert kvwal("queue", "move", root, "mail", "mail/few") == Ran(
        3, "", f"kvwal: 1 item was moved, and no more: {full}; nothing was put.{more}"
    )
    assert (items(root), items(root, "few")) == (["b"], ["a"])
    assert kvwal("queue", "put", root, "mail/few", "c") == Ran(3, "", f"kvwal: {full}; nothing was put.{more}")
    ran = kvwal("queue", "put", root, "mail/few", "c", "d")
    assert (ran.code, "2 items of 2 bytes are more than its capacity of 1 item" in ran.err) == (2, True)


def test_stats_and_browse_show_what_is_delayed_and_dead(root: Path) -> None:
    with library.open(root, archive=None) as store:
        q = store.queue("mail")
        q.set_options(capacity=5, max_deliveries=2, dead_letters="dead", redelivery_delay=3600)
        with rolled_back(q.transaction()) as t:
            t.take()
        store.business("mail").queue("dead").put("old")
    stats = printed(kvwal("queue", "stats", root, "mail", "--json"))
    assert {name: stats[name] for name in ("items", "delayed", "capacity", "dead_letters")} == {
        "items": 2, "delayed": 1, "capacity": 5, "dead_letters": {"mail/dead": 1},
    }  # fmt: skip
    first, second = [json.loads(line) for line in kvwal("queue", "browse", root, "mail", "--json").out.splitlines()]
    assert (first["deliveries"], "due" in first, "deliveries" in second) == (1, True, False)
    assert kvwal("queue", "take", root, "mail", "-n", 5) == Ran(0, '"b"\n', "")
    ran = kvwal("queue", "take", root, "mail", "--timeout", 0.2)
    assert (ran.code, ran.out) == (1, "")
    with library.open(root, archive=None) as store:
        store.queue("mail").put("soon", delay=0.5)
    assert kvwal("queue", "take", root, "mail", "--timeout", "1h") == Ran(0, '"soon"\n', "")
    assert kvwal("queue", "purge", root, "mail", "--yes").out == "mail: 1 item deleted.\n"
