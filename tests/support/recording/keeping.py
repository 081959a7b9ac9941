"""A real driver whose recorder keeps Spark's event log, as a process of its own, and what it kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zstandard

import kvwal
from kvwal.spark.kept.contents import KEPT_LOGS
from tests.repository.source import ROOT
from tests.support.recording.stepped import SteppedDriver, stepped_process

PROGRAM = """
import json, logging, sys
from pyspark.sql import functions as f
from kvwal.spark import JobRecorder, record
from kvwal.spark.kept import keeping
from tests.support.spark import LARGE, session
logging.basicConfig()
logging.getLogger("kvwal").setLevel(logging.INFO)
location, options, settings = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
spark = session("keeping", **settings)
context = spark.sparkContext
print(context.applicationId, flush=True)
def work(description=None):
    context.setJobDescription(description)
    spark.range(0, 100, 1, 4).groupBy((f.col("id") % 3).alias("k")).count().collect()
def fail():
    spark.range(4).select(f.udf(lambda n: 1 // n)("id")).collect()
def stop_here():
    print("here", flush=True)
    sys.stdin.readline()
def tell(recorder):
    print(json.dumps(recorder.stats()), flush=True)
def recorder():
    return JobRecorder(spark, location, keep_logs=True, strict=True, **options)
"""
"""Begins an application. What follows says what its recorder records, and how it ends."""


class KeepingDriver(SteppedDriver):
    """The application. Its event log is the only one under `logs`."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        super().__init__(process, folder)
        self.logs = folder / "logs"

    @property
    def log(self) -> Path:
        """The file or folder of its event log."""
        (path,) = self.logs.iterdir()
        return path


@contextmanager
def keeping_driver(
    ends: str, location: str | Path, folder: Path, options: Mapping[str, Any] | None = None, **settings: str
) -> Iterator[KeepingDriver]:
    """An application that is recorded into `location` with these `options`, and whose `settings` begin with `spark.`."""
    (folder / "logs").mkdir(parents=True)
    defaults = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (folder / "logs").as_uri()}
    words = [
        "-c", PROGRAM + ends, str(location),
        json.dumps({"archive": None} if options is None else options), json.dumps(defaults | settings),
    ]  # fmt: skip
    with stepped_process(words, folder) as process:
        yield KeepingDriver(process, folder)


def kept_in(contents: Any) -> dict[str, tuple[dict[str, str], bytes]]:
    """The kept logs among contents: attributes and bytes by name."""
    return {content.name: (dict(content.attributes), contents.get(content.name)) for content in contents.list("")}


def kept(root: Path) -> dict[str, tuple[dict[str, str], bytes]]:
    """The kept logs under a root."""
    with kvwal.open(root, read_only=True) as store:
        return kept_in(store.content(KEPT_LOGS)) if KEPT_LOGS in store.businesses() else {}


def kept_lines(root: Path) -> dict[str, bytes]:
    """The kept logs under a root, decompressed, by name."""
    return {name: decompressed(data) for name, (_, data) in kept(root).items()}


def decompressed(data: bytes) -> bytes:
    """The lines of a kept log."""
    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()


STAND_IN = """
import logging, sys
from pathlib import Path
from kvwal.spark.recording import recorder
from tests.support.recording.driver import LoggingDriver
logging.basicConfig(level=logging.INFO)
driver = LoggingDriver(Path(sys.argv[2]), ends_with_python=sys.argv[3] == "owned")
if sys.argv[4:]:
    driver.event_log = lambda: sys.argv[4]
recorder.Driver = lambda spark: driver
recording = recorder.JobRecorder(None, sys.argv[1], archive=None, keep_logs=True, strict=True).start()
"""
"""A program with a stand-in for Spark: `ROOT FOLDER owned|shared [PLACE]`. Spark ends with the program if it is `owned`."""


def run_stand_in(ends: str, *arguments: object, code: int = 0, **environment: str) -> str:
    """Run `STAND_IN` with this end, recorded into a root, with a folder for its log; what it logged."""
    ran = subprocess.run(
        [sys.executable, "-c", STAND_IN + ends, *map(str, arguments)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'archive'}", **environment},
    )  # fmt: skip
    assert ran.returncode == code, ran.stderr
    return ran.stderr
