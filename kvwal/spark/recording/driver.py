"""The driver of a Spark session, as the recorder needs it: who it is, its settings, and an event log that it writes."""

from __future__ import annotations

import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvwal.errors import ConfigError
from kvwal.spark.eventlog.logs import ApplicationIdentity, LocalEventLog
from kvwal.spark.recording.spool import add_roll
from kvwal.spark.redaction import Redaction, rules_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

DRAIN_MS = 30_000
LISTED_MS = 2_000
"""Longest wait, at the start of a recording, for Spark's own list of its executors."""
_EVENT_LOG = {
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "true",
    "spark.eventLog.rolling.maxFileSize": "10m",
    "spark.eventLog.overwrite": "true",
    "spark.eventLog.includeTaskMetricsAccumulators": "false",
    "spark.eventLog.logBlockUpdates.enabled": "false",
}
_SCHEDULER = "org.apache.spark.scheduler.SparkListener"
_SUBMIT = "org.apache.spark.deploy.SparkSubmit "
_DROPPED = "queue.eventLog.numDroppedEvents"
_log = logging.getLogger("kvwal.spark")


class Driver:
    """The driver of a Spark session: its identity, its settings and its JVM."""

    def __init__(self, spark: SparkSession | SparkContext) -> None:
        context = context_of(spark)
        if context is None or context._jsc is None:
            raise no_driver()
        self._jvm, self._context = context._jvm, context._jsc.sc()
        self._python_context = context
        attempt = self._context.applicationAttemptId()
        self.identity = ApplicationIdentity(
            self._context.applicationId(),
            attempt.get() if attempt.isDefined() else "",
            context.appName,
            context.startTime,
        )
        self._start_event = {
            "Event": "SparkListenerApplicationStart",
            "App Name": context.appName,
            "App ID": self.identity.app,
            "Timestamp": self.identity.started,
            "User": context.sparkUser(),
            "App Attempt ID": self.identity.attempt or None,
        }
        # Spark adds this default, and no other, to the settings in its own event.
        settings = {"spark.scheduler.mode": "FIFO"} | dict(context.getConf().getAll())
        # A later reader needs the redaction rules. They stand in the spool, which only this user can read, and are not stored.
        self._redaction = Redaction(settings)
        self._settings = self._redaction.settings(settings) | rules_of(settings)

    def event_log(self) -> str | None:
        """The path or URL of the event log that Spark itself writes, under its final name; None if it writes none."""
        listener = self._context.eventLogger()
        return str(listener.get().logWriter().logPath()) if listener.isDefined() else None

    def event_log_codec(self) -> str | None:
        """The codec that compresses Spark's own event log, by Spark's short name; None if it is not compressed."""
        codec = self._context.eventLogCodec()
        return str(codec.get()) if codec.isDefined() else None

    def has_stopped(self) -> bool:
        """Whether Spark has stopped, or is about to. True if the JVM is gone."""
        return _call_jvm(self._context.isStopped) is not False

    def ends_with_python(self) -> bool:
        """Whether Spark ends when this Python does, because this Python started it, or spark-submit started both.

        A notebook server may give several Pythons one Spark, which goes on.
        """
        if getattr(self._python_context._gateway, "proc", None) is not None:
            return True
        command = str(_call_jvm(lambda: self._jvm.java.lang.System.getProperty("sun.java.command")))
        program = Path(getattr(sys.modules["__main__"], "__file__", None) or "").name
        return command.startswith(_SUBMIT) and bool(program) and program in command

    def stop(self) -> None:
        """Stop Spark, unless it has stopped. Its own event log is finished then."""
        if not self.has_stopped():
            _call_jvm(self._python_context.stop)

    def attach(self, folder: Path) -> Listener:
        """Let Spark write an event log into a new folder under `folder`.

        Spark writes from now on what happens, and then kvwal writes what was there before. So an executor that registers
        meanwhile is in both, and counts once.
        """
        conf = self._context.conf().clone()
        for name, value in _EVENT_LOG.items():
            conf.set(name, value)
        uri = self._jvm.java.io.File(str(folder.absolute())).toURI()
        listener = self._jvm.org.apache.spark.scheduler.EventLoggingListener(
            f"{self.identity.app}-{time.time_ns() // 1_000_000}",
            self._context.applicationAttemptId(),
            uri,
            conf,
            self._context.hadoopConfiguration(),
        )
        before = set(folder.iterdir())
        listener.start()
        (path,) = set(folder.iterdir()) - before
        attached = Listener(LocalEventLog(path), self._context, listener)
        with ExitStack() as undo:
            undo.callback(attached.discard)
            self._begin(attached.log, listener)
            undo.pop_all()
        return attached

    def _begin(self, log: LocalEventLog, listener: Any) -> None:
        """Let Spark write to the log, and write what was there before."""
        java = self._jvm.java.lang.System
        runtime = {"Java Version": java.getProperty("java.version"), "Java Home": java.getProperty("java.home")}
        environment = {
            "Event": "SparkListenerEnvironmentUpdate", "JVM Information": runtime, "Spark Properties": self._settings,
        }  # fmt: skip
        begin = [self._start_event, {"Event": "kvwal.Attached"}, environment]
        add_roll(log, 0, begin)  # a log has to name its application, also if the driver is killed now
        bus = self._context.listenerBus()
        bus.addToEventLogQueue(listener)
        # Spark's list of executors is written by another of its listeners, which may be behind.
        _call_jvm(lambda: bus.waitUntilEmpty(LISTED_MS))
        environment |= _call_jvm(self._properties) or {}
        add_roll(log, 0, [*begin, *(_call_jvm(self._profiles) or []), *(_call_jvm(self._executors) or [])])

    def _properties(self) -> dict[str, Any]:
        """What else Spark's event of the settings has: its versions, properties and the classpath, without their secrets."""
        known = self._answer(self._context.statusStore().environmentInfo())
        runtime = known["runtime"]
        return {
            "JVM Information": {
                "Java Version": runtime["javaVersion"],
                "Java Home": runtime["javaHome"],
                "Scala Version": runtime["scalaVersion"],
            },
            "System Properties": self._redaction.settings(dict(known["systemProperties"]), limit=None),
            "Metrics Properties": self._redaction.settings(dict(known["metricsProperties"]), limit=None),
            "Classpath Entries": dict(known["classpathEntries"]),
        }

    def _profiles(self) -> list[dict[str, Any]]:
        """The events of the resource profiles that are there already."""
        return [
            {
                "Event": "SparkListenerResourceProfileAdded",
                "Resource Profile Id": profile["id"],
                "Executor Resource Requests": _amounts(profile["executorResources"]),
                "Task Resource Requests": _amounts(profile["taskResources"]),
            }
            for profile in self._answer(self._context.statusStore().resourceProfileInfo())
        ]

    def _answer(self, value: Any) -> Any:
        """A value of Spark's status store as the REST API writes it, in one call: a call for each setting would take seconds."""
        jackson = self._jvm.com.fasterxml.jackson
        mapper = jackson.databind.ObjectMapper()
        mapper.registerModule(getattr(getattr(jackson.module.scala, "DefaultScalaModule$"), "MODULE$"))
        return json.loads(mapper.writeValueAsString(value))

    def _executors(self) -> list[dict[str, Any]]:
        """The events of the executors that are there already, and of the driver, which has no cores unless it is an executor."""
        executors = self._context.statusStore().executorList(True)
        return [event for executor in map(executors.apply, range(executors.size())) for event in _presence_of(executor)]


def _amounts(resources: dict[str, Any]) -> dict[str, Any]:
    return {name: {"Amount": resource["amount"]} for name, resource in resources.items()}


def _presence_of(executor: Any) -> list[dict[str, Any]]:
    """The events with which an executor appeared, from Spark's summary of it."""
    added, host = executor.addTime().getTime(), executor.hostPort().rpartition(":")[0]
    memory = {
        "Event": "SparkListenerBlockManagerAdded",
        "Block Manager ID": {"Executor ID": executor.id(), "Host": host},
        "Timestamp": added,
        "Maximum Memory": executor.maxMemory(),
    }
    info = {
        "Host": host,
        "Total Cores": executor.totalCores(),
        "Resource Profile Id": executor.resourceProfileId(),
        "Log Urls": _texts(executor.executorLogs()),
        "Attributes": _texts(executor.attributes()),
        "Resources": {
            kind: {"addresses": list(resource.addresses())} for kind, resource in _items(executor.resources())
        },
    }
    start = {
        "Event": "SparkListenerExecutorAdded",
        "Timestamp": added,
        "Executor ID": executor.id(),
        "Executor Info": info,
    }
    excluded = {"Event": f"{_SCHEDULER}ExecutorExcluded", "executorId": executor.id()}
    return [start, memory, *([excluded] if executor.isExcluded() else [])]


def _items(scala_map: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of a map of Scala."""
    entries = scala_map.iterator()
    while entries.hasNext():
        entry = entries.next()
        yield entry._1(), entry._2()


def _texts(scala_map: Any) -> dict[str, str]:
    return dict(_items(scala_map))


def no_driver() -> ConfigError:
    """The error for a session without a driver in this process."""
    return ConfigError(
        "This session has no driver in this process: it is a client of Spark Connect, or it was stopped.",
        hint="Record on the driver, or let Spark write event logs and read them with `kvwal record`.",
    )


def context_of(spark: SparkSession | SparkContext) -> Any:
    """The SparkContext of a session, or `spark` itself if it is one; None for a session without one."""
    return getattr(spark, "_sc", spark if hasattr(spark, "applicationId") else None)


class Listener:
    """A listener on Spark's event log queue, and the event log that it writes."""

    def __init__(self, log: LocalEventLog, context: Any, listener: Any) -> None:
        self.log = log
        self._context = context
        self._listener = listener
        self._posted: int | None = None
        """Events that Spark had posted when it stopped writing them; None while it writes."""

    def halt(self) -> None:
        """Let Spark write no more events; those that it posts from now on count as dropped."""
        bus = _call_jvm(self._context.listenerBus)
        if bus is not None and self._posted is None:
            self._posted = _counter(bus, "numEventsPosted")
            self._remove(bus)

    def detach(self) -> int:
        """Let Spark write the events queued so far, then stop the listener. Returns how many events were dropped."""
        bus = _call_jvm(self._context.listenerBus)
        if bus is None:
            return 0
        if self._posted is not None:
            return _counter(bus, _DROPPED) + max(0, _counter(bus, "numEventsPosted") - self._posted)
        _call_jvm(lambda: bus.waitUntilEmpty(DRAIN_MS))
        self._remove(bus)
        return _counter(bus, _DROPPED)

    def discard(self) -> None:
        """Undo `Driver.attach`, because the recording does not begin after all: Spark writes no more, and the log is deleted."""
        self.halt()
        shutil.rmtree(self.log.path, ignore_errors=True)

    def _remove(self, bus: Any) -> None:
        _call_jvm(lambda: bus.removeListener(self._listener))
        _call_jvm(self._listener.stop)


def _counter(bus: Any, name: str) -> int:
    """A counter of Spark's listener bus; 0 if the JVM is gone."""
    return int(_call_jvm(lambda: bus.metrics().metricRegistry().counter(name).getCount()) or 0)


def _call_jvm(call: Callable[[], Any]) -> Any:
    """The result of a call to the JVM; None if the JVM fails or is gone, since the log on the disk is enough to go on."""
    from py4j.protocol import Py4JError

    try:
        return call()
    except (Py4JError, OSError) as error:
        _log.warning("Spark did not answer the recorder: %s", error)
        return None
