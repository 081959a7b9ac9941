"""Business of a cluster's map: the transactions of a structure become operations of Hazelcast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hazelcast.future import Future as HazelcastFuture
from msgspec.structs import replace
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from kvwal.client.failures import translate, would_wait
from kvwal.client.link import Link, is_reactor
from kvwal.client.member_tasks import (
    BUSY,
    DONE,
    ClusterFeed,
    MapChanges,
    ask_history,
    send_conditional,
    send_transaction,
    transactions_executor,
)
from kvwal.client.memory import ClusterMemory, make_entry, to_data
from kvwal.client.wire import from_wire
from kvwal.cluster.requests import PAGE_BYTES, ClientQuestion, Page, Question, WatchRead, WatchStart
from kvwal.codecs import registry
from kvwal.config import MIB
from kvwal.entry import TIMESTAMP_SHIFT, DataEntry, Entry, make_decoder
from kvwal.errors import ClusterUnreachable, ConfigError, KvwalError, NotRecovered, Overloaded
from kvwal.hlc import HybridClock
from kvwal.log.submission import ConditionalSubmission, Decide, Submission
from kvwal.ports.boundary import contain, when_done
from kvwal.ports.clock import SYSTEM
from kvwal.ports.locks import Lock, Semaphore
from kvwal.structures.state import State, to_state
from kvwal.structures.watch import Feed, Start

SLOTS = 1024
"""Writes of one map that may be on their way to the cluster; the next writer waits."""
_OVERFLOW_BYTES = 5 * MIB
_RETRY_SECONDS = 0.2
_decode = make_decoder(())
NO_LIMIT = Page()

Deliver = Callable[[Callable[[], None]], None]
"""Runs a function on the thread or event loop that owns the future which the function completes."""


class ClusterBusiness:
    """One map of the cluster: see `structures.business.Business`. Any number of threads may use it.

    Hazelcast's client delivers answers on its own thread.
    """

    def __init__(self, link: Link, name: str, deliver: Deliver) -> None:
        self.name = name
        self.codecs = registry
        self.overflow_bytes = _OVERFLOW_BYTES
        self.label = f"{name} ({link.address})"
        self.state = ClusterMemory(link, name, self.label)
        self._slots = Semaphore(SLOTS)
        self._link = link
        self.proxy = link.map(name)
        self.deliver = deliver
        self.patience = link.address.timeout
        self._clock = HybridClock()
        self._stamping = Lock()

    def now_ms(self) -> int:
        """Now by this machine's clock. An expiry is sent as seconds from now."""
        return SYSTEM.wall_ms()

    def submit(self, submission: Submission, *, waits: bool = False) -> None:
        """See `structures.business.Business.submit`. Waits while every slot is taken."""
        self._link.check_open()
        here = is_reactor()
        if here and waits:
            raise would_wait()
        if not self._slots.acquire(timeout=0 if here else self.patience):
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

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """See `structures.business.Business.history`. A member reads the logs of all members when the request arrives."""
        return [entry.public() for entry in self._ask(Question(self.name, key_class, key))]

    def as_of(self, timestamp: int) -> State:
        """See `structures.business.Business.as_of`, and `history`. The whole map is transferred to this client, in pages."""
        return to_state(self.logged_entries(timestamp), lambda: timestamp >> TIMESTAMP_SHIFT)

    def logged_entries(self, timestamp: int, page: Page = NO_LIMIT) -> Iterator[Entry]:
        """The entries at `timestamp` as the logs have them, expired ones too, in the order of identity.

        `page` limits them, and its end is where they go on. Each page is a request for which a member merges archive and logs.
        """
        while True:
            entries = self._ask(Question(self.name, timestamp=timestamp, page=page))
            yield from entries
            if sum(len(entry.key) + len(entry.value) for entry in entries) < PAGE_BYTES:
                return
            page = replace(page, after_class=entries[-1].key_class, after=entries[-1].key)

    def _ask(self, question: Question) -> list[Entry]:
        """Entries that answer a history request."""
        return _decode(self._answer(question, (ClusterUnreachable,)))

    def _answer(self, question: ClientQuestion, again: tuple[type[KvwalError], ...], key: str | None = None) -> bytes:
        """The answer to a request that changes nothing. It is sent again after an error of `again`."""
        for attempt in Retrying(
            retry=retry_if_exception_type(again), stop=stop_after_delay(self.patience), wait=wait_fixed(_RETRY_SECONDS),
            reraise=True,
        ):  # fmt: skip
            with attempt:
                answer = self._link.result(lambda: ask_history(self._link.client, question, key), self.label)
        return bytes(answer)

    def feed(self, start: Start) -> Feed:
        """See `structures.business.Business.feed`. `ConfigError` if a member is of an earlier version."""
        return ClusterFeed(self._ask_for_changes, self.name, start)

    def changes(self) -> MapChanges:
        """The changes of the map in the logs of all nodes. `ConfigError` if a member is of an earlier version."""
        return MapChanges(self._ask_for_changes, self.name)

    def _ask_for_changes(self, question: WatchStart | WatchRead, key: str) -> bytes:
        try:
            return self._answer(question, (ClusterUnreachable, NotRecovered), key)
        except KvwalError as error:
            if type(error) is not KvwalError:
                raise
            raise ConfigError(
                f"{self.label}: a member refused the question for changes: it is of an earlier version, or its log names a bug.",
                hint="Update all members to the version of this client.",
            ) from error

    def clear(self) -> None:
        """Delete every key that is there now, each in its node's log before memory drops it.

        Raises `CommitUnknown` if a member refused, because other members may have deleted their keys: see `attempts`.
        """
        self._link.result(self.proxy.clear, self.label, writes=True)

    def begin(self, submission: Submission) -> None:
        """Send a submission that has a slot, unless its caller cancelled it. The answer releases the slot."""
        if submission.begin():
            _Sending(self, submission).start()
        else:
            self.release_slot()

    def send_all(self, entries: list[Entry]) -> HazelcastFuture[Any]:
        """Begin to change all these keys as one transaction."""
        return send_transaction(self._link.client, self.name, entries)

    def executor(self) -> Any:
        """The executor of transactions: see `member_tasks`."""
        return transactions_executor(self._link.client)

    def release_slot(self) -> None:
        """Release the slot of a submission that is done."""
        self._slots.release()

    def answer(self, submission: Submission, held: bool | None) -> None:
        """Complete a submission that was done. `held` says whether its condition held; None for one without a condition."""
        if held is None:
            with self._stamping:
                submission.answer = self._clock.stamp(SYSTEM.wall_ms())
        else:
            submission.answer = held
        self.release_slot()
        self.deliver(submission.resolve)

    def refuse(self, submission: Submission, error: BaseException, *, writes: bool) -> None:
        """Fail a submission that was not written, or whose outcome is unknown.

        `writes` says that the failed operation was to change something.
        """
        self.release_slot()
        self.deliver(partial(submission.fail, translate(error, self.label, writes=writes)))

    def contended(self) -> Overloaded:
        """The error of a conditional transaction that found a guard locked, or changed, for too long."""
        return Overloaded(
            f"{self.label}: other transactions changed or held the same keys for {self.patience:g} s; nothing was written.",
            hint="Let fewer writers depend on one key, or see whether a member finishes transactions (its log says so).",
        )

    def overloaded(self) -> Overloaded:
        """The error of a write that got no slot in time."""
        return Overloaded(
            f"{self.label}: {SLOTS:,} writes wait for the cluster, and no slot became free in time; nothing was written.",
            hint="Write more slowly, or see why the nodes are slow.",
        )


class _Steps:
    """One transaction in steps: the answer of each operation begins the next operation."""

    def __init__(self, business: ClusterBusiness, submission: Submission) -> None:
        self._business = business
        self._proxy = business.proxy
        self._submission = submission

    def _then(
        self, begin: Callable[[], HazelcastFuture[Any]], step: Callable[[Any], None], *, writes: bool = True
    ) -> None:
        """Begin an operation, and run `step` with its answer. An error of the operation or of `step` fails the submission."""
        refuse = partial(self._business.refuse, self._submission, writes=writes)
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
            one = len(submission.entries) == 1
            write = partial(self._write, submission.entries[0]) if one else self._write_all
            self._then(write, lambda _: self._business.answer(submission, None))

    def _write_all(self) -> Any:
        return self._business.send_all(self._submission.entries)

    def _write(self, entry: Entry) -> Any:
        key = to_data(entry.key, entry.key_class)
        if entry.deleted:
            return self._proxy.delete(key)
        return self._proxy.set(key, to_data(entry.value, entry.value_class), self._ttl(entry))

    def _read_and_decide(self, decide: Decide) -> None:
        """Compare and set: read the value, decide the condition, and change the value if it is still the one read."""
        entry = self._submission.entries[0]
        key = to_data(entry.key, entry.key_class)
        self._then(partial(self._proxy.get, key), partial(self._decided, decide), writes=False)

    def _decided(self, decide: Decide, value: Any) -> None:
        key = self._submission.entries[0]
        current = None if value is None else make_entry(key.key, key.key_class, value)
        changes = decide(lambda key_class, key: current)
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


class _Conditional(_Steps):
    """A transaction with conditions: read the guards, decide, and send it with what was read, for a member to compare."""

    def __init__(self, business: ClusterBusiness, submission: ConditionalSubmission) -> None:
        super().__init__(business, submission)
        self._keys = [to_data(data, key_class) for key_class, data in submission.guards]
        self._decide = submission.decide
        self._executor = business.executor()
        self._until = SYSTEM.elapsed() + business.patience

    def start(self) -> None:
        self._then(partial(self._proxy.get_all, self._keys), self._decided, writes=False)

    def _decided(self, values: Any) -> None:
        read = {(key.key_class, key.key): key for key in map(partial(_guard, values), self._keys)}
        changes = [] if self._decide is None else self._decide(partial(_lookup, read))
        if not changes:
            self._business.answer(self._submission, False)
        else:
            self._send(changes, list(read.values()))

    def _send(self, changes: list[Entry], guards: list[Entry]) -> None:
        begin = partial(send_conditional, self._executor, self._business.name, changes, guards)
        self._then(begin, partial(self._answered, changes, guards))

    def _answered(self, changes: list[Entry], guards: list[Entry], answer: Any) -> None:
        if answer == DONE:
            self._business.answer(self._submission, True)
        elif SYSTEM.elapsed() >= self._until:
            raise self._business.contended()
        elif answer == BUSY:
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
