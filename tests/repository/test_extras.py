"""Without any extra, every command that needs none of their packages works, and the others say what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.source import ROOT
from tests.support.deploy.without_extras import hidden_packages

EVENT_LOGS = ROOT / "tests" / "golden" / "event-log"
NODE = ["node", "data", "--node", "a", "--address", "localhost:5701", "--members", "localhost:5701"]


def kvwal(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`kvwal WORD…` in a process that finds no package of an extra."""
    line = [sys.executable, "-m", "tests.support.deploy.without_extras", *words]
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": f"{ROOT}:{ROOT}/archive",
        "HOME": str(folder),
        "COLUMNS": "200",
    }
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_packages_of_the_extras_are_hidden() -> None:
    hidden = hidden_packages()
    assert {"hazelcast", "jpype", "prometheus_client", "starlette", "uvicorn", "pyspark", "pandas", "pytest"} <= hidden
    assert not {"kvwal", "kvwal_archive", "duckdb", "pyarrow", "pytz", "typer", "rich", "s3fs"} & hidden


def test_a_folder_needs_no_extra(tmp_path: Path) -> None:
    commands = [
        ["put", "data", "notes", "a", "1"],
        ["record", "data", str(EVENT_LOGS)],
        ["jobs", "data"],
        ["query", "data", "SELECT app, status FROM spark_apps"],
        ["archive", "run", "data"],
        ["doctor", "data"],
    ]
    for words in commands:
        ran = kvwal(tmp_path, *words)
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
        assert ran.stdout, words


@pytest.mark.parametrize(
    "words",
    [["jobs", "kvwal://localhost:5701"], NODE, ["record", "data", "logs", "--follow", "--http", "localhost:8080"]],
)
def test_a_command_that_needs_the_cluster_says_what_to_install(tmp_path: Path, words: list[str]) -> None:
    ran = kvwal(tmp_path, *words)
    assert ran.returncode == 2, ran.stderr
    assert "pip install 'kvwal[cluster]'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_command_with_spark_says_what_to_install(tmp_path: Path) -> None:
    assert kvwal(tmp_path, "put", "data", "notes", "a", "1").returncode == 0
    assert kvwal(tmp_path, "archive", "run", "data").returncode == 0
    for words in (["archive", "base", "data"], ["restore", "data/_archive", "copy"]):
        ran = kvwal(tmp_path, *words, "--spark", "local[1]")
        assert ran.returncode == 2, ran.stderr
        assert "pip install 'kvwal[spark]'" in ran.stderr
        assert "Traceback" not in ran.stderr
