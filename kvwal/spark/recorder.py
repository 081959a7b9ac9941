"""Recording a running application: `with JobRecorder(spark, "data"):`.

Spark already knows how to write down everything that happens: its event log. So the recorder gives Spark a second event log
of its own, on Spark's queue for such logs, and a thread here reads it into the store like any other. Spark never calls into
Python for an event and never waits for the store, and whatever goes wrong here, Spark does not notice. Events that Spark
drops because its queue is full are counted in the application's record (`dropped`).
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
from kvwal.spark.eventlog.logs import Identity, Log
from kvwal.spark.eventlog.reading import BUSINESS, LogReader
from kvwal.spark.records import Position, app_prefix, to_value
from kvwal.spark.redaction import Redaction, rules_of
from kvwal.spark.spool import AFTER_SPARK, POSITION, Spool, add_roll, drop_read
from kvwal.store.sync import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_SECONDS = 0.25
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

    `store` is an open store, or a root: then the recorder opens it as a node named after the application, with `options` as
    `kvwal.open` takes them, so that many drivers record into one root at once. What was recorded can be read while the
    application runs, about a quarter of a second behind it. `close` returns when everything that had happened by then is
    durable. It does not raise for trouble with the store: it logs a sentence and leaves the rest of the events under
    `<root>/_spark`, where `kvwal record ROOT` picks them up. Either of close and `spark.stop()` may come first.
    """

    def __init__(self, spark: SparkSession, store: Store | str | Path, **options: Any) -> None:
        self._spark = _Driver(spark)
        self._given = store
        self._options = options
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None
        """Why recording stopped early; None while all is well."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def start(self) -> Self:
        """Begin to record. Raises what `kvwal.open` raises."""
        identity = self._spark.identity
        self._owns_store = isinstance(self._given, str | Path)
        if isinstance(self._given, str | Path):
            node = "-".join(filter(None, (identity.app, identity.attempt)))
            self._store = open_store(self._given, node=node, **self._options)
        else:
            self._store = self._given
        records = self._store.map(BUSINESS)
        self._spool = Spool(
            Path(self._store.root), self._store.namespace, self._store.cluster, self._store.node or identity.app
        )
        self._spool.read_rest(records)
        self._spool.make()
        records.put_many({f"{app_prefix(identity.app, identity.attempt)}/{POSITION}": to_value(Position())})
        self._log = self._spark.begin(self._spool.folder)
        self._reader = LogReader(records, self._log, identity, position=POSITION)
        self._thread = start_thread("kvwal-recorder", self._follow, self._stopped)
        return self

    def close(self, error: BaseException | None = None) -> None:
        """Record what has happened by now, and leave. `error` is the exception that ends the application, if one does."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        # Each step, whatever became of the one before: the application's own exception goes on behind them.
        steps: list[Callable[[], object]] = [
            partial(self._end_log, error),
            self._stopping.set,
            thread.join,
            self._close_store,
            self._clear_spool,
        ]
        contain_each(steps, self._stopped)

    def _close_store(self) -> None:
        if self._owns_store:
            self._store.close()

    def _clear_spool(self) -> None:
        """Once every event is durable. What is not stays, and who reads it is told where it is."""
        if self.failure is None and not self._reader.problem:
            self._spool.remove(self._log)
        else:
            _log.error(
                "Recording stopped: %s Events since then are in %s; `kvwal record %s` reads them.",
                self.failure or self._reader.problem, self._log.path, self._store.root,
            )  # fmt: skip

    def _end_log(self, error: BaseException | None) -> None:
        """Have Spark write what it still has, and how the recording ended."""
        dropped = self._spark.end()
        add_roll(self._log, AFTER_SPARK, [_detached(error, dropped)])

    def _follow(self) -> None:
        """The recorder's thread: read what Spark wrote, again and again, and once more when it is time to leave."""
        with closing(self._reader):
            leaving = False
            while not leaving:
                leaving = self._stopping.wait(EVERY_SECONDS)
                self._reader.advance()
                drop_read(self._log, self._reader.projection.position)

    def _stopped(self, error: BaseException) -> None:
        """What ends the thread before its time, whatever it is, is why events are still in the spool."""
        self.failure = self.failure or error
        trace = None if isinstance(error, KvwalError | OSError) else error
        _log.warning("Recording stops: %s", error, exc_info=trace)


def record(spark: SparkSession) -> JobRecorder:
    """Record the application from here to its end, into the root that its configuration names as `spark.kvwal.root`.

    `spark.kvwal.namespace`, `spark.kvwal.cluster` and `spark.kvwal.archive` are passed on if they are there. The recorder
    closes by itself when Python ends.
    """
    settings = {name.removeprefix("spark.kvwal."): value for name, value in spark.sparkContext.getConf().getAll()
                if name.startswith("spark.kvwal.")}  # fmt: skip
    unknown = settings.keys() - {"root", "namespace", "cluster", "archive"}
    if unknown or "root" not in settings:
        raise ConfigError(
            f"spark.kvwal.{min(unknown)} is no setting of kvwal."
            if unknown
            else "spark.kvwal.root is not set, so there is no place to record to.",
            hint="Set spark.kvwal.root to the folder of a store, and if need be .namespace, .cluster and .archive.",
        )
    recorder = JobRecorder(spark, settings.pop("root"), **settings).start()
    at_exit(recorder.close, logged("the recording of the application could not be ended in order"))
    return recorder


def _detached(error: BaseException | None, dropped: int) -> dict[str, Any]:
    said = "".join(traceback.format_exception_only(error)).strip() if error is not None else ""
    stack = "".join(traceback.format_exception(error)) if error is not None else ""
    return {
        "Event": "kvwal.Detached",
        "Timestamp": time.time_ns() // 1_000_000,
        "Error": said,
        "Stack": stack,
        "Dropped": dropped,
    }


class _Driver:
    """What is asked of the driver's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        context = getattr(spark, "_sc", None)
        if context is None or context._jsc is None:
            raise ConfigError(
                "This session has no driver here: it is a client of Spark Connect, or it was stopped.",
                hint="Record on the driver, or let Spark write event logs and read them with `kvwal record`.",
            )
        self._jvm, self._context = context._jvm, context._jsc.sc()
        attempt = self._context.applicationAttemptId()
        self.identity = Identity(
            self._context.applicationId(), attempt.get() if attempt.isDefined() else "", context.appName
        )
        self._about = {
            "App Name": context.appName,
            "App ID": self.identity.app,
            "Timestamp": context.startTime,
            "User": context.sparkUser(),
            "App Attempt ID": self.identity.attempt or None,
        }
        settings = dict(context.getConf().getAll())
        # The rules go into the spool, which is this user's, and are not stored: a later reader needs them.
        self._settings = Redaction(settings).settings(settings) | rules_of(settings)

    def begin(self, folder: Path) -> Log:
        """Have Spark write an event log into `folder`."""
        conf = self._context.conf().clone()
        for name, value in _EVENT_LOG.items():
            conf.set(name, value)
        place = self._jvm.java.io.File(str(folder.absolute())).toURI()
        self._listener = self._jvm.org.apache.spark.scheduler.EventLoggingListener(
            self.identity.app, self._context.applicationAttemptId(), place, conf, self._context.hadoopConfiguration()
        )
        before = set(folder.iterdir())
        self._listener.start()
        (path,) = set(folder.iterdir()) - before
        log, java = Log(path), self._jvm.java.lang.System
        runtime = {"Java Version": java.getProperty("java.version"), "Java Home": java.getProperty("java.home")}
        add_roll(log, 0, [
            {"Event": "SparkListenerApplicationStart", **self._about},
            {"Event": "SparkListenerEnvironmentUpdate", "JVM Information": runtime, "Spark Properties": self._settings},
        ])  # fmt: skip
        self._bus = self._context.listenerBus()
        self._bus.addToEventLogQueue(self._listener)
        self._dropped = self._bus.metrics().metricRegistry().counter("queue.eventLog.numDroppedEvents").getCount
        return log

    def end(self) -> int:
        """Have Spark write what has happened so far, and no more. Returns how many events it dropped because it was behind."""
        bus = self._ask(self._context.listenerBus)
        if bus is None:
            return 0
        self._ask(lambda: bus.waitUntilEmpty(DRAIN_MS))
        self._ask(lambda: bus.removeListener(self._listener))
        self._ask(self._listener.stop)
        counter = self._ask(
            lambda: bus.metrics().metricRegistry().counter("queue.eventLog.numDroppedEvents").getCount()
        )
        return int(counter or 0)

    def _ask(self, call: Callable[[], Any]) -> Any:
        """What the JVM answers; None where it cannot, or is gone: the log on the disk is what counts then."""
        from py4j.protocol import Py4JError

        try:
            return call()
        except (Py4JError, OSError) as error:
            _log.warning("Spark did not answer the recorder: %s", error)
            return None
