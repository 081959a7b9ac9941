"""`kvwal submit` records an application that knows nothing of kvwal, by a real spark-submit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kvwal
from kvwal.spark import queries
from tests.support.spark import SETTINGS, environment

ROOT = Path(__file__).resolve().parent.parent.parent.parent
KVWAL = Path(sys.executable).with_name("kvwal")
APPLICATION = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.appName("untouched").getOrCreate()
assert spark.range(0, 10, 1, 2).collect()[int(sys.argv[1])].id == int(sys.argv[1])
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("ends", "code", "status"),
    [
        ("spark.stop()", 0, "SUCCEEDED"),
        # The watch of a program that kvwal does not run sees no code here.
        ("raise SystemExit(3)", 3, "FAILED"),
        # An application that records itself is recorded once.
        ("import kvwal.spark; kvwal.spark.record(spark); raise ValueError('wrong')", 1, "FAILED"),
    ],
)
def test_an_application_that_knows_nothing_of_kvwal_is_recorded(
    ends: str, code: int, status: str, tmp_path: Path
) -> None:
    program = tmp_path / "app.py"
    program.write_text(APPLICATION + ends)
    settings = [word for setting in SETTINGS.items() for word in ("--conf", "=".join(setting))]
    ran = subprocess.run(
        [str(KVWAL), "submit", "--archive", "none", "data", "--master", "local[2]", *settings, str(program), "7"],
        env=environment(ROOT), cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == code, ran.stderr
    assert "not recorded" not in ran.stderr
    with kvwal.open(tmp_path / "data", read_only=True) as store:
        (recorded,) = queries.applications(store.map("spark"))
    assert (recorded.app.name, recorded.app.status, recorded.app.jobs) == ("untouched", status, 1)
    assert (recorded.app.status_from, recorded.app.exit_code) == ("python", code)
    assert not (tmp_path / "data" / "_spark").exists()
    assert not (tmp_path / "data" / "_archive").exists()
