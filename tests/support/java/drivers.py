"""The JVMs of the Spark drivers that tests start: small, and with a class-data archive of Spark's jars.

Spark hands the variable `SPARK_SUBMIT_OPTS` to the JVM of each driver on the machine, in this process or in one of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from tests.repository.source import ROOT
from tests.support.java.class_data import java_options

VARIABLE = "SPARK_SUBMIT_OPTS"
JAVA_OPTIONS = [
    # A driver of a test lives for seconds: Java's quick compiler and the collector of one thread take a third off its time.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # Drivers print what tests read: the JVM does not say there that it maps no archive.
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
]
FILL = """
import sys
from pathlib import Path
from pyspark import SparkContext
from kvwal.spark import JobRecorder
from tests.support.spark import session, work
folder = Path(sys.argv[1])
(folder / "logs").mkdir()
spark = session("fill", **{"spark.eventLog.enabled": "true", "spark.eventLog.dir": (folder / "logs").as_uri()})
with JobRecorder(spark, folder / "root"):
    work(spark, folder / "data")
    spark.stop()
jvm = SparkContext._gateway.proc
jvm.stdin.close()
jvm.wait()
"""
"""An application that does a little of everything, and waits until its JVM has ended."""


def prepare_drivers() -> None:
    """Set the options of the JVMs of drivers in this process's environment, unless they are set."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = " ".join([*JAVA_OPTIONS, *_class_data()])


def _class_data() -> list[str]:
    """Options that map the archive, if Spark's Java has one."""
    home = _java_home()
    jars = sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))
    return [] if home is None else java_options("spark", home, jars, _fill_class_data)


def _java_home() -> Path | None:
    """The folder of the Java that Spark takes."""
    given, program = os.environ.get("JAVA_HOME"), shutil.which("java")
    if given:
        return Path(given)
    return Path(program).resolve().parents[1] if program else None


def _fill_class_data(options: list[str]) -> None:
    """Run an application. If it fails there is no archive, and the tests that fail for the same reason say it."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: " ".join([*JAVA_OPTIONS, *options])}
        subprocess.run(
            [sys.executable, "-c", FILL, folder], env=environment, cwd=folder, check=False, capture_output=True
        )
