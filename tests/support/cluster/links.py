"""What a bad link does to three members: rounds that cut links of one kind, and what each of them left behind."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import NamedTuple

from tests.support.cluster.network import Network
from tests.support.cluster.nodes import Cluster, Node
from tests.support.cluster.writers import KEYS, Writers
from tests.support.polling import POLL_S

LOOKS = 600
"""How often it is looked whether the cluster has settled: half a minute and more."""
MASTER, ELDER, YOUNGER = range(3)
"""Members by their age: the oldest leads them."""


class How(Enum):
    """How a link is cut."""

    TOLD = "the sender is told that it does not get there"
    SILENT = "nobody is told"
    MUTE = "what the receiver answers is heard, and acknowledged"


class Link(NamedTuple):
    """One direction of a link, by the ages of its ends."""

    sender: int
    receiver: int


KINDS: dict[str, tuple[Link, ...]] = {
    "one way between two non-masters": (Link(ELDER, YOUNGER),),
    "one way, from the master": (Link(MASTER, ELDER),),
    "one way, to the master": (Link(ELDER, MASTER),),
    "both ways between two non-masters": (Link(ELDER, YOUNGER), Link(YOUNGER, ELDER)),
    "both ways, with the master": (Link(MASTER, YOUNGER), Link(YOUNGER, MASTER)),
    "a non-master hears nobody": (Link(MASTER, ELDER), Link(YOUNGER, ELDER)),
    "the master hears nobody": (Link(ELDER, MASTER), Link(YOUNGER, MASTER)),
    "nobody hears a non-master": (Link(ELDER, MASTER), Link(ELDER, YOUNGER)),
    "nobody hears the master": (Link(MASTER, ELDER), Link(MASTER, YOUNGER)),
}


class Outcome(NamedTuple):
    """What one round left behind."""

    how: How
    served: bool
    """Whether every key could be changed while the links were cut."""
    seconds: float
    """From the cut until then."""
    ended: list[str]
    """Who ended, in any order, until all were back."""
    why: list[str]
    """Their last words."""


class Round:
    """Cuts links of three members that serve, watches them, heals the links, and has all three serve again."""

    def __init__(self, cluster: Cluster, network: Network, writers: Writers) -> None:
        self._cluster = cluster
        self._network = network
        self._writers = writers
        self._ended: list[str] = []
        self._why: list[str] = []

    def run(self, links: tuple[Link, ...], how: How) -> Outcome:
        """One round."""
        nodes = self._cluster.by_age()
        began = time.monotonic()
        with self._cut(nodes, links, how):
            settled = self._looks(lambda: self._has_settled(nodes))
            mark = self._writers.last
            served = settled and self._looks(lambda: self._all_changed_since(mark))
            seconds = time.monotonic() - began
        bring_back(nodes, self._note_end)
        return Outcome(how, served, seconds, self._ended, self._why)

    @contextmanager
    def _cut(self, nodes: list[Node], links: tuple[Link, ...], how: How) -> Iterator[None]:
        numbers = [self._cluster.nodes.index(node) + 1 for node in nodes]
        ways = [(numbers[sender], numbers[receiver]) for sender, receiver in links]
        for sender, receiver in ways:
            if how is How.MUTE:
                self._network.mute(sender, receiver)
            else:
                self._network.cut(sender, [receiver], one_way=True, silent=how is How.SILENT)
        try:
            yield
        finally:
            for sender, receiver in ways:
                if how is How.MUTE:
                    self._network.unmute(sender, receiver)
                else:
                    self._network.heal(sender, [receiver], one_way=True, silent=how is How.SILENT)

    def _looks(self, look: Callable[[], bool]) -> bool:
        for _ in range(LOOKS):
            if look():
                return True
            time.sleep(POLL_S)
        return False

    def _has_settled(self, nodes: list[Node]) -> bool:
        """Two are without the third, whether that has ended or not; or more have ended."""
        for node in nodes:
            self._note_end(node)
        left = [node for node in nodes if node.process is not None]
        return len(left) < 2 or [members_of(node) for node in left].count(2) == 2

    def _note_end(self, node: Node) -> None:
        if has_ended(node):
            code = node.ended()
            self._ended.append(node.name)
            self._why.append(f"{node.name} ({code}): {node.lines()[-1].get('event', node.lines()[-1])}")

    def _all_changed_since(self, mark: int) -> bool:
        changed = self._writers.acknowledged
        return all(changed.get(f"key-{number}", 0) > mark for number in range(KEYS))


def has_ended(node: Node) -> bool:
    """Whether its process ended by itself since it was started."""
    return node.process is not None and node.process.poll() is not None


def end_of(node: Node) -> None:
    """Take note of its end."""
    if has_ended(node):
        node.ended()


def bring_back(nodes: list[Node], note_end: Callable[[Node], None] = end_of) -> None:
    """Until all serve together: a member that ended is started again; one that is still cut off ends when it meets the others."""
    while not all(node.process is not None and _serves_with(node, len(nodes)) for node in nodes):
        for node in nodes:
            note_end(node)
            if node.process is None:
                node.spawn()
        time.sleep(POLL_S)


def members_of(node: Node) -> int | None:
    """How many members it sees, itself included; None if it does not answer."""
    try:
        return int(node.figures()["kvwal_cluster_members"])
    except (OSError, http.client.HTTPException, KeyError, ValueError):
        return None  # it ends just now, or begins


def _serves_with(node: Node, members: int) -> bool:
    try:
        return bool(node.ready()["ready"]) and members_of(node) == members
    except (OSError, http.client.HTTPException):
        return False
