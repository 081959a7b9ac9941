"""Peer requests: a member asks the others for rows of their logs: those that the archive lacks, a copy of all, or new changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import jpype

from kvwal import errors
from kvwal.cluster import requests as questions
from kvwal.cluster.requests import (
    CopyQuestion,
    PartQuestion,
    PeerQuestion,
    Refused,
    TailQuestion,
    WatchAnswer,
    WatchQuestion,
)
from kvwal.errors import ClusterUnreachable, ConfigError, KvwalError
from kvwal.history.reads.entry_rows import from_bytes, to_bytes, to_table
from kvwal.node.adapters.archive_requests import tails_not_answered
from kvwal.node.adapters.live_members import Membership, Peer
from kvwal.node.jvm import java
from kvwal.node.requests.log_copies import OwnCopy
from kvwal.node.requests.loop import A_BUG
from kvwal.node.requests.own_changes import OwnChanges
from kvwal.ports.boundary import raised_to_awaiter, start_task
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal.store.open_business import OpenBusiness

if TYPE_CHECKING:
    import pyarrow as pa

A = TypeVar("A")
T = TypeVar("T", bound=WatchAnswer)
MOST_BYTES = 64 << 20
"""A tail of more bytes is archived instead of sent."""


class Peers:
    """Requests to the other members, and this member's answers to theirs. Used on the node's event loop."""

    def __init__(
        self, instance: Any, membership: Membership, engine: Engine, own_changes: OwnChanges, workers: Workers,
        readers: Workers,
    ) -> None:  # fmt: skip
        """`workers` wait for other members, `readers` read logs."""
        self.own_changes = own_changes
        self._instance = instance
        self._membership = membership
        self._engine = engine
        self._workers = workers
        self._readers = readers
        self.own_copy = OwnCopy(engine, readers)

    async def answer(self, text: bytes) -> bytes:
        """The answer of this member to another member's request."""
        question = questions.decode_peer(text)
        if isinstance(question, TailQuestion):
            return to_bytes(await self._own_tail(question))
        if isinstance(question, CopyQuestion | PartQuestion):
            return await self.own_copy.answer(question)
        try:
            return questions.encode(await self.own_changes.answer(question))
        except KvwalError as error:
            return questions.encode(Refused(type(error).__name__, str(error)))

    async def living(self) -> list[Peer]:
        """All members, this one included."""
        return await self._workers.run(self._membership.living)

    async def watch(self, asked: Mapping[Peer, WatchQuestion], answers: type[T], within: float) -> dict[str, T]:
        """The answers of several members, by their names. An error of one of them is raised here.

        `ClusterUnreachable` if one has gone meanwhile or has not answered `within` so many seconds, `ConfigError` if one is of an
        earlier version.
        """
        asking = {
            peer.name: start_task(self._watch(peer, question, within), raised_to_awaiter)
            for peer, question in asked.items()
        }
        told = await _all_of(asking, within, _changes_not_told)
        return {name: answer for name, answer in told.items() if isinstance(answer, answers)}

    async def _watch(self, peer: Peer, question: WatchQuestion, within: float) -> WatchAnswer:
        if peer.member == self._membership.own.member:
            return await self.own_changes.answer(question)
        try:
            said = await self.ask(peer, question, within)
        except jpype.JException as error:
            if A_BUG in str(error):
                raise ConfigError(
                    f"{peer.name} refused the question for its changes: it is of an earlier version, or its log names a bug.",
                    hint="Update all members to one version.",
                ) from error
            raise ClusterUnreachable(
                f"{peer.name} could not be asked for its changes: {error}.", hint="Ask again."
            ) from error
        answer: WatchAnswer | Refused = questions.decode_watch_answer(said)
        if isinstance(answer, Refused):
            raise _error_of(answer)
        return answer

    async def ask(self, peer: Peer, question: PeerQuestion, within: float) -> bytes:
        """The answer of another member. `ClusterUnreachable` if it has gone, or not answered `within` so many seconds."""
        text = questions.encode(question)
        ask = partial(
            java("kvwal.history.HistoryRequests").askPeer, self._instance, peer.member, text, int(within * 1000)
        )
        said = await self._workers.run(ask)
        if said is None:
            raise ClusterUnreachable(f"{peer.name} went while it was asked for its log.", hint="Ask again.")
        return bytes(said)

    async def tails(self, question: TailQuestion, within: float) -> list[tuple[str, pa.Table]]:
        """The rows of each living member's log that the archive may lack, by the member's name, if it has any. Read the
        archive after this call: members may archive rows meanwhile.

        `ArchiveError`, which names the members that have not answered, after `within` seconds; `ClusterUnreachable` if one has
        gone meanwhile.
        """
        own = self._membership.own.member
        living = await self._workers.run(self._membership.living)
        asking = {
            peer.name: start_task(
                self._own_tail(question) if peer.member == own else self._ask(peer, question, within),
                raised_to_awaiter,
            )
            for peer in living
        }
        found = await _all_of(asking, within, tails_not_answered)
        return [(name, table) for name, table in found.items() if table.num_rows]

    async def _ask(self, peer: Peer, question: TailQuestion, within: float) -> pa.Table:
        said = await self.ask(peer, question, within)
        return await self._readers.run(partial(from_bytes, said))

    async def _own_tail(self, question: TailQuestion) -> pa.Table:
        business = self._engine.businesses.get(question.business)
        if business is None or business.log.appender.next_sequence == 1:
            return to_table([])
        if not business.maintenance.archive_seen:
            await business.maintenance.archive()
        table = await self._readers.run(partial(_read, business, question))
        if table.nbytes > MOST_BYTES:
            await business.maintenance.archive()
            return to_table([])
        return table


async def _all_of(
    asking: Mapping[str, asyncio.Task[A]], within: float, not_answered: Callable[[list[str], float], KvwalError]
) -> dict[str, A]:
    """The answers of all members, by their names. An error of one of them is raised here, and `not_answered` with the names of
    those that have not answered `within` so many seconds. No task goes on afterwards."""
    try:
        done, _ = await asyncio.wait(asking.values(), timeout=within) if asking else ((), ())
        if lacking := sorted(name for name, task in asking.items() if task not in done):
            raise not_answered(lacking, within)
        return {name: task.result() for name, task in asking.items()}
    finally:
        for task in asking.values():
            task.cancel()


def _changes_not_told(lacking: list[str], within: float) -> ClusterUnreachable:
    return ClusterUnreachable(
        f"{', '.join(lacking)} did not tell its changes within {within:g} s.",
        hint="See what /readyz and the log say there, and ask again.",
    )


def _read(business: OpenBusiness, question: TailQuestion) -> pa.Table:
    identity = (question.key_class, question.key) if question.key_class else None
    return business.unarchived_rows(identity, question.timestamp)


def _error_of(refused: Refused) -> KvwalError:
    """The error that a member named."""
    kind = getattr(errors, refused.error, KvwalError)
    named = isinstance(kind, type) and issubclass(kind, KvwalError) and kind.__init__ is KvwalError.__init__
    return kind(refused.text) if named else KvwalError(f"{refused.error}: {refused.text}")
