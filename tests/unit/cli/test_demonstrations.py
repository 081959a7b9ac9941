"""The demonstrations of `make run` and `make run-cluster` delete what they made before, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.source import ROOT


@pytest.mark.parametrize("name", ["run.py", "run_cluster.py"])
def test_a_folder_with_other_files_is_refused_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == f"{tmp_path} is not empty, and no demonstration made it. Name a new folder.\n"
    assert list(tmp_path.iterdir()) == [archive]


def test_the_next_run_deletes_what_a_run_made(tmp_path: Path) -> None:
    code = "from terminal import empty_folder; print(empty_folder('none'))"
    home = tmp_path / "demo"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code, str(home)], cwd=ROOT / "examples", check=True)
        [mark] = home.iterdir()
        assert "its next run deletes it" in mark.read_text()
        (home / "root").mkdir()
