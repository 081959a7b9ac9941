"""What was told of runs, in columns: which data sets each of them read and wrote, and which runs use a data set.

A graph has hundreds of thousands of runs, and a walk sees few of them. As objects they took a hundred megabytes, and twice that
while a console makes the next graph. A column is an array of numbers, or a list of texts of which equal ones are one object.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from kvwal.spark.lineage.edges import Edges
from kvwal.spark.lineage.names import DatasetName

_NONE = -1


class ToldRuns:
    """Rows, each of them what was told of a run at one time, by their numbers. `finish` is called once, when all are there."""

    def __init__(self) -> None:
        self.names: list[DatasetName] = []
        """The names that were told, each once. Its place here is its number."""
        self._numbers: dict[DatasetName, int] = {}
        self._reads, self._writes = _Uses(), _Uses()
        self._sources: list[str] = []
        self._owners: list[str] = []
        self._processes: list[str] = []
        self._titles: list[str] = []
        self._statuses: list[str] = []
        self._at: list[int] = []
        self._first = array("i")
        self._next = array("i")
        self._last: dict[str, dict[str, int]] = {}
        self._texts: dict[str, str] = {}

    def add(self, source: str, found: Iterable[tuple[str, Edges]]) -> None:
        """Add rows, each with the owner of its run. Rows of one owner and one process are of one run."""
        same, number_of = self._texts.setdefault, self._number_of
        for row, (owner, edges) in enumerate(found, len(self._owners)):
            process = same(edges.process, edges.process)
            self._owners.append(same(owner, owner))
            self._processes.append(process)
            self._titles.append(same(edges.title, edges.title))
            self._statuses.append(same(edges.status, edges.status))
            self._at.append(edges.at)
            self._reads.add([number_of(name) for name in edges.reads])
            self._writes.add([number_of(name) for name in edges.writes])
            self._join(row, owner, process)
        self._sources += [source] * (len(self._owners) - len(self._sources))

    def add_name(self, name: DatasetName) -> None:
        """Add a data set that no run has read or written yet."""
        self._number_of(name)

    def finish(self) -> None:
        """Free what only `add` needs."""
        self._last, self._texts = {}, {}

    def _number_of(self, name: DatasetName) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = len(self.names)
            namespace, table = (self._texts.setdefault(text, text) for text in (name.namespace, name.table))
            self.names.append(name := DatasetName(namespace, name.name, table))
            self._numbers[name] = number
            self._reads.last.append(_NONE)
            self._writes.last.append(_NONE)
        return number

    def _join(self, row: int, owner: str, process: str) -> None:
        """Make a row the next one of its run."""
        runs = self._last.setdefault(owner, {})
        before = runs.get(process)
        runs[process] = row
        self._first.append(row if before is None else self._first[before])
        self._next.append(_NONE)
        if before is not None:
            self._next[before] = row

    def rows_of_run(self, row: int) -> Iterator[int]:
        """All rows of the run that a row is of, in order. The first of them stands for the run."""
        row = self._first[row]
        while row != _NONE:
            yield row
            row = self._next[row]

    def runs_beside(self, name: DatasetName, *, up: bool) -> list[int]:
        """The rows that stand for the runs that write a data set (`up`), or read it: in order, some of them repeatedly."""
        if (number := self._numbers.get(name)) is None:
            return []
        return [self._first[row] for row in (self._writes if up else self._reads).rows(number)]

    def source(self, row: int) -> str:
        """What a row was told by."""
        return self._sources[row]

    def owner(self, row: int) -> str:
        """The owner of the run."""
        return self._owners[row]

    def has_name(self, name: DatasetName) -> bool:
        """Whether this name was told."""
        return name in self._numbers

    def edges(self, row: int) -> Edges:
        """What was told."""
        reads, writes = ([self.names[number] for number in side.of(row)] for side in (self._reads, self._writes))
        return Edges(
            process=self._processes[row], reads=reads, writes=writes, status=self._statuses[row], at=self._at[row],
            title=self._titles[row],
        )  # fmt: skip


class _Uses:
    """The data sets that rows read, or those that they wrote. A use is a row and the number of a name.

    Each use leads to the one before it of the same name, and `last` of a name to its last one.
    """

    def __init__(self) -> None:
        self.last = array("i")
        self._names = array("i")
        self._before = array("i")
        self._ends = array("i")

    def add(self, numbers: list[int]) -> None:
        """Add the uses of the next row."""
        last, before = self.last, self._before
        for use, number in enumerate(numbers, len(self._names)):
            before.append(last[number])
            last[number] = use
        self._names.extend(numbers)
        self._ends.append(len(self._names))

    def of(self, row: int) -> array[int]:
        """The numbers of the names of a row."""
        return self._names[self._ends[row - 1] if row else 0 : self._ends[row]]

    def rows(self, number: int) -> list[int]:
        """The rows that use a name, in order."""
        found, use = [], self.last[number]
        while use != _NONE:
            found.append(bisect_right(self._ends, use))
            use = self._before[use]
        return found[::-1]
