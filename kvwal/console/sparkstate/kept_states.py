"""Kept event logs of the console's location, and the states rebuilt from them, cached by bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import msgspec

from kvwal.console.shared_reader import View
from kvwal.console.sparkstate.rows import TaskRow
from kvwal.console.sparkstate.state import Replay, State
from kvwal.console.sparkstate.tasks import task_rows
from kvwal.errors import ConfigError
from kvwal.location.readers import LocationReader
from kvwal.ports.locks import Lock
from kvwal.spark.eventlog.lines import Lines
from kvwal.spark.eventlog.logs import settings_of
from kvwal.spark.kept.contents import KEPT_LOGS, KeptName, ReadContents, kept_logs
from kvwal.spark.kept.frames import DamagedKeptLog
from kvwal.spark.kept.reader import KeptLog
from kvwal.spark.kept.replay import KeptEventLog, kept_event_log
from kvwal.spark.kept.task_lines import StageAttempt
from kvwal.spark.redaction import Redaction, applied
from kvwal.store.contents.stored import StoredContents

T = TypeVar("T")
MOST_BYTES = 512 << 20
"""Bytes of states and tasks that are kept in memory."""
_FACTOR = 3
"""Bytes of a state in memory, for each byte of it as MessagePack."""


class _Version(NamedTuple):
    """One content: a log that is kept anew under the same name has another length, or another time."""

    name: str
    length: int
    source_bytes: str


class _Made(msgspec.Struct):
    """A value, made by the first request that asks for it while others wait, and its bytes."""

    lock: Lock
    value: object = None
    is_made: bool = False
    bytes: int = 0


class KeptStates:
    """The states of applications whose logs are kept. Threads share it."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = Lock()
        self._made: OrderedDict[tuple[object, ...], _Made] = OrderedDict()
        self._bytes = 0

    def has_log(self, view: View, prefix: str) -> bool:
        """Whether a log of an application is kept."""
        return _name(view, prefix) is not None

    def log_of(self, view: View, prefix: str) -> KeptEventLog | None:
        """The kept log of an application; None if none is kept."""
        name, contents = _name(view, prefix), view.made(_contents)
        return None if name is None or contents is None else kept_event_log(contents, name)

    def state_of(self, view: View, prefix: str) -> State | None:
        """The state of an application; None if no log of it is kept. `DamagedKeptLog` for a log that cannot be read."""
        found = _found(view, prefix)
        if found is None:
            return None
        contents, name, version = found
        return self._once((version, "state"), lambda: _state(contents, name, _last_event(view, prefix)))

    def tasks_of(self, view: View, prefix: str, stage: int, attempt: int) -> list[TaskRow] | None:
        """The tasks of a stage attempt, sorted by their numbers; None if no log is kept. Only their lines are read."""
        found = _found(view, prefix)
        if found is None:
            return None
        contents, name, version = found
        of = StageAttempt(stage, attempt)
        return self._once((version, of), lambda: _tasks(contents, name, of, _last_event(view, prefix)))

    def _once(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """The value of a key, from the cache or made now. The ones that were not asked for longest go."""
        with self._lock:
            made = self._made.setdefault(key, _Made(Lock()))
            self._made.move_to_end(key)
        with made.lock:
            try:
                if not made.is_made:
                    made.value = make()
                    made.bytes = _FACTOR * len(msgspec.msgpack.encode(made.value, enc_hook=_plain))
                    made.is_made = True
                    self._count(key, made)
            finally:
                if not made.is_made:
                    self._drop(key, made)
            value_made: T = made.value  # type: ignore[assignment]
            return value_made

    def _drop(self, key: tuple[object, ...], made: _Made) -> None:
        with self._lock:
            if self._made.get(key) is made:
                del self._made[key]

    def _count(self, key: tuple[object, ...], made: _Made) -> None:
        with self._lock:
            if self._made.get(key) is not made:
                return
            self._bytes += made.bytes
            for other, each in list(self._made.items()):
                if self._bytes <= self._most_bytes or other == key:
                    break
                if each.is_made:
                    self._bytes -= each.bytes
                    del self._made[other]


def _plain(value: object) -> object:
    return str(value)


def _contents(reader: LocationReader) -> ReadContents | None:
    """The kept logs of a location; None if it has none."""
    if KEPT_LOGS not in reader.businesses():
        return None
    try:
        return StoredContents(reader.read_business(KEPT_LOGS), KEPT_LOGS)
    except ConfigError:  # a cluster has no contents
        return None


def _names(reader: LocationReader) -> dict[str, KeptName]:
    """The name of the kept log of each application."""
    contents = _contents(reader)
    try:
        return {} if contents is None else {name.prefix: name for name in kept_logs(contents)}
    except ConfigError:  # a map of a cluster has this name
        return {}


def _name(view: View, prefix: str) -> KeptName | None:
    return view.made(_names).get(prefix)


def _found(view: View, prefix: str) -> tuple[ReadContents, KeptName, _Version] | None:
    name, contents = _name(view, prefix), view.made(_contents)
    if name is None or contents is None:
        return None
    try:
        stored = contents.stat(str(name))
    except KeyError:  # it went within this second
        return None
    return contents, name, _Version(str(name), stored.length, stored.attributes.get("source_bytes", ""))


def _last_event(view: View, prefix: str) -> int:
    """The time of the latest event of an application: what has not ended has lasted until then."""
    app = view.records.application(prefix)
    return 0 if app is None else max(app.ended, app.last_event)


def _state(contents: ReadContents, name: KeptName, now: int) -> State:
    with _readable(name):
        log = kept_event_log(contents, name)
        replay = Replay()
        with applied(Redaction(settings_of(log))):
            lines = Lines(log.path)
            try:
                while (more := lines.more()) is not None:
                    replay.lines(more)
                replay.lines([lines.unfinished()])
            finally:
                lines.close()
            return replay.state(now)


def _tasks(contents: ReadContents, name: KeptName, of: StageAttempt, now: int) -> list[TaskRow]:
    with _readable(name):
        log = kept_event_log(contents, name)
        with contents.open(str(name)) as file, applied(Redaction(settings_of(log))):
            return task_rows(KeptLog(file, log.length).lines(of), of, now)


@contextmanager
def _readable(name: KeptName) -> Iterator[None]:
    """Name the log in the error of a damaged one."""
    try:
        yield
    except DamagedKeptLog as error:
        raise DamagedKeptLog(
            f"The kept log {name} cannot be read: {error}.",
            hint="`kvwal content verify` tells whether its bytes are those that were written.",
        ) from error
