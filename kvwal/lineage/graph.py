"""The graph of data sets and of the runs that read and write them, and the walk through it.

A run leads from each data set that it reads to each one that it writes. A run that failed is in the graph as well, with its
status: it may have written a part, and a walk that left it out would hide that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kvwal.lineage.told_runs import ToldRuns
from kvwal.spark.lineage.edges import Edges
from kvwal.spark.lineage.names import DatasetName

Key = tuple[str, str]
"""What tells a data set from others: its namespace and its name."""
Column = tuple[str, str, str]
"""A column: the namespace and the name of its data set, and its own name."""


class Run(NamedTuple):
    """A run: the data sets that it read and wrote. `owner` is its application, or the namespace of its job."""

    source: str
    owner: str
    name: str
    title: str
    status: str
    at: int
    reads: list[Key]
    writes: list[Key]


class Reached(NamedTuple):
    """A data set that a walk reached, how many runs lie between, and the numbers of the runs of the last step to it."""

    dataset: Key
    depth: int
    runs: list[int]


class Graph:
    """The graph. `finish` is called once, when everything is added.

    What is told of one run at several times, and under several names, is joined where a walk comes to it. A walk changes nothing,
    so that several threads may walk.
    """

    def __init__(self) -> None:
        self.columns: dict[Column, dict[Column, None]] = {}
        """The columns that a column is made from, as far as events told."""
        self._told = ToldRuns()
        self._aliases: dict[Key, dict[Key, None]] = {}
        self._spellings: dict[Key, list[DatasetName]] = {}

    def add(self, source: str, found: Iterable[tuple[str, Edges]]) -> None:
        """Add what runs read and wrote, each with its owner. What has one owner and one process is one run."""
        self._told.add(source, found)

    def add_name(self, name: DatasetName) -> None:
        """Add a data set that no run has read or written yet."""
        self._told.add_name(name)

    def add_alias(self, alias: Key, of: Key) -> None:
        """Note that a data set is also known under another name."""
        if alias != of:
            self._aliases.setdefault(alias, {})[of] = None

    def finish(self) -> None:
        """Join the names of a data set: those with and without its table, the table itself, and the names that events told."""
        self._told.finish()
        for name in self._told.names:
            if not name.table:
                continue
            catalog, _, table = name.table.partition("/")
            self.add_alias((catalog, table), name.key)
            self._spellings.setdefault(name.key, []).append(name)
        for alias in self._aliases:
            first = self._first_of(alias)
            if first is not None and (told := [DatasetName(*alias), *self._spellings.get(alias, ())]):
                self._spellings.setdefault(first, []).extend(told)

    def _first_of(self, key: Key) -> Key | None:
        """The data set that this name is another name of; None if there is none, or several: it is ambiguous."""
        seen = {key}
        while (targets := self._aliases.get(key)) is not None and len(targets) == 1:
            (key,) = targets
            if key in seen:
                return None
            seen.add(key)
        return key if len(seen) > 1 and self._is_there(key) else None

    def _is_there(self, key: Key) -> bool:
        return self._told.has_name(DatasetName(*key)) or key in self._spellings

    def find(self, key: Key) -> Key | None:
        """The data set of this name, or the one that it is another name of; None if it is not in the graph."""
        first = self._first_of(key)
        return key if first is None and self._is_there(key) else first

    def name(self, key: Key) -> DatasetName:
        """The name of a data set, with its table if one is known."""
        tabled = (name for name in self._spellings.get(key, ()) if name.key == key)
        return next(tabled, DatasetName(*key))

    def names(self) -> Iterator[DatasetName]:
        """The names of all data sets, each once: other names of a data set are not among them."""
        for key, name in {name.key: name for name in self._told.names}.items():
            if key not in self._aliases or self._first_of(key) is None:
                yield self.name(key) if key in self._spellings else name

    def beside(self, key: Key, *, up: bool) -> list[int]:
        """The runs that write a data set (`up`), or read it."""
        names = [DatasetName(*key), *self._spellings.get(key, ())]
        return list(dict.fromkeys(run for name in names for run in self._told.runs_beside(name, up=up)))

    def walk(self, start: Key, *, up: bool, depth: int | None = None) -> list[Reached]:
        """The data sets that the data of `start` come from (`up`), or go to, nearest first; at most `depth` runs away.

        Each data set and each run is visited once, so a cycle ends. `start` is among them if a run leads from it back to it.
        """
        reached: dict[Key, Reached] = {}
        visited: set[int] = set()
        front: Sequence[Key] = [start]
        far = 0
        while front and (depth is None or far < depth):
            far += 1
            following: dict[Key, None] = {}
            for dataset in front:
                for number in self.beside(dataset, up=up):
                    if number in visited:
                        continue
                    visited.add(number)
                    run = self.run(number)
                    for each in run.reads if up else run.writes:
                        if each not in reached:
                            reached[each] = Reached(each, far, [number])
                            following[each] = None
                        elif reached[each].depth == far:
                            reached[each].runs.append(number)
            following.pop(start, None)
            front = list(following)
        return list(reached.values())

    def run(self, number: int) -> Run:
        """One run, from all that was told of it. `number` is one of `beside`, or of `walk`."""
        parts = [self._told.edges(row) for row in self._told.rows_of_run(number)]
        last = max((part for part in parts if part.status), key=lambda part: part.at, default=parts[0])
        title = last.title or next((part.title for part in parts if part.title), "")
        reads = self._each_once(name for part in parts for name in part.reads)
        writes = self._each_once(name for part in parts for name in part.writes)
        source, owner = self._told.source(number), self._told.owner(number)
        return Run(source, owner, last.process, title, last.status, last.at, reads, writes)

    def _each_once(self, names: Iterable[DatasetName]) -> list[Key]:
        keys = dict.fromkeys(name.key for name in names)
        if self._aliases:
            keys = dict.fromkeys(self._first_of(key) or key for key in keys)
        return list(keys)

    def columns_of(self, key: Key) -> dict[str, list[Column]]:
        """The columns of a data set, each with the columns that it is made from, as far as events told."""
        return {column[2]: list(sources) for column, sources in self.columns.items() if column[:2] == key}
