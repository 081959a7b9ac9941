"""Business of a cluster's map: the transactions of a structure become operations of Hazelcast."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hazelcast.future import Future as HazelcastFuture

from kvwal.client.failures import translate, would_wait
from kvwal.client.history.history_requests import ClusterHistory
from kvwal.client.link import Link, is_reactor, send_delete, send_put
from kvwal.client.member_tasks import (
    BUSY,
    DONE,
    LATE,
    send_conditional,
    send_transaction,
    timestamp_of,
    transactions_executor,
)
from kvwal.client.memory import ClusterMemory, make_entry, to_data
from kvwal.client.wire import from_wire
from kvwal.codecs import registry
from kvwal.config import TRANSACTION_BYTES
from kvwal.entry import Entry
from kvwal.errors import CommitUnknown, ConfigError, Overloaded
from kvwal.hlc import HybridClock
from kvwal.log.submission import ConditionalSubmission, Decide, Submission, values_read
from kvwal.ports.boundary import contain, when_done
from kvwal.ports.clock import SYSTEM
from kvwal.ports.locks import Lock, Semaphore
from kvwal.values.moved import FileValue

SLOTS = 1024
"""Writes of one map that may be on their way to the cluster; the next writer waits."""
_LOCK_SECONDS = 0.5
"""How long after its arrival a member may lock the keys of a transaction: at first. If it could not, it gets twice as long."""

Deliver = Callable[[Callable[[], None]], None]
"""Runs a function on the thread or event loop that owns the future which the function completes."""


class ClusterBusiness(ClusterHistory):
    """One map of the cluster: see `structures.business.Business`. Any number of threads may use it.

    Hazelcast's client delivers answers on its own thread.
    """

    def __init__(self, link: Link, name: str, deliver: Deliver) -> None:
        super().__init__(link, name)
        self.codecs = registry
        self.value_bytes = self.transaction_bytes = TRANSACTION_BYTES
        self.inline_bytes = sys.maxsize
        self.state = ClusterMemory(link, name, self.label)
        self._slots = Semaphore(SLOTS)
        self.proxy = link.map(name)
        self.deliver = deliver
        self._clock = HybridClock()
        self._stamping = Lock()

    def value_of_file(self, path: Path) -> FileValue:
        """Raise `ConfigError`: members have all values in memory."""
        raise ConfigError(
            f"{self.name}: {path} was not put: a cluster has all values in memory, of up to {TRANSACTION_BYTES >> 20} MiB.",
            hint="Put its bytes, if they are not more, or keep large files in the folder of a store.",
        )

    def now_ms(self) -> int:
        """Now by this machine's clock. An expiry is sent as seconds from now."""
        return SYSTEM.wall_ms()

    def submit(self, submission: Submission, *, waits: bool = False) -> None:
        """See `structures.business.Business.submit`. Waits while every slot is taken."""
        self._link.check_open()
        if (here := is_reactor()) and waits:
            raise would_wait()
        if not self._slots.acquire(timeout=0 if here else self.timeout):
            raise self.overloaded()
        self.begin(submission)

    def offer(self, submission: Submission) -> bool:
        """See `structures.business.Business.offer`."""
        self._link.check_open()
        if not self._slots.acquire(blocking=False):
            return False
        self.begin(submission)
        return True

    async def submit_soon(self, submission: Submission) -> None:
        """Raise `Overloaded`. Only the business of the asynchronous client can wait for a slot."""
        raise self.overloaded()

    def clear(self) -> None:
        """Delete every key that is there now, each in its node's log before memory drops it.

        Raises `CommitUnknown` if a member refused, because other members may have deleted their keys: see `attempts`.
        """
        self.state.clear()

    def begin(self, submission: Submission) -> None:
        """Send a submission that has a slot, unless its caller cancelled it. The answer releases the slot."""
        if submission.begin():
            _Sending(self, submission).start()
        else:
            self.release_slot()

    def send_all(self, entries: list[Entry], lock_seconds: float) -> HazelcastFuture[Any]:
        """Begin to change all these keys as one transaction: see `send_transaction`."""
        return send_transaction(self._link.client, self.name, entries, lock_seconds)

    def executor(self) -> Any:
        """The executor of transactions: see `member_tasks`."""
        return transactions_executor(self._link.client)

    def release_slot(self) -> None:
        """Release the slot of a submission that is done."""
        self._slots.release()

    def answer(self, submission: Submission, held: bool | None, timestamp: int | None = None) -> None:
        """Complete a submission that was done.

        `held` says whether its condition held; None for one without a condition. `timestamp` is that of the log. None for a
        submission without changes, and where the members did not tell it (`link.send_put`, `member_tasks.timestamp_of`): then
        this client's clock counts.
        """
        if held is not None:
            submission.answer = held
        elif timestamp is not None:
            submission.answer = timestamp
        else:
            submission.answer = self.stamp()
        self.release_slot()
        self.deliver(submission.resolve)

    def stamp(self) -> int:
        """A timestamp of this client's clock."""
        with self._stamping:
            return self._clock.stamp(SYSTEM.wall_ms())

    def refuse(self, submission: Submission, error: BaseException, *, writes: bool, under_way: float = 0) -> None:
        """Fail a submission that was not written, or whose outcome is unknown.

        `writes` says that the failed operation was to change something. If its outcome is unknown, it may be under way for some
        seconds, and the submission fails after these.
        """
        translated = translate(error, self.label, writes=writes)
        fail = partial(self._fail, submission, translated)
        if under_way and isinstance(translated, CommitUnknown):
            self._link.later(under_way, fail, submission.fail)
        else:
            fail()

    def _fail(self, submission: Submission, error: BaseException) -> None:
        self.release_slot()
        self.deliver(partial(submission.fail, error))

    def contended(self) -> Overloaded:
        """The error of a transaction that found a key locked, or a guard changed, for too long."""
        return Overloaded(
            f"{self.label}: other transactions, or locks of clients, held the same keys for {self.timeout:g} s, or a condition's"
            " key was changed each time; nothing was written.",
            hint="Let fewer writers change one key, or see whether a member finishes transactions (its log says so).",
        )

    def overloaded(self) -> Overloaded:
        """The error of a write that got no slot in time."""
        return Overloaded(
            f"{self.label}: {SLOTS:,} writes wait for the cluster, and no slot became free in time; nothing was written.",
            hint="Write more slowly, or see why the nodes are slow.",
        )


class _Steps:
    """One transaction in steps: the answer of each operation begins the next operation."""

    under_way = 0.0
    """See `ClusterBusiness.refuse`."""

    def __init__(self, business: ClusterBusiness, submission: Submission) -> None:
        self._business = business
        self._proxy = business.proxy
        self._submission = submission

    def _then(
        self, begin: Callable[[], HazelcastFuture[Any]], step: Callable[[Any], None], *, writes: bool = True
    ) -> None:
        """Begin an operation, and run `step` with its answer. An error of the operation or of `step` fails the submission."""
        refuse = partial(
            self._business.refuse, self._submission, writes=writes, under_way=self.under_way if writes else 0
        )
        contain(lambda: when_done(begin(), lambda future: step(future.result()), refuse), refuse)


class _Sending(_Steps):
    """A transaction without a condition, or of one key with a condition."""

    def start(self) -> None:
        submission = self._submission
        if isinstance(submission, ConditionalSubmission):
            refuse = partial(self._business.refuse, submission, writes=False)
            contain(lambda: _Conditional(self._business, submission).start(), refuse)  # the first one asks the cluster
        elif submission.decide is not None:
            self._read_and_decide(submission.decide)
        elif not submission.entries:
            self._business.answer(submission, None)
        else:
            first, *others = submission.entries
            if others:
                _Several(self._business, submission).start()
            else:
                write = partial(self._write, first)
                self._then(write, lambda timestamp: self._business.answer(submission, None, timestamp))

    def _write(self, entry: Entry) -> Any:
        key = to_data(entry.key, entry.key_class)
        if entry.deleted:
            return send_delete(self._proxy, key)
        return send_put(self._proxy, key, to_data(entry.value, entry.value_class), self._ttl(entry))

    def _read_and_decide(self, decide: Decide) -> None:
        """Compare and set: read the value, decide the condition, and change the value if it is still the one read."""
        entry = self._submission.entries[0]
        key = to_data(entry.key, entry.key_class)
        self._then(partial(self._proxy.get, key), partial(self._decided, decide), writes=False)

    def _decided(self, decide: Decide, value: Any) -> None:
        key = self._submission.entries[0]
        current = None if value is None else make_entry(key.key, key.key_class, value)
        changes = decide(values_read(lambda key_class, key: current))
        if not changes:
            self._business.answer(self._submission, False)
        else:
            self._then(partial(self._exchange, changes[0], value), partial(self._exchanged, decide, value is None))

    def _exchange(self, entry: Entry, expected: Any) -> Any:
        key = to_data(entry.key, entry.key_class)
        if entry.deleted:
            return self._proxy.remove_if_same(key, expected)
        value = to_data(entry.value, entry.value_class)
        if expected is None:
            return self._proxy.put_if_absent(key, value, self._ttl(entry))
        return self._proxy.replace_if_same(key, expected, value)

    def _exchanged(self, decide: Decide, absent: bool, answer: Any) -> None:
        """Done, or read again: another writer changed the value meanwhile."""
        if (answer is None) if absent else answer:
            self._business.answer(self._submission, True)
        else:
            self._read_and_decide(decide)

    def _ttl(self, entry: Entry) -> float | None:
        return max(1, entry.expires - self._business.now_ms()) / 1000 if entry.expires else None


class _Several(_Steps):
    """A transaction of several keys. It is sent again for as long as a member answers that it could not lock the keys.

    If a connection breaks, a member may have the transaction, and lock the keys for it. What the client writes next must not come
    before that. So the submission fails when the keys are locked, or are not locked any more: a lock makes other writes wait.
    """

    def __init__(self, business: ClusterBusiness, submission: Submission) -> None:
        super().__init__(business, submission)
        self._until = SYSTEM.elapsed() + business.timeout
        self._lock_seconds = _LOCK_SECONDS
        self.under_way = 2 * _LOCK_SECONDS

    def start(self) -> None:
        """Send it."""
        self._then(self._begin, self._answered)

    def _begin(self) -> HazelcastFuture[Any]:
        return self._business.send_all(self._submission.entries, self._lock_seconds)

    def _answered(self, answer: Any) -> None:
        if answer.startswith(DONE):
            self._business.answer(self._submission, None, timestamp_of(answer))
        else:
            self._prepare_next(answer)
            self.start()

    def _prepare_next(self, answer: Any) -> None:
        """Raise `Overloaded` if the transaction was tried for too long."""
        if SYSTEM.elapsed() >= self._until:
            raise self._business.contended()
        if answer == LATE:
            self._lock_seconds = min(2 * self._lock_seconds, max(_LOCK_SECONDS, self._business.timeout))
            self.under_way = 2 * self._lock_seconds


class _Conditional(_Several):
    """A transaction with conditions: read the guards, decide, and send it with what was read, for a member to compare."""

    def __init__(self, business: ClusterBusiness, submission: ConditionalSubmission) -> None:
        super().__init__(business, submission)
        self._keys = [to_data(data, key_class) for key_class, data in submission.guards]
        self._decide = submission.decide
        self._executor = business.executor()

    def start(self) -> None:
        """Read the guards."""
        self._then(partial(self._proxy.get_all, self._keys), self._decided, writes=False)

    def _decided(self, values: Any) -> None:
        read = {(key.key_class, key.key): key for key in map(partial(_guard, values), self._keys)}
        changes = [] if self._decide is None else self._decide(values_read(partial(_lookup, read)))
        if not changes:
            self._business.answer(self._submission, False)
        else:
            self._send(changes, list(read.values()))

    def _send(self, changes: list[Entry], guards: list[Entry]) -> None:
        begin = partial(send_conditional, self._executor, self._business.name, changes, guards, self._lock_seconds)
        self._then(begin, partial(self._compared, changes, guards))

    def _compared(self, changes: list[Entry], guards: list[Entry], answer: Any) -> None:
        if answer == DONE:
            self._business.answer(self._submission, True)
            return
        self._prepare_next(answer)
        if answer in (BUSY, LATE):
            self._send(changes, guards)
        else:
            self.start()


def _guard(values: Any, key: Any) -> Entry:
    """A guard as an entry: with the value that was read, or as a delete if it is absent."""
    encoded = from_wire(key.buffer)
    if key in values:
        return make_entry(encoded.data, encoded.class_name, values[key])
    return Entry(encoded.data, encoded.class_name, b"", "", True, 0)


def _lookup(read: dict[tuple[str, bytes], Entry], key_class: str, key: bytes) -> Entry | None:
    entry = read[key_class, key]
    return None if entry.deleted else entry
