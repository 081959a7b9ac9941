"""The Spark session of a command with --spark."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kvwal import errors
from kvwal.errors import ArchiveError, ConfigError, KvwalError
from kvwal.ports.children.interpreter import interpreter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMITTED = "submitted"
"""The word instead of a master: spark-submit runs the command, and says where."""

_STANDALONE = "spark://"
_ANSWER_SECONDS = 5.0

SparkMaster = Annotated[
    str | None,
    typer.Option(
        "--spark",
        metavar="MASTER",
        help="Let Spark do it, with many workers: local[4], spark://host:7077, yarn …; 'submitted' under spark-submit.",
    ),
]


@contextmanager
def spark_session(master: str) -> Iterator[SparkSession]:
    """A session on this master, stopped at the end.

    Raises ConfigError if pyspark or Java is missing or the master cannot be reached. What a task finds wrong is raised as a
    KvwalError with the task's sentence.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise ConfigError("--spark needs pyspark.", hint="Install what Spark needs: pip install 'kvwal[spark]'.")
    _check_answers(master)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        spark = _started(master)
    except (PySparkException, Py4JError) as error:
        raise ConfigError(
            f"no Spark session on {master}: {_why_not(error)}.",
            hint="Check the master's address, that it runs, and that Java is there (JAVA_HOME).",
        ) from error
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise _told_by_task(master, error) from error
    finally:
        spark.stop()


def _check_answers(master: str) -> None:
    """Raise ConfigError if no master of a standalone cluster answers. Spark itself would try for more than a minute."""
    if not master.startswith(_STANDALONE):
        return
    told = []
    for address in master.removeprefix(_STANDALONE).split(","):
        why = _why_silent(address)
        if why is None:
            return
        told.append(f"{address} ({why})")
    raise ConfigError(
        f"no Spark master answers on {', '.join(told)}.",
        hint="Check the address, which is spark://host:7077 unless the port was changed, and that the master runs.",
    )


def _why_silent(address: str) -> str | None:
    """Why no connection to `host:port` can be made; None if one was made."""
    host, _, port = address.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        return "this is no host:port"
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS).close()
    except UnicodeError:
        return "this is no name of a host"
    except OSError as error:
        return error.strerror or str(error)
    return None


def _why_not(error: BaseException) -> str:
    """Why there is no session. Spark stops its context when the master refuses, and then complains of the stopped context."""
    if "stopped SparkContext" in str(error):
        return "the master did not take the application, or cannot reach this machine"
    return _first_line(error)


def _started(master: str) -> SparkSession:
    from pyspark.sql import SparkSession

    if master.startswith("local"):
        # The workers are of this machine: they need this Python.
        os.environ.setdefault("PYSPARK_PYTHON", interpreter())
    builder = SparkSession.builder.appName("kvwal").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.log.level", "OFF")
    return (builder if master == SUBMITTED else builder.master(master)).getOrCreate()


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if "Exception" in line or "Error" in line), lines[0] if lines else "")
    return told.strip(" :.")


def _told_by_task(master: str, error: BaseException) -> KvwalError:
    """The error of the archive that a task raised, without Spark's and Python's trace of it; else one with Spark's first line."""
    for line in str(error).splitlines():
        name, _, sentence = line.strip().partition(": ")
        module, _, kind = name.rpartition(".")
        found = getattr(errors, kind, None)
        if (
            module in ("kvwal_archive.errors", "kvwal.errors")
            and isinstance(found, type)
            and issubclass(found, KvwalError)
        ):
            return found(sentence)
    return ArchiveError(f"Spark on {master} failed: {_first_line(error)}.", hint="Run it again; Spark's log says more.")
