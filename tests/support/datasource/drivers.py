"""Drivers in processes of their own: the programs of this folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.repository.source import ROOT
from tests.support.spark import environment


def drive(program: str, folder: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, in a folder, with these variables in its environment. Its output is kept."""
    words = [sys.executable, "-m", f"tests.support.datasource.{program}", *map(str, arguments)]
    return subprocess.run(
        words, env=environment(ROOT) | variables, cwd=folder, capture_output=True, text=True, check=False
    )
