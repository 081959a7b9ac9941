"""The index of task events: for each stage attempt, where in the log the lines of its tasks begin.

A log has one index for each `MOST_LINES` task events, or `MOST_STAGES` stage attempts. So memory is bounded for a log of any
length, and a question about one stage reads only the indexes whose stages may include it.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator

from kvwal.spark.kept.frames import DamagedKeptLog, FrameDecompressor, compressor
from kvwal.spark.kept.task_lines import StageAttempt

MOST_LINES = 1 << 18
MOST_STAGES = 1 << 15
_HEAD = 2
"""Numbers before the columns: how many stage attempts there are, and how many lines."""
_NUMBER = 8
_MOST_NUMBERS = _HEAD + 3 * MOST_STAGES + MOST_LINES


class IndexBuilder:
    """The index of the task events since the last one."""

    def __init__(self, most_lines: int = MOST_LINES) -> None:
        self._most_lines = most_lines
        self._compressor = compressor()
        self._starts: dict[StageAttempt, array[int]] = {}
        self.lines = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time for `take`: one more line might be too much."""
        return self.lines >= self._most_lines or len(self._starts) >= MOST_STAGES

    def add(self, of: StageAttempt, start: int) -> None:
        """Add the line of a task event that begins at this offset of the log."""
        starts = self._starts.get(of)
        if starts is None:
            starts = self._starts[of] = array("q")
        starts.append(start)
        self.lines += 1

    def take(self) -> tuple[bytes, int, int]:
        """The index, with its first and its last stage, and begin anew. There is at least one line."""
        order = sorted(self._starts)
        numbers = array("q", [len(order), self.lines])
        numbers.extend(of.stage for of in order)
        numbers.extend(of.attempt for of in order)
        numbers.extend(len(self._starts[of]) for of in order)
        for of in order:
            numbers.extend(self._starts[of])
        self._starts, self.lines = {}, 0
        return self._compressor.compress(_little_endian(numbers).tobytes()), order[0].stage, order[-1].stage


class StageIndex:
    """One index, as a reader has it."""

    def __init__(self, data: bytes) -> None:
        """`DamagedKeptLog` if these are not the bytes of an index."""
        text = FrameDecompressor().data(data, _NUMBER * _MOST_NUMBERS)
        numbers = array("q")
        numbers.frombytes(text[: len(text) // _NUMBER * _NUMBER])
        numbers = _little_endian(numbers)
        stages, lines = numbers[:_HEAD] if len(numbers) >= _HEAD else (0, -1)
        if len(numbers) != _HEAD + 3 * stages + lines:
            raise DamagedKeptLog("an index has not the numbers that it counts")
        columns = [numbers[_HEAD + part * stages : _HEAD + (part + 1) * stages] for part in range(3)]
        self._stages, self._attempts, self._counts = columns
        self._starts = numbers[_HEAD + 3 * stages :]

    def attempts(self, stage: int) -> Iterator[tuple[StageAttempt, array[int]]]:
        """The attempts at a stage, each with the offsets at which the lines of its task events begin."""
        number = bisect_left(self._stages, stage)
        first = sum(self._counts[:number])
        while number < len(self._stages) and self._stages[number] == stage:
            count = self._counts[number]
            yield StageAttempt(stage, self._attempts[number]), self._starts[first : first + count]
            first, number = first + count, number + 1

    def __iter__(self) -> Iterator[tuple[StageAttempt, int]]:
        """All stage attempts, in order, each with the number of its lines."""
        for stage, attempt, count in zip(self._stages, self._attempts, self._counts, strict=True):
            yield StageAttempt(stage, attempt), count


def _little_endian(numbers: array[int]) -> array[int]:
    """The numbers with the bytes of each in the order of the format."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
