"""A look at the Python of Spark's workers before the first read: they run the data source, and need kvwal and its libraries."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from kvwal.errors import ConfigError
from kvwal.ports.children.probe import why_not

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MODULE = "kvwal.spark.datasource.source"


def check_workers(spark: SparkSession) -> None:
    """Raise `ConfigError` if the workers of this session run a Python that cannot import kvwal.

    Only a session whose workers are of this machine can be looked at: a local master. Spark takes `python3` of the PATH where
    PYSPARK_PYTHON names no other one, also in a program of a virtual environment that is not activated.
    """
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none
    if context is None or not context.master.startswith("local"):
        return
    python = shutil.which(context.pythonExec) or context.pythonExec
    if python == sys.executable or (reason := why_not(python, _MODULE)) is None:
        return
    raise ConfigError(
        f"the workers of this Spark session run {python}, which cannot import kvwal ({reason}); this program runs"
        f" {sys.executable}.",
        hint=f"Set PYSPARK_PYTHON={sys.executable} before the session starts, or activate its virtual environment.",
    )
