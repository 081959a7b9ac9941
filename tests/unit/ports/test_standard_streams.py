"""Files that are opened while standard streams are closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from pathlib import Path
from kvwal.ports.disk import OsDisk
disk = OsDisk()
made = disk.create(Path(sys.argv[1]))
made.write_at(0, [b"log"])
os.system("echo the last words >&2; echo more >&1")
made.write_at(3, [b"ged"])
made.close()
again = disk.open(Path(sys.argv[1]))
for number in (0, 1, 2):
    try:
        os.write(number, b"last words")
    except OSError:
        pass
again.close()
"""


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_no_file_is_a_standard_stream(tmp_path: Path, closed: str) -> None:
    """Else the last words of a C library, which it writes to descriptor 2, would go into the log."""
    shell = f'exec "$0" -c "$1" "$2" {closed}'
    subprocess.run(["sh", "-c", shell, sys.executable, PROGRAM, tmp_path / "file"], check=True)
    assert (tmp_path / "file").read_bytes() == b"logged"
