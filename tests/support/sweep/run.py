"""The whole sweep of `tests/crash/test_sweep.py`: every call, in every mode; a quarter of an hour.

python -m tests.support.sweep.run [--report PAGE]

PAGE gets the figures, between its marks. Exit code 1, and no figures, if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from tests.simulation.run import write_report

TEST = "tests/crash/test_sweep.py"
HOW = {
    "program": "the program is killed",
    "archiver": "the archiver's process is killed",
    "both": "both are killed",
    "orphan": "the program is killed, and its archiver goes on when somebody else has taken over",
    "EIO": "the call fails with `EIO`",
    "ENOSPC": "the call fails with `ENOSPC`",
}


def figures(found: dict[str, dict[str, int]]) -> str:
    """How many points each mode covered, as a page shows it."""
    total = sum(sum(kinds.values()) for kinds in found.values())
    lines = [
        f"{date.today()}: {total:,} points, nothing was lost.",
        "",
        "| at each of these calls | points | of them |",
        "|---|---|---|",
    ]
    for mode, how in HOW.items():
        kinds = sorted(found[mode].items(), key=lambda kind: -kind[1])
        lines.append(
            f"| {how} | {sum(found[mode].values())} | {', '.join(f'{count} {name}' for name, count in kinds)} |"
        )
    return "\n".join(lines)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.sweep.run", description="Sweeps every call in every mode."
    )
    parser.add_argument("--report", type=Path, help="the page that gets the figures")
    page = parser.parse_args().report
    with tempfile.TemporaryDirectory(prefix="kvwal-sweep-") as folder:
        command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", TEST]
        if subprocess.run(command, env={**os.environ, "KVWAL_SWEEP": folder}, check=False).returncode:
            return 1
        text = figures({mode: json.loads(Path(folder, f"{mode}.json").read_text()) for mode in HOW})
    print(text)
    if page:
        write_report(page, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
