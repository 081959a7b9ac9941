"""Workers of Spark that run another Python than the program: named before the first read, if they cannot import kvwal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pyspark.sql import SparkSession
import kvwal.spark
from kvwal.errors import ConfigError
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    kvwal.spark.register(spark)
    print("registered")
except ConfigError as error:
    print(error)
"""


@pytest.mark.long
def test_workers_without_kvwal_are_told_before_the_first_read(tmp_path: Path) -> None:
    """The Python of a virtual environment that is not activated: `python3` of the PATH has no libraries."""
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E -s "$@"\n')
    bare.chmod(0o755)
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON"))}
    path = f"{tmp_path}:{environment['PATH']}"
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env={**environment, "PATH": path}, capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    assert told.startswith(
        f"the workers of this Spark session run {bare}, which cannot import kvwal (ModuleNotFoundError: No module named"
    )
    assert f"this program runs {sys.executable}. Set PYSPARK_PYTHON={sys.executable} before" in told
    named = {**environment, "PATH": path, "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=named, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "registered\n"
