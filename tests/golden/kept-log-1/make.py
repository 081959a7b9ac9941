"""Writes the file beside it: the log of tests/golden/event-log, kept in version 1, with small frames and several indexes.

It was run once. The file stays as it is: later versions of kvwal must read what this version wrote.
"""

from __future__ import annotations

from pathlib import Path

import zstandard

from kvwal.spark.kept.writer import KeptLogWriter

FRAME_BYTES, MOST_LINES = 10_000, 4


def main() -> None:
    """Write the file."""
    folder = Path(__file__).parent
    (log,) = (folder.parent / "event-log").iterdir()
    with (folder / log.name).open("wb") as out:
        writer = KeptLogWriter(out, FRAME_BYTES, MOST_LINES)
        writer.write(zstandard.ZstdDecompressor().stream_reader(log.read_bytes(), read_across_frames=True).read())
        writer.close()


if __name__ == "__main__":
    main()
