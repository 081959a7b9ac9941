"""A program that moves the records of finished applications to the shared node.

python -m tests.support.programs.merging ROOT
"""

from __future__ import annotations

import sys
from pathlib import Path

from kvwal.spark.recording.nodes import RecorderRoot, merge_finished


def main() -> None:
    """Merge, and print how many nodes were merged."""
    merged = merge_finished(RecorderRoot(Path(sys.argv[1]), "default", "local"), lambda done, total, what: None)
    print(0 if merged is None else len(merged.nodes))


if __name__ == "__main__":
    main()
