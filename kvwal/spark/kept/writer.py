"""The writer of a kept log: the bytes of an event log in, frames and their index out."""

from __future__ import annotations

import hashlib

from kvwal.spark.eventlog.lines import MAX_LINE
from kvwal.spark.kept import frames
from kvwal.spark.kept.contents import Output
from kvwal.spark.kept.frames import FRAME_BYTES, Directory, FrameSizes, IndexPlace
from kvwal.spark.kept.stage_index import MOST_LINES, IndexBuilder
from kvwal.spark.kept.task_lines import stage_of


class KeptLogWriter:
    """The writer of one kept log. The same log gives the same bytes.

    Memory: a frame, at most one line of `MAX_LINE`, and one index. A longer line is kept, and is in no index: readers of event
    logs take it for damaged.
    """

    def __init__(self, out: Output, frame_bytes: int = FRAME_BYTES, most_lines: int = MOST_LINES) -> None:
        """`frame_bytes`: the least log bytes of a frame. `most_lines`: those of an index."""
        self._out = out
        self._frame_bytes = frame_bytes
        self._compressor = frames.compressor()
        self._hash = hashlib.sha256()
        self._index = IndexBuilder(most_lines)
        self._sizes: list[FrameSizes] = []
        self._places: list[IndexPlace] = []
        self._written = 0
        self._pending = bytearray()
        self._searched = 0  # bytes of `_pending` in which no frame ends
        self._start = 0  # the offset in the log of the first pending byte
        self._lines = self._task_lines = 0
        self._is_cut = False  # the first pending byte is not the first one of its line

    def write(self, data: bytes) -> None:
        """Append bytes of the log."""
        self._hash.update(data)
        self._pending += data
        while len(self._pending) >= self._frame_bytes:
            end = self._pending.find(b"\n", max(self._frame_bytes - 1, self._searched)) + 1
            if end:
                self._write_frame(end)
            elif len(self._pending) > MAX_LINE + self._frame_bytes:
                self._write_frame(len(self._pending))
            else:
                self._searched = len(self._pending)
                return

    def end_line(self) -> None:
        """End a last line that has no end: the next bytes are those of another file of the log."""
        if (self._pending or self._is_cut) and not self._pending.endswith(b"\n"):
            self.write(b"\n")

    def close(self) -> Directory:
        """Write what is pending, the rest of the index, the directory and the seek table. The file stays open."""
        if self._pending:
            self._write_frame(len(self._pending))
        self._write_index()
        directory = Directory(
            frames.VERSION, self._start, self._lines, self._task_lines, self._hash.hexdigest(), self._places
        )
        self._append(frames.directory_frame(directory), 0)
        self._out.write(frames.seek_table_frame(self._sizes))
        return directory

    def _write_frame(self, size: int) -> None:
        data = bytes(memoryview(self._pending)[:size])
        del self._pending[:size]
        self._searched = 0
        self._append(self._compressor.compress(data), size)
        self._index_lines(data)
        self._start += size

    def _index_lines(self, data: bytes) -> None:
        """Index the lines of a frame. The last one has an end, unless the log ends without, or the line is too long."""
        at = 0
        if self._is_cut:
            at = data.find(b"\n") + 1
            self._lines += at > 0
            self._is_cut = not at
            if not at:
                return
        while at < len(data):
            end = data.find(b"\n", at)
            if end < 0:
                self._is_cut = True
                end = len(data)
            else:
                self._lines += 1
            if end - at <= MAX_LINE and (of := stage_of(data[at:end])) is not None:
                self._index.add(of, self._start + at)
                self._task_lines += 1
                if self._index.is_full:
                    self._write_index()
            at = end + 1

    def _write_index(self) -> None:
        if self._index.lines:
            data, first, last = self._index.take()
            frame = frames.skippable(data)
            self._places.append(IndexPlace(self._written, len(frame), first, last))
            self._append(frame, 0)

    def _append(self, frame: bytes, log_bytes: int) -> None:
        self._out.write(frame)
        self._sizes.append(FrameSizes(len(frame), log_bytes))
        self._written += len(frame)
