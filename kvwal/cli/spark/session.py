"""The Spark session of a command with --spark."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kvwal import errors
from kvwal.errors import ArchiveError, ConfigError, KvwalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMITTED = "submitted"
"""The word instead of a master: spark-submit runs the command, and says where."""

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
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        spark = _started(master)
    except (PySparkException, Py4JError) as error:
        raise ConfigError(
            f"no Spark session on {master}: {_first_line(error)}.",
            hint="Check the master's address, that it runs, and that Java is there (JAVA_HOME).",
        ) from error
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise _told_by_task(master, error) from error
    finally:
        spark.stop()


def _started(master: str) -> SparkSession:
    from pyspark.sql import SparkSession

    if master.startswith("local"):
        # The workers are of this machine: they need this Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
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
        if module in ("archive.errors", "kvwal.errors") and isinstance(found, type) and issubclass(found, KvwalError):
            return found(sentence)
    return ArchiveError(f"Spark on {master} failed: {_first_line(error)}.", hint="Run it again; Spark's log says more.")
