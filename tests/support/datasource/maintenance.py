"""Maintenance of an archive by two executors of a standalone cluster, of which a task kills one, or the driver.

Arguments: what to do, whom to kill, and a folder with the archive `archive`. A restore goes into `root` there.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import isgeneratorfunction
from pathlib import Path
from typing import Any

import kvwal.spark
import kvwal_archive.spark
from tests.support.archive.history import PLACE
from tests.support.recording.truth import start_cluster
from tests.support.spark import session

WHERE = {"namespace": PLACE.namespace, "cluster": PLACE.cluster, "business": PLACE.business}
KEPT_MS = 1 << 41
TASKS = {"rewrite": ("maintenance", "_compact"), "base": ("bases", "_put"), "restore": ("restore", "_scan")}
"""The module of `kvwal_archive.spark`, and the function that each of its tasks calls."""


def killing(task: Callable[..., Any], victims: list[int], once: Path) -> Callable[..., Any]:
    """The task. The first one that has done its work kills these processes; without any, the JVM of its own executor."""

    def kill() -> None:
        try:
            once.touch(exist_ok=False)
        except FileExistsError:
            return
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        for pid in victims or [int(daemon.rpartition(")")[2].split()[1])]:
            os.kill(pid, signal.SIGKILL)
        signal.pause()

    def done(*arguments: Any) -> Any:
        result = task(*arguments)
        kill()
        return result

    def given(*arguments: Any) -> Any:
        yield from task(*arguments)
        kill()

    return given if isgeneratorfunction(task) else done


def main(what: str, whom: str, folder: Path) -> None:
    """Do it once, with one kill."""
    master = start_cluster(folder)
    spark = session("maintenance", **{
        "spark.master": master, "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2",
    })  # fmt: skip
    driver = [spark.sparkContext._gateway.proc.pid, os.getpid()]
    module, name = import_module(f"kvwal_archive.spark.{TASKS[what][0]}"), TASKS[what][1]
    task = killing(getattr(module, name), driver if whom == "driver" else [], folder / f"killed-{whom}")
    setattr(module, name, task)
    url = str(folder / "archive")
    if what == "rewrite":
        kvwal_archive.spark.rewrite(spark, url, **WHERE, history_ms=KEPT_MS, force=True)
    elif what == "base":
        kvwal_archive.spark.base(spark, url, **WHERE)
    else:
        kvwal.spark.restore(spark, url, str(folder / "root"), namespace=WHERE["namespace"], cluster=WHERE["cluster"])
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
