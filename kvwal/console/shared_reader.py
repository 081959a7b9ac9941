"""Shared reader of the console's location: open for all requests, and opened again after an error of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Generic, NamedTuple, TypeVar, cast

from kvwal.console.bodies import Refused
from kvwal.errors import BeforeHistory, CodecError, ConfigError, TooLarge
from kvwal.location.archived import ArchiveReader
from kvwal.location.readers import LocationReader
from kvwal.ports.clock import Clock
from kvwal.ports.disk import settled_before
from kvwal.ports.locks import Lock
from kvwal.ports.tasks import Workers
from kvwal.spark.record_reader import BUSINESS, IndexedReader, MappingReader, RecordReader, records_of
from kvwal.store.reading.figures import FileStates
from kvwal.store.sync import ReadOnlyStore

T = TypeVar("T")
FRESH_SECONDS = 1.0
"""Age up to which an answer that was made for one request serves others, too. Of one that took long see `SLOW_TIMES`."""
SLOW_TIMES = 10.0
"""An answer serves others for as many times as long as it took to make it, at least: a store that is written to all the time
costs no more than a tenth of a core for each such answer. A graph of 100,000 data sets takes almost a second. For as long again
it serves those who come while one of them makes the next.
"""
ARCHIVED_FRESH_SECONDS = 10.0
"""The same for an archive, which takes longer to read and is itself a minute behind its store."""
UNCHANGED_SECONDS = 60.0
"""Age up to which an answer serves others while no file of the store is written to, and nothing is put into the archive. Entries
with a ttl expire without a write. Then one request makes it anew, and the others take it meanwhile.
"""
UNCHANGED_TIMES = 100.0
"""The same of an answer that took long: as many times as long as it took, but at most `LONGEST_SECONDS`."""
LONGEST_SECONDS = 600.0
_OF_THE_QUESTION = (ConfigError, Refused, KeyError, BeforeHistory, CodecError, TooLarge)
"""Errors that say nothing against the open location: what was asked for is not there, or cannot be asked for."""


class _Made(Generic[T]):
    """A value that the first request makes, while others wait for it. If that fails, the next request tries again.

    Where there is one from `before`, others do not wait: they take that.
    """

    def __init__(
        self, make: Callable[[Any], T], clock: Clock, before: _Made[T] | None = None, *, is_of_before: bool = False
    ) -> None:
        """`make` is given what `of` is given by the request that makes the value. `is_of_before`: made from an earlier state of
        the location than that of the generation.
        """
        self._make = make
        self._clock = clock
        self._before = before
        self.is_of_before = is_of_before
        self._lock = Lock()
        self._value: list[T] = []
        self._serves_until = self._good_until = self._unchanged_until = 0.0

    def of(self, source: Any) -> T:
        """The value, made from `source` if it is not there."""
        if self._value:
            return self._value[0]
        before = self._before  # of another thread that has made it meanwhile there is none any more
        if before is None:
            self._lock.acquire()
        elif not self._lock.acquire(blocking=False):
            return before._value[0]
        try:
            if not self._value:
                began = self._clock.elapsed()
                self._value.append(self._make(source))
                took = self._clock.elapsed() - began
                self._unchanged_until = began + min(UNCHANGED_TIMES * took, LONGEST_SECONDS)
                if took * SLOW_TIMES > FRESH_SECONDS:
                    self._serves_until = began + SLOW_TIMES * took
                    self._good_until = began + 2 * SLOW_TIMES * took
                self._before = None
            return self._value[0]
        finally:
            self._lock.release()

    def later(self, now: float) -> _Made[T] | None:
        """What stands for it when something was written: itself if it goes on serving, or one that is made anew; None if it was
        quick.
        """
        if self._value and now >= self._serves_until:
            return _Made(self._make, self._clock, self) if now < self._good_until else None
        if not self._value and (self._before is None or now >= self._before._good_until):
            return None
        self.is_of_before = True
        return self

    def again(self, now: float) -> _Made[T] | None:
        """What stands for it when nothing was written for a minute: the same, made anew while others take this one, or itself if
        it took long. None if nobody has asked for it in that minute.
        """
        if not self._value:
            return None
        return self if now < self._unchanged_until else _Made(self._make, self._clock, self)


class _Opened:
    """An open location, and how many requests use it."""

    def __init__(self, reader: LocationReader, closing: ExitStack) -> None:
        self.reader = reader
        self.closing = closing
        self.uses = 0
        self.failed = False


class _Generation(NamedTuple):
    """Answers that were made from one state of the location: since when, until when that need not be checked, and its files."""

    made: dict[Any, _Made[Any]]
    since: float
    checked_until: float
    states: FileStates | int | None
    """Of a folder or an archive. None if it is not known: then every answer is made again."""


class View:
    """The location as one request sees it. What several requests need is made once for all that come within a second."""

    def __init__(self, reader: LocationReader, made: dict[Any, _Made[Any]], lock: Lock, clock: Clock) -> None:
        self.reader = reader
        """The open location."""
        self._made = made
        self._lock = lock
        self._clock = clock

    @property
    def records(self) -> RecordReader:
        """The records of Spark applications, with their summaries read. Without any, an empty reader."""
        return self.made(_records)

    def made(self, make: Callable[[LocationReader], T]) -> T:
        """What the function `make` makes from the reader, made once for all requests of a second, or longer if it takes long:
        lists, sums, orders.

        `make` is the key, so it is a function of a module, not one that a request makes. Nobody changes what it returns.
        """
        with self._lock:
            made = self._made.setdefault(make, _Made(make, self._clock))
        return cast(T, made.of(self.reader))

    def made_of_records(self, make: Callable[[RecordReader], T]) -> T:
        """As `made`, from the records of Spark applications."""
        records = self.records
        with self._lock:
            source = self._made.get(_records)
            is_of_before = source is not None and source.is_of_before
            made = self._made.setdefault(make, _Made(make, self._clock, is_of_before=is_of_before))
        return cast(T, made.of(records))


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
        opened = self._acquire()
        try:
            yield View(opened.reader, self._fresh(opened.reader), self._lock, self._clock)
        except _OF_THE_QUESTION:
            raise
        except BaseException:
            self._forget(opened)
            raise
        finally:
            with self._lock:
                opened.uses -= 1
                unused = opened.failed and opened.uses == 0
            if unused:
                opened.closing.close()

    def close(self) -> None:
        """Close the location. No request is running any more."""
        with self._lock:
            current, self._current = self._current, None
        if current is not None:
            current.closing.close()

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

    def _fresh(self, reader: LocationReader) -> dict[Any, _Made[Any]]:
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

    def _checked(self, reader: LocationReader, limit: float) -> dict[Any, _Made[Any]]:
        with self._lock:
            generation = self._generation
        began = self._clock.elapsed()
        if began <= generation.checked_until:  # the request before has just looked
            return generation.made
        states = self._settled_states(reader)
        now = self._clock.elapsed()
        if isinstance(reader, ArchiveReader):
            limit = max(limit, SLOW_TIMES * (now - began))
        later = self._later(generation, states, now)._replace(checked_until=now + limit)
        with self._lock:
            if self._generation is generation:  # otherwise the location was opened again
                self._generation = later
            return self._generation.made

    def _later(self, generation: _Generation, states: FileStates | int | None, now: float) -> _Generation:
        """What stands for a generation now that the location has this state."""
        is_same = states is not None and states == generation.states
        is_old = now - generation.since > UNCHANGED_SECONDS
        with self._lock:
            made = dict(generation.made)
        if is_same and not is_old and not any(one.is_of_before for one in made.values()):
            return generation
        later = {key: _stands_for(one, now, is_same=is_same, is_old=is_old) for key, one in made.items()}
        kept = {key: one for key, one in later.items() if one is not None}
        return _Generation(kept, generation.since if is_same and not is_old else now, now, states)

    def _begun(self, limit: float) -> _Generation:
        now = self._clock.elapsed()
        return _Generation({}, now, now + limit, None)

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


def _stands_for(one: _Made[Any], now: float, *, is_same: bool, is_old: bool) -> _Made[Any] | None:
    """What stands for an answer, of a location that is the same or another one, in a generation that is old or goes on."""
    if not is_same or one.is_of_before:
        return one.later(now)
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
