"""Shared reader of the console's location: open for all requests, and opened again after an error of the store."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kvwal.console.bodies import Refused
from kvwal.console.shared_answer import FRESH_SECONDS, SLOW_TIMES, UNCHANGED_SECONDS, SharedAnswer, Source
from kvwal.errors import BeforeHistory, CodecError, ConfigError, TooLarge
from kvwal.location.archived import ArchiveReader
from kvwal.location.readers import LocationReader
from kvwal.ports.boundary import contain
from kvwal.ports.clock import Clock
from kvwal.ports.disk import settled_before
from kvwal.ports.locks import Lock, short_turns
from kvwal.ports.tasks import Helper, Workers
from kvwal.spark.record_reader import BUSINESS, IndexedReader, MappingReader, RecordReader, records_of
from kvwal.store.reading.figures import FileStates
from kvwal.store.sync import ReadOnlyStore

T = TypeVar("T")
ARCHIVED_FRESH_SECONDS = 10.0
"""`FRESH_SECONDS` of an archive, which takes longer to read and is itself a minute behind its store."""
COLLECT_SECONDS = 60.0
"""Time between two collections of garbage of the thread that makes answers. A page that was sent is a cycle of Jinja's, and holds
the lists it has shown. Python collects it once there are a fourth more objects than at the last collection: with a graph of half
a million these were a hundred megabytes.
"""
_OF_THE_QUESTION = (ConfigError, Refused, KeyError, BeforeHistory, CodecError, TooLarge)
"""Errors that say nothing against the open location: what was asked for is not there, or cannot be asked for."""


class _Opened:
    """An open location, and how many requests use it."""

    def __init__(self, reader: LocationReader, closing: ExitStack) -> None:
        self.reader = reader
        self.closing = closing
        self.uses = 0
        self.failed = False


class _Generation(NamedTuple):
    """Answers that were made from one state of the location: since when, until when it was seen to be the same, until when that
    need not be checked, and its files.
    """

    made: dict[Any, SharedAnswer[Any]]
    since: float
    same_until: float
    checked_until: float
    states: FileStates | int | None
    """Of a folder or an archive. None if it is not known: then every answer is made again."""


class Both(NamedTuple):
    """An open location, and the records of Spark applications in it."""

    reader: LocationReader
    records: RecordReader


class _Answers(NamedTuple):
    """The answers of a generation, by what makes them, as the views of several requests share them."""

    made: dict[Any, SharedAnswer[Any]]
    lock: Lock
    clock: Clock
    renew: Callable[[_Next], None]
    """Makes an answer in the background."""

    def of(self, make: Callable[[Any], T]) -> SharedAnswer[T]:
        """The answer that a function makes, made or not."""
        with self.lock:
            return self.made.setdefault(make, SharedAnswer(make, self.clock))


class View:
    """The location as one request sees it. What several requests need is made once for all that come within a second."""

    def __init__(self, reader: LocationReader, answers: _Answers) -> None:
        self.reader = reader
        """The open location."""
        self._answers = answers

    @property
    def records(self) -> RecordReader:
        """The records of Spark applications, with their summaries read. Without any, an empty reader."""
        return self.made(_records)

    def made(self, make: Callable[[LocationReader], T]) -> T:
        """What the function `make` makes from the reader, made once for all requests of a second, or longer if it takes long:
        lists, sums, orders.

        `make` is the key, so it is a function of a module, not one that a request makes. Nobody changes what it returns.
        """
        return self._taken(make, View._own_reader)

    def made_of_records(self, make: Callable[[RecordReader], T]) -> T:
        """As `made`, from the records of Spark applications."""
        return self._taken(make, View._newest_records)

    def made_of_both(self, make: Callable[[Both], T]) -> T:
        """As `made`, from the reader and the records of Spark applications."""
        return self._taken(make, View._reader_and_records)

    def make(self, wanted: _Next) -> None:
        """Make the next answer, unless it is not wanted any more."""
        if self._answers.made.get(wanted.make) is wanted.answer:
            wanted.answer.made(partial(wanted.source, self))

    def _taken(self, make: Callable[[Any], T], source: Callable[[View], Source]) -> T:
        answer = self._answers.of(make)
        at_hand = answer.at_hand()
        if at_hand is None:
            return answer.made(partial(source, self))
        if at_hand.is_due:
            self._answers.renew(_Next(make, answer, source))
        return at_hand.value

    def _own_reader(self) -> Source:
        return Source(self.reader)

    def _newest_records(self) -> Source:
        """The records of this generation. A list that is made from earlier ones would lack what was written since."""
        answer = self._answers.of(_records)
        answer.made(self._own_reader)
        return answer.source

    def _reader_and_records(self) -> Source:
        records = self._newest_records()
        return records._replace(given=Both(self.reader, records.given))


class _Next(NamedTuple):
    """An answer that is to be made, its key, and from what."""

    make: Callable[[Any], Any]
    answer: SharedAnswer[Any]
    source: Callable[[View], Source]


class SharedReader:
    """The location, open for all requests. It is opened and read on `workers`, never on the event loop.

    A location that cannot be opened, or whose read fails, is an error of that request. The next request opens it again: a store
    that goes away and comes back needs no other console.
    """

    def __init__(
        self, open_location: Callable[[], AbstractContextManager[LocationReader]], workers: Workers, clock: Clock
    ) -> None:
        self._open = open_location
        self._workers = workers
        self._clock = clock
        self._renewals = Helper("kvwal-console-renewals")
        self._collected = clock.elapsed()
        self._closes = False
        self._opening = Lock()
        self._checking = Lock()
        self._lock = Lock()
        self._current: _Opened | None = None
        self._generation = self._begun(0.0)

    async def ask(self, question: Callable[[View], T]) -> T:
        """The answer to a question about the location. The question runs on a worker thread, and may read for long."""
        return await self._workers.run(lambda: self._answer(question))

    def _answer(self, question: Callable[[View], T]) -> T:
        with self.view() as view:
            return question(view)

    @contextmanager
    def view(self) -> Iterator[View]:
        """The view of one request, on the thread of a worker."""
        with self._used() as opened:
            try:
                yield self._view(opened)
            except _OF_THE_QUESTION:
                raise
            except BaseException:
                self._forget(opened)
                raise

    def _view(self, opened: _Opened) -> View:
        answers = _Answers(self._fresh(opened.reader), self._lock, self._clock, self._begin_renewal)
        return View(opened.reader, answers)

    @contextmanager
    def _used(self) -> Iterator[_Opened]:
        """The open location, which stays open meanwhile."""
        opened = self._acquire()
        try:
            yield opened
        finally:
            with self._lock:
                opened.uses -= 1
                unused = opened.failed and opened.uses == 0
            if unused:
                opened.closing.close()

    def close(self) -> None:
        """Close the location. No request is running any more. An answer that is being made in the background is waited for."""
        self._closes = True
        self._renewals.close()
        with self._lock:
            current, self._current = self._current, None
        if current is not None:
            current.closing.close()

    def _begin_renewal(self, wanted: _Next) -> None:
        """Have an answer made while others take the one of before. One is made at a time."""
        with self._lock:
            begins = wanted.answer.appoint()
        if begins and not self._renewals.begin(partial(self._renew, wanted)):
            wanted.answer.dismiss()

    def _renew(self, wanted: _Next) -> None:
        """An error says nothing against the open location yet: the next request that asks makes the answer, and is told."""
        if self._closes:
            return
        with short_turns():
            contain(partial(self._renew_in_view, wanted), lambda error: wanted.answer.fail())
        wanted.answer.dismiss()
        if (now := self._clock.elapsed()) > self._collected + COLLECT_SECONDS:
            self._collected = now
            gc.collect()

    def _renew_in_view(self, wanted: _Next) -> None:
        with self._used() as opened:
            self._view(opened).make(wanted)

    def _acquire(self) -> _Opened:
        with self._opening:  # one request opens the location, the others wait for it
            with self._lock:
                if self._current is not None:
                    self._current.uses += 1
                    return self._current
            with ExitStack() as closing:
                reader = closing.enter_context(self._open())
                opened = _Opened(reader, closing.pop_all())
            opened.uses = 1
            with self._lock:
                self._current, self._generation = opened, self._begun(_fresh_seconds(reader))
            return opened

    def _fresh(self, reader: LocationReader) -> dict[Any, SharedAnswer[Any]]:
        """What was made lately enough. One request looks whether something was written. Others take what there is meanwhile,
        unless nobody has looked for long.
        """
        limit = _fresh_seconds(reader)
        with self._lock:
            generation = self._generation
        overdue = self._clock.elapsed() - generation.checked_until
        if overdue <= 0 or not self._checking.acquire(blocking=overdue > limit):
            return generation.made
        try:
            return self._checked(reader, limit)
        finally:
            self._checking.release()

    def _checked(self, reader: LocationReader, limit: float) -> dict[Any, SharedAnswer[Any]]:
        with self._lock:
            generation = self._generation
        began = self._clock.elapsed()
        if began <= generation.checked_until:  # the request before has just looked
            return generation.made
        states = self._settled_states(reader)
        now = self._clock.elapsed()
        if isinstance(reader, ArchiveReader):
            limit = max(limit, SLOW_TIMES * (now - began))
        later = self._later(generation, states, began, now)._replace(checked_until=now + limit)
        with self._lock:
            if self._generation is generation:  # otherwise the location was opened again
                self._generation = later
            return self._generation.made

    def _later(
        self, generation: _Generation, states: FileStates | int | None, looked_at: float, now: float
    ) -> _Generation:
        """What stands for a generation now that the location has this state."""
        is_same = states is not None and states == generation.states
        is_old = now - generation.since > UNCHANGED_SECONDS
        same_until = looked_at if is_same else generation.same_until
        with self._lock:
            made = dict(generation.made)
        if is_same and not is_old and not any(one.is_of_before for one in made.values()):
            return generation._replace(same_until=same_until)
        later = {key: _stands_for(one, now, same_until, is_same=is_same, is_old=is_old) for key, one in made.items()}
        kept = {key: one for key, one in later.items() if one is not None}
        return _Generation(kept, generation.since if is_same and not is_old else now, looked_at, now, states)

    def _begun(self, limit: float) -> _Generation:
        now = self._clock.elapsed()
        return _Generation({}, now, now, now + limit, None)

    def _settled_states(self, reader: LocationReader) -> FileStates | int | None:
        """The files of a folder's store, or what an archive lists. None while a file has just changed: the next change may not
        show in its time. Objects never change.
        """
        if isinstance(reader, ArchiveReader):
            return reader.state()
        if not isinstance(reader, ReadOnlyStore):
            return None
        settled_ns = settled_before(self._clock.wall_ms())
        states = reader.file_states()
        return states if states.changed_ns < settled_ns else None

    def _forget(self, opened: _Opened) -> None:
        """Have the next request open the location again. The last request that uses it closes it."""
        with self._lock:
            opened.failed = True
            if self._current is opened:
                self._current = None


def _fresh_seconds(reader: LocationReader) -> float:
    return ARCHIVED_FRESH_SECONDS if isinstance(reader, ArchiveReader) else FRESH_SECONDS


def _stands_for(
    one: SharedAnswer[Any], now: float, same_until: float, *, is_same: bool, is_old: bool
) -> SharedAnswer[Any] | None:
    """What stands for an answer, of a location that is the same or another one, in a generation that is old or goes on."""
    if not is_same or one.is_of_before:
        return one.later(now, same_until)
    return one.again(now) if is_old else one


def _records(reader: LocationReader) -> RecordReader:
    """The reader of the records; an empty one for a location without any. Summaries are read here, by one request."""
    if BUSINESS not in reader.businesses():
        return MappingReader({})
    try:
        records = records_of(reader)
    except ConfigError:  # the business was removed meanwhile
        return MappingReader({})
    if isinstance(records, IndexedReader):
        _ = records.has_edges
    return records
