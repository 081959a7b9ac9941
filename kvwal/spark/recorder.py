"""Recording a running application: `with JobRecorder(spark, "data"):`.

Spark can write every event to an event log. So the recorder adds a second event log to Spark's queue for event logs, and a
thread of the recorder reads that log into the store. Spark never calls Python for an event and never waits for the store, and
no error of the recorder reaches Spark. Spark drops events when its queue is full; the application's record counts them
(`dropped`).
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kvwal.errors import ConfigError, KvwalError
from kvwal.ports.boundary import at_exit, contain_each, logged, start_thread
from kvwal.spark.eventlog.log_reader import BUSINESS, LogReader
from kvwal.spark.eventlog.logs import ApplicationIdentity, EventLog
from kvwal.spark.records import Position, app_prefix, to_value
from kvwal.spark.redaction import Redaction, rules_of
from kvwal.spark.spool import LAST_ROLL, POSITION, Spool, add_roll, delete_read_rolls
from kvwal.store.sync import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.25
DRAIN_MS = 30_000
_EVENT_LOG = {
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "true",
    "spark.eventLog.rolling.maxFileSize": "10m",
    "spark.eventLog.overwrite": "true",
    "spark.eventLog.includeTaskMetricsAccumulators": "false",
    "spark.eventLog.logBlockUpdates.enabled": "false",
    "spark.eventLog.logStageExecutorMetrics": "false",
}
_log = logging.getLogger("kvwal.spark")


class JobRecorder:
    """Records a Spark application into a store, from `start` (or `with`) to `close`.

    `store` is an open store, or a root. The recorder opens a root as a node named after the application, with `options` as
    `kvwal.open` takes them, so that many drivers record into one root at once. The records can be read while the application
    runs; they are about a quarter of a second behind it. `close` returns when every event that happened before it is durable.
    `close` does not raise an error of the store: it logs the error and leaves the rest of the events under `<root>/_spark`,
    where `kvwal record ROOT` finds them. `close` and `spark.stop()` may come in either order.
    """

    def __init__(self, spark: SparkSession, store: Store | str | Path, **options: Any) -> None:
        self._driver = _Driver(spark)
        self._store = store
        self._options = options
        self._recording: _Recording | None = None
        self._thread: threading.Thread | None = None

    @property
    def failure(self) -> BaseException | None:
        """The error that stopped the recording early; None if there was none."""
        return self._recording.failure if self._recording is not None else None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def start(self) -> Self:
        """Begin to record. Raises the errors of `kvwal.open`."""
        identity = self._driver.identity
        if owns_store := isinstance(self._store, str | Path):
            node = "-".join(filter(None, (identity.app, identity.attempt)))
            store = open_store(self._store, node=node, **self._options)
        else:
            store = self._store
        self._recording = _Recording(self._driver, store, owns_store=owns_store)
        self._thread = start_thread("kvwal-recorder", self._recording.follow, self._recording.stopped)
        return self

    def close(self, error: BaseException | None = None) -> None:
        """Record the events up to now, and stop. `error` is the exception that ends the application, or None."""
        thread, self._thread = self._thread, None
        if thread is None or self._recording is None:
            return
        self._recording.close(thread, error)


class _Recording:
    """A recording in progress: the store, the spool, the event log that Spark writes, and its reader."""

    def __init__(self, driver: _Driver, store: Store, *, owns_store: bool) -> None:
        identity = driver.identity
        records = store.map(BUSINESS)
        self.store = store
        self.failure: BaseException | None = None
        self._owns_store = owns_store
        self._stopping = threading.Event()
        self._spool = Spool(Path(store.root), store.namespace, store.cluster, store.node or identity.app)
        self._spool.read_rest(records)
        self._spool.make()
        records.put_many({f"{app_prefix(identity.app, identity.attempt)}/{POSITION}": to_value(Position())})
        self._listener = driver.attach(self._spool.folder)
        self._log = self._listener.log
        self._reader = LogReader(records, self._log, identity, position=POSITION)

    def follow(self) -> None:
        """Read the log until `close`, and once more afterwards. Runs on the recorder's thread."""
        with closing(self._reader):
            stopping = False
            while not stopping:
                stopping = self._stopping.wait(POLL_SECONDS)
                self._reader.advance()
                delete_read_rolls(self._log, self._reader.projection.position)

    def stopped(self, error: BaseException) -> None:
        """Keep the first error as the failure: it is why events stay in the spool."""
        self.failure = self.failure or error
        trace = None if isinstance(error, KvwalError | OSError) else error
        _log.warning("Recording stops: %s", error, exc_info=trace)

    def close(self, thread: threading.Thread, error: BaseException | None) -> None:
        """End the log, the thread and the store, then clear the spool."""
        # Each step runs, also after an error in the step before, and no error of a step replaces the application's exception.
        steps: list[Callable[[], object]] = [
            partial(self._end_log, error),
            self._stopping.set,
            thread.join,
            self._close_store,
            self._clear_spool,
        ]
        contain_each(steps, self.stopped)

    def _end_log(self, error: BaseException | None) -> None:
        """Let Spark write its queued events, then write how the recording ended."""
        dropped = self._listener.detach()
        add_roll(self._log, LAST_ROLL, [_detached(error, dropped)])

    def _close_store(self) -> None:
        if self._owns_store:
            self.store.close()

    def _clear_spool(self) -> None:
        """Delete the log if all its events are durable. Otherwise the log stays, and a message names it."""
        if self.failure is None and not self._reader.problem:
            self._spool.remove(self._log)
        else:
            _log.error(
                "Recording stopped: %s Events since then are in %s; `kvwal record %s` reads them.",
                self.failure or self._reader.problem, self._log.path, self.store.root,
            )  # fmt: skip


def record(spark: SparkSession) -> JobRecorder:
    """Record the application from now to its end, into the root that its setting `spark.kvwal.root` names.

    The settings `spark.kvwal.namespace`, `spark.kvwal.cluster` and `spark.kvwal.archive` are used if they are set. The
    recorder closes by itself when Python ends. Raises `ConfigError` without a root, or for an unknown `spark.kvwal` setting.
    """
    settings = {name.removeprefix("spark.kvwal."): value for name, value in spark.sparkContext.getConf().getAll()
                if name.startswith("spark.kvwal.")}  # fmt: skip
    unknown = settings.keys() - {"root", "namespace", "cluster", "archive"}
    if unknown or "root" not in settings:
        raise ConfigError(
            f"spark.kvwal.{min(unknown)} is not a setting of kvwal."
            if unknown
            else "spark.kvwal.root is not set, so there is no root to record into.",
            hint="Set spark.kvwal.root to the folder of a store; .namespace, .cluster and .archive are optional.",
        )
    recorder = JobRecorder(spark, settings.pop("root"), **settings).start()
    at_exit(recorder.close, logged("the recording of the application could not be closed"))
    return recorder


def _detached(error: BaseException | None, dropped: int) -> dict[str, Any]:
    """The event that ends a recording."""
    message = "".join(traceback.format_exception_only(error)).strip() if error is not None else ""
    stack = "".join(traceback.format_exception(error)) if error is not None else ""
    return {
        "Event": "kvwal.Detached",
        "Timestamp": time.time_ns() // 1_000_000,
        "Error": message,
        "Stack": stack,
        "Dropped": dropped,
    }


class _Driver:
    """The driver of a Spark session: its identity, its settings and its JVM."""

    def __init__(self, spark: SparkSession) -> None:
        context = getattr(spark, "_sc", None)
        if context is None or context._jsc is None:
            raise ConfigError(
                "This session has no driver in this process: it is a client of Spark Connect, or it was stopped.",
                hint="Record on the driver, or let Spark write event logs and read them with `kvwal record`.",
            )
        self._jvm, self._context = context._jvm, context._jsc.sc()
        attempt = self._context.applicationAttemptId()
        self.identity = ApplicationIdentity(
            self._context.applicationId(), attempt.get() if attempt.isDefined() else "", context.appName
        )
        self._start_event = {
            "Event": "SparkListenerApplicationStart",
            "App Name": context.appName,
            "App ID": self.identity.app,
            "Timestamp": context.startTime,
            "User": context.sparkUser(),
            "App Attempt ID": self.identity.attempt or None,
        }
        settings = dict(context.getConf().getAll())
        # A later reader needs the redaction rules. They stand in the spool, which only this user can read, and are not stored.
        self._settings = Redaction(settings).settings(settings) | rules_of(settings)

    def attach(self, folder: Path) -> _Listener:
        """Let Spark write an event log into `folder`."""
        conf = self._context.conf().clone()
        for name, value in _EVENT_LOG.items():
            conf.set(name, value)
        uri = self._jvm.java.io.File(str(folder.absolute())).toURI()
        listener = self._jvm.org.apache.spark.scheduler.EventLoggingListener(
            self.identity.app, self._context.applicationAttemptId(), uri, conf, self._context.hadoopConfiguration()
        )
        before = set(folder.iterdir())
        listener.start()
        (path,) = set(folder.iterdir()) - before
        log, java = EventLog(path), self._jvm.java.lang.System
        runtime = {"Java Version": java.getProperty("java.version"), "Java Home": java.getProperty("java.home")}
        add_roll(log, 0, [
            self._start_event,
            {"Event": "SparkListenerEnvironmentUpdate", "JVM Information": runtime, "Spark Properties": self._settings},
        ])  # fmt: skip
        self._context.listenerBus().addToEventLogQueue(listener)
        return _Listener(log, self._context, listener)


class _Listener:
    """A listener on Spark's event log queue, and the event log that it writes."""

    def __init__(self, log: EventLog, context: Any, listener: Any) -> None:
        self.log = log
        self._context = context
        self._listener = listener

    def detach(self) -> int:
        """Let Spark write the events queued so far, then stop the listener. Returns how many events Spark dropped."""
        bus = _call_jvm(self._context.listenerBus)
        if bus is None:
            return 0
        _call_jvm(lambda: bus.waitUntilEmpty(DRAIN_MS))
        _call_jvm(lambda: bus.removeListener(self._listener))
        _call_jvm(self._listener.stop)
        dropped = _call_jvm(
            lambda: bus.metrics().metricRegistry().counter("queue.eventLog.numDroppedEvents").getCount()
        )
        return int(dropped or 0)


def _call_jvm(call: Callable[[], Any]) -> Any:
    """The result of a call to the JVM; None if the JVM fails or is gone, since the log on the disk is enough to go on."""
    from py4j.protocol import Py4JError

    try:
        return call()
    except (Py4JError, OSError) as error:
        _log.warning("Spark did not answer the recorder: %s", error)
        return None
