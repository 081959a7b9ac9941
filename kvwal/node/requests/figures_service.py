"""Figures service of a node: it tells clients its figures, in each phase. It waits for no other member, and for no archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvwal.cluster.figures.messages import decode_question, encode
from kvwal.node.health.status import NodeStatus
from kvwal.ports.tasks import Workers


class FiguresService:
    """The figures service of one node. Used on the node's event loop."""

    def __init__(self, status: NodeStatus, known: Callable[[], Mapping[str, str]], workers: Workers) -> None:
        """`known` returns the members on this node's record; `workers` count, because the event loop has the clients' writes."""
        self._status = status
        self._known = known
        self._workers = workers

    async def answer(self, text: bytes) -> bytes:
        """The answer to a client's request."""
        decode_question(text)
        ready, known = self._status.ready(), dict(self._known())
        return await self._workers.run(lambda: encode(self._status.figures(*ready, known)))
