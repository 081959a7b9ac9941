"""A map of the cluster as the business that a structure writes to: transactions become operations of Hazelcast."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hazelcast.future import Future as HazelcastFuture
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from kvwal.client.failures import translate, would_wait
from kvwal.client.intents import send
from kvwal.client.link import Link, is_reactor
from kvwal.client.memory import ClusterMemory, make_entry, to_data
from kvwal.client.past import ask
from kvwal.cluster.requests import Question
from kvwal.codecs import registry
from kvwal.config import MIB
from kvwal.entry import TIMESTAMP_SHIFT, DataEntry, Entry, make_decoder
from kvwal.errors import ClusterUnreachable, CommitUnknown, LogFailed, Overloaded, StorageFull
from kvwal.hlc import HybridClock
from kvwal.log.ring import Decide, Submission
from kvwal.ports.boundary import contain, when_done
from kvwal.ports.clock import SYSTEM
from kvwal.ports.locks import Lock, Semaphore
from kvwal.structures.state import State, to_state

SLOTS = 1024
"""Writes of one map that may wait for the cluster before whoever writes waits."""
_OVERFLOW_BYTES = 5 * MIB
_AGAIN_SECONDS = 0.2
_decode = make_decoder(())

Deliver = Callable[[Callable[[], None]], None]
"""Calls a function where the future that it completes is at home."""


class ClusterBusiness:
    """See `structures.business.Business`. Any number of threads may use it; answers come on the client's own thread."""

    def __init__(self, link: Link, name: str, deliver: Deliver) -> None:
        self.name = name
        self.codecs = registry
        self.overflow_bytes = _OVERFLOW_BYTES
        self.what = f"{name} ({link.target})"
        self.state = ClusterMemory(link, name, self.what)
        self._room = Semaphore(SLOTS)
        self._link = link
        self.proxy = link.map(name)
        self.deliver = deliver
        self.patience = link.target.timeout
        self._clock = HybridClock()
        self._stamping = Lock()

    def now_ms(self) -> int:
        """The present by this machine's clock: an end is sent as so many seconds from now."""
        return SYSTEM.wall_ms()

    def submit(self, submission: Submission, *, waits: bool = False) -> None:
        """See `structures.business.Business.submit`. Waits while as many as may wait for the cluster do."""
        self._link.check_open()
        here = is_reactor()
        if here and waits:
            raise would_wait()
        if not self._room.acquire(timeout=0 if here else self.patience):
            raise self.overloaded()
        self.begin(submission)

    def offer(self, submission: Submission) -> bool:
        """See `structures.business.Business.offer`."""
        self._link.check_open()
        if not self._room.acquire(blocking=False):
            return False
        self.begin(submission)
        return True

    async def submit_soon(self, submission: Submission) -> None:
        """Refuse: whoever has tasks that wait for room has a business that can."""
        raise self.overloaded()

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """See `structures.business.Business.history`: a member reads what the logs of all members held when it is asked."""
        return [entry.public() for entry in self._ask(Question(self.name, key_class, key))]

    def as_of(self, timestamp: int) -> State:
        """See `structures.business.Business.as_of`, and `history`. All of it comes here."""
        found = self._ask(Question(self.name, timestamp=timestamp))
        return to_state(found, lambda: timestamp >> TIMESTAMP_SHIFT)

    def _ask(self, question: Question) -> list[Entry]:
        """Asked of another member if one goes meanwhile: a question changes nothing."""
        for attempt in Retrying(
            retry=retry_if_exception_type(ClusterUnreachable), stop=stop_after_delay(self.patience),
            wait=wait_fixed(_AGAIN_SECONDS), reraise=True,
        ):  # fmt: skip
            with attempt:
                found = self._link.result(lambda: ask(self._link.client, question), self.what)
        return _decode(bytes(found))

    def clear(self) -> None:
        """Delete every key that is there now, each in its node's log before it goes from memory.

        `CommitUnknown` where a member refused: others may have deleted theirs.
        """
        try:
            self._link.result(self.proxy.clear, self.what, writes=True)
        except CommitUnknown:
            raise
        except (LogFailed, StorageFull) as error:
            raise CommitUnknown(f"{self.what}: some keys may be deleted, others are not ({error}).") from error

    def begin(self, submission: Submission) -> None:
        """Send it, unless its caller cancelled it. Its place among those that may wait is given back with the answer."""
        if submission.begin():
            _Sending(self, submission).go()
        else:
            self.give_back()

    def send_all(self, entries: list[Entry]) -> HazelcastFuture[Any]:
        """Begin to change all these keys, or none."""
        return send(self._link.client, self.name, entries)

    def give_back(self) -> None:
        """One that had a place among those that may wait for the cluster is done."""
        self._room.release()

    def answer(self, submission: Submission, held: bool | None) -> None:
        """It was written; `held` says of a condition whether it held."""
        if held is None:
            with self._stamping:
                submission.answer = self._clock.stamp(SYSTEM.wall_ms())
        else:
            submission.answer = held
        self.give_back()
        self.deliver(submission.resolve)

    def refuse(self, submission: Submission, error: BaseException, *, writes: bool) -> None:
        """It was not written, or its outcome is unknown; `writes` says that what failed was to change something."""
        self.give_back()
        self.deliver(partial(submission.fail, translate(error, self.what, writes=writes)))

    def overloaded(self) -> Overloaded:
        """There was no room for so long."""
        return Overloaded(
            f"{self.what}: {SLOTS:,} writes wait for the cluster, and there was no room for one more; nothing was written.",
            hint="Write more slowly, or see why the nodes are slow.",
        )


class _Sending:
    """One transaction on its way to the cluster, step by step: each answer begins the next step."""

    def __init__(self, business: ClusterBusiness, submission: Submission) -> None:
        self._business = business
        self._proxy = business.proxy
        self._submission = submission

    def go(self) -> None:
        submission = self._submission
        if submission.decide is not None:
            self._look(submission.decide)
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

    def _look(self, decide: Decide) -> None:
        """A condition is decided on what is there, and holds if that is still there when the change is made."""
        entry = self._submission.entries[0]
        key = to_data(entry.key, entry.key_class)
        self._then(partial(self._proxy.get, key), partial(self._decided, decide), writes=False)

    def _decided(self, decide: Decide, found: Any) -> None:
        asked = self._submission.entries[0]
        current = None if found is None else make_entry(asked.key, asked.key_class, found)
        changes = decide(lambda key_class, key: current)
        if not changes:
            self._business.answer(self._submission, False)
        else:
            self._then(partial(self._exchange, changes[0], found), partial(self._exchanged, decide, found is None))

    def _exchange(self, entry: Entry, found: Any) -> Any:
        key = to_data(entry.key, entry.key_class)
        if entry.deleted:
            return self._proxy.remove_if_same(key, found)
        value = to_data(entry.value, entry.value_class)
        if found is None:
            return self._proxy.put_if_absent(key, value, self._ttl(entry))
        return self._proxy.replace_if_same(key, found, value)

    def _exchanged(self, decide: Decide, absent: bool, answer: Any) -> None:
        """Somebody else was faster: look again."""
        if (answer is None) if absent else answer:
            self._business.answer(self._submission, True)
        else:
            self._look(decide)

    def _ttl(self, entry: Entry) -> float | None:
        return max(1, entry.expires - self._business.now_ms()) / 1000 if entry.expires else None

    def _then(
        self, begin: Callable[[], HazelcastFuture[Any]], step: Callable[[Any], None], *, writes: bool = True
    ) -> None:
        """Begin an operation, and take the step with its answer; what either raises is the submission's error."""

        refuse = partial(self._business.refuse, self._submission, writes=writes)
        contain(lambda: when_done(begin(), lambda future: step(future.result()), refuse), refuse)
