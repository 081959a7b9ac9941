"""Recording a running application: `with JobRecorder(spark, "data"):`.

Spark can write every event to an event log. So the recorder adds a second event log to Spark's queue for event logs, and a
thread of the recorder reads that log into the store. Spark never calls Python for an event and never waits for the store, and
no error of the recorder reaches Spark. Spark drops events when its queue is full; the application's record counts them
(`dropped`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kvwal.config import check_folder
from kvwal.errors import ConfigError
from kvwal.ports.boundary import at_exit, contain, logged, start_thread, trace_of_bug
from kvwal.ports.processes import tell_if_forked
from kvwal.spark.recording.driver import Driver, context_of, no_driver
from kvwal.spark.recording.endings import DETACHED, EXIT_WATCH, Ending
from kvwal.spark.recording.own_log import LogKeeping, NoOwnLog
from kvwal.spark.recording.recording import Recording
from kvwal.spark.recording.target import default_spool, open_target
from kvwal.store.options import archive_argument

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from kvwal.client.store import ClusterStore
    from kvwal.store.sync import Store

_log = logging.getLogger("kvwal.spark")
_not_closed = logged("the recording of the application could not be closed")


class JobRecorder:
    """Records a Spark application into a store, from `start` (or `with`) to `close`.

    `store` is an open store, or the location of one. The recorder opens a folder as a node named after the application, with
    `options` as `kvwal.open` takes them, so that many drivers record into one folder at once. It connects to a cluster
    (`kvwal://host:port`) with `options` as `kvwal.connect` takes them. The records can be read while the application runs; they
    are about a quarter of a second behind it. Those of a folder move later to a node that finished applications share.

    No trouble of the recorder reaches the application. If a folder cannot be opened, that is logged as an error, `failure` has
    it, and the application runs on without being recorded; with `strict`, `start` raises it instead. While a cluster is away, at
    the start or later, the events stay in the spool, up to 1 GiB; the recorder tries again by itself, and `stats` tells. With
    `strict`, a cluster has to answer at the start.

    `close` does not raise an error of the store: it logs the error and leaves the rest of the events in the spool, where
    `kvwal record LOCATION` finds them. It waits for a cluster that is away for one try: the `timeout` of `kvwal.connect`, and up
    to 10 seconds to connect. The spool of a folder is `<folder>/_spark`. That of a cluster is under `spool`, a folder of this
    machine; by default `~/.local/state/kvwal`.

    With `keep_logs` the event log that Spark itself writes (`spark.eventLog.enabled`) is kept when Spark has ended, as
    `kvwal record --keep-logs` keeps it: by `close` if Spark has stopped before, else when it stops, and at last when Python
    ends, which stops Spark. If it cannot be kept, that is logged as an error, and `stats` tells it.

    The application's status says how its Python ended: see `kvwal.spark.recording.endings`.
    """

    def __init__(
        self,
        spark: SparkSession | SparkContext,
        store: Store | ClusterStore | str | Path,
        *,
        strict: bool = False,
        spool: str | Path | None = None,
        keep_logs: bool = False,
        **options: Any,
    ) -> None:
        """`ConfigError` if the session has no driver in this process, or if `keep_logs` is asked and Spark writes no event log
        that kvwal can read.
        """
        self._driver = Driver(spark)
        self._keeping = LogKeeping(self._driver) if keep_logs else None
        self._spool = None if spool is None else check_folder("spool", spool)
        self._store = store
        self._strict = strict
        self._options = options
        self._recording: Recording | None = None
        self._thread: threading.Thread | None = None
        self._refusal: BaseException | None = None
        self._not_at_exit: Callable[[], None] = lambda: None
        tell_if_forked(self)

    def forked(self) -> None:
        """In a forked child, which may end in order: the recording is the parent's, and goes on there."""
        self._thread = None

    @property
    def recording(self) -> bool:
        """Whether the recording has begun and was not closed."""
        return self._thread is not None

    @property
    def failure(self) -> BaseException | None:
        """The error that kept the recording from starting, or stopped it early; None if there was none."""
        return self._refusal or (self._recording.failure if self._recording is not None else None)

    def stats(self) -> dict[str, Any]:
        """The state of the recording: what is stored, what waits in the spool, and the trouble with the store.

        `events` are those that the store has, and `spool_bytes` the size of those that wait. `spool_full` says that later events
        are not recorded. `troubles` counts calls that the store did not take. `waiting` says why the recorder waits for it, or is
        None. `failure` is the error that ended the recording, or None. `kept_log` names the content that Spark's own event log is
        kept as; None as long as it is not. `not_kept` says why the log, or a part of it, could not be kept, or is None.
        """
        recording, keeping = self._recording, self._keeping
        return {
            "recording": self.recording,
            "events": recording.events if recording else 0,
            "spool_bytes": recording.spooled_bytes() if recording else 0,
            "spool_full": recording.is_full if recording else False,
            "troubles": recording.status.troubles if recording else 0,
            "waiting": recording.status.waiting if recording else None,
            "failure": None if self.failure is None else str(self.failure),
            "kept_log": keeping.kept if keeping else None,
            "not_kept": keeping.problem if keeping else None,
        }

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(Ending.of(error))

    def start(self) -> Self:
        """Begin to record; nothing if that has begun. It ends with `close`, with the `with` block, or with Python.

        With `strict` it raises the errors of `kvwal.open`, or of `kvwal.connect` and a first read.
        """
        if self._thread is None:
            self._refusal = None
            if self._strict:
                self._begin()
            else:
                contain(self._begin, self._refuse)
        return self

    def close(self, error: BaseException | None = None) -> None:
        """Record the events up to now, and stop. Returns when they are durable.

        `error` is the exception that ends the application. `close` and `spark.stop()` may come in either order.
        """
        self._close(DETACHED if error is None else Ending.of(error))

    def _begin(self) -> None:
        identity = self._driver.identity
        target = open_target(self._store, identity, self._spool or default_spool(), self._options)
        with ExitStack() as undo:
            undo.callback(target.unlock)
            undo.callback(target.close)
            recording = Recording(self._driver, target, strict=self._strict)
            undo.callback(recording.discard)
            EXIT_WATCH.begin()
            self._thread = start_thread("kvwal-recorder", recording.follow, recording.stopped)
            undo.pop_all()
        self._recording = recording
        if self._keeping is not None:
            self._keeping.cancel()
        self._not_at_exit = at_exit(self._close_at_exit, _not_closed)

    def _refuse(self, error: BaseException) -> None:
        self._refusal = error
        log_not_recorded(error)

    def _close_at_exit(self) -> None:
        self._close(EXIT_WATCH.ending(), python_ends=True)

    def _close(self, ending: Ending, *, python_ends: bool = False) -> None:
        thread, self._thread = self._thread, None
        if thread is None or self._recording is None:
            return
        self._not_at_exit()
        self._recording.close(thread, ending)
        if self._keeping is not None:
            self._keeping.end(self._recording.logs, python_ends=python_ends)


def log_not_recorded(error: BaseException) -> None:
    """Log the error that keeps the application from being recorded."""
    _log.error("The application is not recorded: %s", error, exc_info=trace_of_bug(error))


_RECORDERS: dict[str, JobRecorder] = {}
"""The recorders that `record` began, by application."""


def record(spark: SparkSession | SparkContext) -> JobRecorder:
    """Record the application from now to its end, into the store whose location its setting `spark.kvwal.store` is.

    `spark.kvwal.root` is an earlier name of that setting. The settings `spark.kvwal.namespace`, `.cluster`, `.spool`,
    `.archive` (`none`: without an archive) and `.keepLogs` (`true`: see `JobRecorder`) are used if they are set. The recording
    ends when Python ends. A second call while it records returns the same recorder. `ConfigError` without a location, or for an
    unknown `spark.kvwal` setting. An event log that cannot be kept is logged as an error, and the application is recorded.
    """
    context = context_of(spark)
    if context is None:
        raise no_driver()
    known = _RECORDERS.get(context.applicationId)
    if known is not None and known.recording:
        return known
    settings: dict[str, Any] = {
        name.removeprefix("spark.kvwal."): value
        for name, value in context.getConf().getAll()
        if name.startswith("spark.kvwal.")
    }
    location = _location(settings)
    if "archive" in settings:
        settings["archive"] = archive_argument(settings["archive"])
    keep_logs = _is_true("keepLogs", settings.pop("keepLogs", "false"))
    try:
        recorder = JobRecorder(spark, location, keep_logs=keep_logs, **settings)
    except NoOwnLog as error:  # the setting may be that of all applications, and this one writes no event log
        _log.error("The application is recorded, but its event log is not kept: %s", error)
        recorder = JobRecorder(spark, location, **settings)
    _RECORDERS[context.applicationId] = recorder.start()
    return recorder


def _is_true(name: str, value: str) -> bool:
    """A setting that is true or false. `ConfigError` for another value."""
    if value.lower() not in ("true", "false"):
        raise ConfigError(f"spark.kvwal.{name} is {value!r}.", hint="Set it to true or false.")
    return value.lower() == "true"


def _location(settings: dict[str, Any]) -> str:
    """Take the location out of the settings of kvwal. `ConfigError` unless there is one, and no unknown setting."""
    named = settings.keys() & {"store", "root"}
    if unknown := settings.keys() - {*named, "namespace", "cluster", "archive", "spool", "keepLogs"}:
        problem = f"spark.kvwal.{min(unknown)} is not a setting of kvwal."
    elif not named:
        problem = "spark.kvwal.store is not set, so there is no store to record into."
    elif len(named) > 1:
        problem = "spark.kvwal.store and spark.kvwal.root, its earlier name, are both set."
    else:
        location: str = settings.pop(named.pop())
        return location
    raise ConfigError(
        problem,
        hint="Set spark.kvwal.store to a folder or to kvwal://host:port; .namespace, .cluster, .archive, .spool and .keepLogs are"
        " optional.",
    )
