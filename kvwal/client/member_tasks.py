"""Requests of a client that a member answers: transactions of several keys, history requests, the list of all maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hazelcast.client import HazelcastClient
from hazelcast.future import Future as HazelcastFuture
from hazelcast.invocation import Invocation
from hazelcast.protocol.codec import client_get_distributed_objects_codec
from hazelcast.serialization.api import IdentifiedDataSerializable, ObjectDataOutput

from kvwal.cluster.contents.requests import ContentRequest
from kvwal.cluster.figures.messages import FiguresQuestion
from kvwal.cluster.queues.requests import QueueRequest
from kvwal.cluster.requests import (
    POLL_SECONDS,
    ClientQuestion,
    FailuresQuestion,
    LostTailsQuestion,
    WatchRead,
    WatchStart,
    WatchStarted,
    decode_lost_tails,
    decode_started,
    decode_watch_page,
    encode,
)
from kvwal.entry import Entry, encode_entries, make_entry
from kvwal.errors import KvwalError
from kvwal.history.feeds.lost_tails import LostTailWarnings
from kvwal.key_class import OWN_MAP
from kvwal.ports.clock import SYSTEM
from kvwal.structures.watch import Change, Positions, Start
from kvwal_archive.layout import LostTail

FACTORY = 27510
"""Hazelcast's number for the classes of kvwal."""
DONE, BUSY, LATE = "DONE", "BUSY", "LATE"
"""Answers to a transaction: it was done; others have locked a key; its keys could not be locked in time. After the last two
nothing was written, and it may be sent again. Any other answer says that a condition does not hold."""
_TRANSACTIONS = "kvwal"
_HISTORY = "kvwal.questions"
"""An executor apart from that of transactions, because a history request keeps its thread for seconds."""


def send_transaction(
    client: HazelcastClient, map_name: str, entries: list[Entry], lock_seconds: float
) -> HazelcastFuture[Any]:
    """Send the changes of several keys of a map to a random member, which applies all of them or none.

    The answer is `DONE` when each change is in a log and in memory (see `timestamp_of`), else `BUSY` or `LATE`. The member locks
    the keys within `lock_seconds` after it got the transaction, or writes nothing.
    """
    transaction_id = f"{SYSTEM.random_bits(128):032x}"
    task = _TransactionTask(map_name, transaction_id, entries, lock_seconds)
    return client.get_executor(_TRANSACTIONS).execute_on_key_owner(transaction_id, task)


def timestamp_of(answer: str) -> int | None:
    """The timestamp in the answer to a transaction: the greatest that its changes have in the logs.

    None if the member does not know it: it is of an earlier version, or another member made a part of the changes.
    """
    _, _, timestamp = answer.partition(" ")
    return int(timestamp) if timestamp else None


def transactions_executor(client: HazelcastClient) -> Any:
    """The executor of transactions. The first call asks the cluster, so it may not be on the thread that delivers answers."""
    return client.get_executor(_TRANSACTIONS)


def send_conditional(
    executor: Any, map_name: str, entries: list[Entry], guards: list[Entry], lock_seconds: float
) -> HazelcastFuture[Any]:
    """As `send_transaction`, if each guard has the value that its entry says. A delete says that the key is absent.

    The answer may also be `REFUSED`: a guard has another value.
    """
    transaction_id = f"{SYSTEM.random_bits(128):032x}"
    task = _ConditionalTask(map_name, transaction_id, entries, guards, lock_seconds)
    future: HazelcastFuture[Any] = executor.execute_on_key_owner(transaction_id, task)
    return future


def ask_history(client: HazelcastClient, question: ClientQuestion, key: str | None = None) -> HazelcastFuture[Any]:
    """Ask a random member for a map's past, or the one that owns `key`: each member can read the logs of all members.

    The answer is bytes: to a `Question` a block of entries, to other questions their answers.
    """
    chosen = f"{SYSTEM.random_bits(64):x}" if key is None else key
    return client.get_executor(_HISTORY).execute_on_key_owner(chosen, _HistoryTask(question))


def lost_tails_of(map_name: str, ask: Callable[[LostTailsQuestion], bytes]) -> list[LostTail]:
    """The lost tails of a map that the archive has on record; none if a member of an earlier version was asked."""
    try:
        return decode_lost_tails(ask(LostTailsQuestion(map_name)))
    except KvwalError as error:
        if type(error) is not KvwalError:
            raise
        return []  # the versions that are left are right, and a member of an earlier version does not know the question


AskForChanges = Callable[[WatchStart | WatchRead, str], bytes]
"""Has a question answered by the member that owns the given key, or after its end by another one."""


class MapChanges:
    """The changes of a map of the cluster, for readers that keep their place themselves. A member reads them, a page for each
    question. A warning is logged of each lost tail that may have had some of them.

    No member keeps anything for such a reader that it needs to go on, so any member can answer each question. Each method raises
    `ClusterUnreachable`, and `ConfigError` if a position is after the end of a log.
    """

    def __init__(self, ask: AskForChanges, map_name: str, structure: str = OWN_MAP) -> None:
        """Changes of a structure of the business `map_name`: of its own map, or see `StructureQuestion`."""
        self._ask = ask
        self._map = map_name
        self._structure = structure
        self._key = f"{SYSTEM.random_bits(64):x}"
        self._warnings = LostTailWarnings()

    def begin(self, start: Start) -> WatchStarted:
        """The place after a position, which is checked, after a timestamp, or now. Raises `BeforeHistory`."""
        at = WatchStart(self._map, start) if isinstance(start, dict) else WatchStart(self._map, None, start)
        return decode_started(self._ask(at, self._key))

    def begin_with_all(self) -> WatchStarted:
        """The place before all changes that are kept."""
        return decode_started(self._ask(WatchStart(self._map, beginning=True), self._key))

    def page(self, at: WatchStarted, until: Positions | None = None) -> tuple[list[Change], Positions]:
        """The next changes after a place, and the positions after them: there may be more if they have moved. With `until`, none
        after these sequences, and none of another node.

        Raises `ArchiveGap` if the next changes are not kept any more.
        """
        asked = WatchRead(self._map, at.positions, at.since, at.compacted, self._structure, until)
        page = decode_watch_page(self._ask(asked, self._key))
        self._warnings.look(page.lost, at.positions, at.since)
        changes = [Change(node, n, make_entry(*msgspec.structs.astuple(entry))) for node, n, entry in page.changes]
        return changes, page.positions


class ClusterFeed:
    """The changes of a map of the cluster: see `structures.watch.Feed`, and `MapChanges`."""

    poll_seconds: float | None = POLL_SECONDS

    def __init__(self, ask: AskForChanges, map_name: str, start: Start, structure: str = OWN_MAP) -> None:
        self._changes = MapChanges(ask, map_name, structure)
        self._at = self._changes.begin(start)
        self._begin = self._at.positions

    def positions(self) -> Positions:
        """See `Feed.positions`."""
        return dict(self._begin)

    def read(self) -> list[Change]:
        """See `Feed.read`. A member that leaves is replaced by another one.

        If the whole cluster is away for too long, the error says so, and a later call goes on where this one began.
        """
        while True:
            changes, positions = self._changes.page(self._at)
            moved = positions != self._at.positions
            self._at = msgspec.structs.replace(self._at, positions=positions)
            if changes or not moved:
                return changes

    def subscribe(self, wake: Callable[[], None]) -> None:
        """See `Feed.subscribe`. No member tells of changes: they are asked for."""


def ask_queues(client: HazelcastClient, request: QueueRequest, map_name: str) -> HazelcastFuture[Any]:
    """Ask the member that decides on the queues of a business: the one that owns the name of its map. The answer is bytes."""
    return client.get_executor(_HISTORY).execute_on_key_owner(map_name, _HistoryTask(request))


def ask_contents(client: HazelcastClient, request: ContentRequest) -> HazelcastFuture[Any]:
    """Ask a random member about contents. The answer is bytes."""
    return client.get_executor(_HISTORY).execute_on_key_owner(f"{SYSTEM.random_bits(64):x}", _HistoryTask(request))


def ask_failures(client: HazelcastClient, member: Any) -> HazelcastFuture[Any]:
    """Ask this member which of its maintenance fails. The answer is a `Failures`, as bytes."""
    return client.get_executor(_HISTORY).execute_on_member(member, _HistoryTask(FailuresQuestion()))


def ask_figures(client: HazelcastClient, member: Any) -> HazelcastFuture[Any]:
    """Ask this member for its figures: a `NodeFigures`, as bytes. It answers before its memory is whole, too."""
    return client.get_executor(_HISTORY).execute_on_member(member, _FiguresTask(FiguresQuestion()))


def ask_objects(client: HazelcastClient) -> HazelcastFuture[Any]:
    """Ask a random member for the service and the name of every object that the cluster has. No object is made of it."""
    codec: Any = client_get_distributed_objects_codec
    service: Any = client._invocation_service
    invocation: Any = Invocation(codec.encode_request(), response_handler=codec.decode_response)  # type: ignore[no-untyped-call]
    service.invoke(invocation)
    future: HazelcastFuture[Any] = invocation.future
    return future


class _MemberTask(IdentifiedDataSerializable):
    """A task of one of kvwal's Java classes. A client writes it, and never reads one."""

    CLASS_ID: int
    """The number of the Java class among those of kvwal."""

    def get_factory_id(self) -> int:
        return FACTORY

    def get_class_id(self) -> int:
        return self.CLASS_ID

    def read_data(self, object_data_input: Any) -> None:
        raise NotImplementedError


class KeyPrefix(_MemberTask):
    """A predicate: see KeyPrefix.java."""

    CLASS_ID = 23

    def __init__(self, prefix: bytes, limit: int = 0) -> None:
        """The query fails if the values on a member have more than `limit` bytes (0: no limit)."""
        self._prefix = prefix
        self._limit = limit

    def write_data(self, object_data_output: ObjectDataOutput) -> None:
        """See `IdentifiedDataSerializable`."""
        object_data_output.write_byte_array(bytearray(self._prefix))
        object_data_output.write_long(self._limit)


class OfStructure(_MemberTask):
    """A predicate: see OfStructure.java."""

    CLASS_ID = 34

    def __init__(self, prefix: str) -> None:
        """Of keys whose class begins so; of those of the business's own map if it is empty."""
        self._prefix = prefix

    def write_data(self, object_data_output: ObjectDataOutput) -> None:
        """See `IdentifiedDataSerializable`."""
        object_data_output.write_string(self._prefix)


class _TransactionTask(_MemberTask):
    """See RunTransaction.java."""

    CLASS_ID = 24

    def __init__(self, map_name: str, transaction_id: str, entries: list[Entry], lock_seconds: float) -> None:
        self._map_name = map_name
        self._transaction_id = transaction_id
        self._changes = encode_entries(entries)
        self._lock_ms = int(lock_seconds * 1000)

    def write_data(self, object_data_output: ObjectDataOutput) -> None:
        """See `IdentifiedDataSerializable`. The time tells the member how long each entry has left: its clock is another."""
        self._write_changes(object_data_output)
        object_data_output.write_long(SYSTEM.wall_ms())
        object_data_output.write_long(self._lock_ms)

    def _write_changes(self, object_data_output: ObjectDataOutput) -> None:
        object_data_output.write_string(self._transaction_id)
        object_data_output.write_string(self._map_name)
        object_data_output.write_byte_array(bytearray(self._changes))


class _ConditionalTask(_TransactionTask):
    """See RunTransaction.java."""

    CLASS_ID = 25

    def __init__(
        self, map_name: str, transaction_id: str, entries: list[Entry], guards: list[Entry], lock_seconds: float
    ) -> None:
        super().__init__(map_name, transaction_id, entries, lock_seconds)
        self._guards = encode_entries(guards)

    def _write_changes(self, object_data_output: ObjectDataOutput) -> None:
        super()._write_changes(object_data_output)
        object_data_output.write_byte_array(bytearray(self._guards))


class _HistoryTask(_MemberTask):
    """See HistoryRequests.java."""

    CLASS_ID = 10

    def __init__(self, question: ClientQuestion | QueueRequest | ContentRequest | FiguresQuestion) -> None:
        self._encoded = encode(question)

    def write_data(self, object_data_output: ObjectDataOutput) -> None:
        object_data_output.write_byte_array(bytearray(self._encoded))


class _FiguresTask(_HistoryTask):
    """See HistoryRequests.java."""

    CLASS_ID = 35
