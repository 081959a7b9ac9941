"""Requests for queues are told from those for logs."""

from __future__ import annotations

import pytest

from kvwal.cluster import requests
from kvwal.cluster.queues.requests import Commit, Item, PutItem, Take, encode, to_items, to_request
from kvwal.entry import Entry, make_entry


@pytest.mark.parametrize(
    "request_",
    [
        Take("work", "queue", 1, ["str"]),
        Commit("work", "b", [("queue:int", b"\x80")], [PutItem("queue", 1, b"x", "str", 5)], b"\x90", 1),
    ],
)
def test_a_request_comes_back(request_: Take | Commit) -> None:
    assert to_request(encode(request_)) == request_


@pytest.mark.parametrize(
    "question", [requests.Question("work"), requests.WatchStart("work"), requests.FailuresQuestion()]
)
def test_a_request_for_logs_is_none(question: requests.ClientQuestion) -> None:
    assert to_request(requests.encode(question)) is None


def test_an_item_says_how_long_it_has_left() -> None:
    expiring = make_entry(b"k", "queue:int", b"v", "str", False, 0, 1500)
    entries = [expiring, Entry(b"l", "queue:int", b"v", "str", False, 0)]
    assert to_items(entries, 1000, lambda entry: 2 if entry.expires else 0) == [
        Item(b"k", b"v", "str", 1500, 500, 2), Item(b"l", b"v", "str"),
    ]  # fmt: skip
