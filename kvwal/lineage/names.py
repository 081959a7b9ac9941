"""The names of all data sets of a graph, to be searched for a text again and again."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from kvwal.spark.lineage.names import DatasetName

_BETWEEN = re.compile(r"[\n\0]")


class DatasetNames:
    """Names, sorted. A search goes through one text that has them all, which takes milliseconds for a hundred thousand."""

    def __init__(self, names: Iterable[DatasetName]) -> None:
        self.all: Sequence[DatasetName] = sorted(names)
        lines = [_line(name) for name in self.all]
        self._text = "".join(lines)
        self._begins = array("Q", accumulate(map(len, lines), initial=0))

    def matching(self, text: str) -> Sequence[DatasetName]:
        """The names that have a text in their place or in their table, in capital letters or small ones."""
        wanted = text.lower()
        if not wanted:
            return self.all
        if _BETWEEN.search(wanted):
            return [name for name in self.all if wanted in name.text.lower() or wanted in name.table.lower()]
        found = re.finditer(re.escape(wanted) + "[^\n]*", self._text)
        return [self.all[bisect_right(self._begins, match.start()) - 1] for match in found]


def _line(name: DatasetName) -> str:
    """Place and table in a line of their own, with a zero between them: no text that is sought is found across the two."""
    return "\0".join(part.lower().replace("\n", "\0") for part in (name.text, name.table)) + "\n"
