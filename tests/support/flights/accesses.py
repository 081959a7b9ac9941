"""The data that an SQL execution read and wrote, as Spark's plan and the metrics of its nodes say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.support.console.expected import Cells
from tests.support.console.said import Number, count, range_of, size

_NODE = re.compile(
    r"^\(\d+\) (Scan \w+|Execute InsertIntoHadoopFsRelationCommand|WriteToDataSourceV2) *\n(.*?)(?:\n\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_LOCATION = re.compile(r"^Location: InMemoryFileIndex \[(.*?)(, \.\.\. \d+ entries)?\]$", re.MULTILINE)
_WRITTEN = re.compile(r"^Arguments: (file:[^,]*), \w+, (?:\[.*?\], )?(\w+), \[", re.MULTILINE)
_SINK = re.compile(r"^Arguments: (.*)$", re.MULTILINE)
_PACKAGES = re.compile(r"(?:[a-z]\w*\.)+(\w+)@[0-9a-f]+")
_PARTITIONS = re.compile(r"(?:/[^/]+=[^/]*)+$")
_ROWS, _READ = "number of output rows", ("size of files read", "number of files read")
_WRITE = ("written output", "number of written files")


class Access(NamedTuple):
    """A read or a write: the format, the place as Spark has it, and what the node counted, as far as it did.

    `of_batch`: a batch of a streaming query did it, which names the files that it reads.
    """

    writes: bool
    what: str
    where: str
    rows: Number | None
    bytes: Number | None
    files: Number | None
    of_batch: bool

    @property
    def data_set(self) -> str:
        """The name of the data set: the address of a file, or of a folder; that of the table for the files of a batch.

        A sink in memory has none.
        """
        found = re.fullmatch(r"file:(/[^,]*)(?:, \.\.\.)?", self.where)
        if found is None:
            return ""
        return f"file://{_PARTITIONS.sub('', found[1].rpartition('/')[0]) if self.of_batch else found[1]}"

    @property
    def shown(self) -> str:
        """The place as people need it: without the packages of Java."""
        return _PACKAGES.sub(r"\1", self.where)

    @property
    def cells(self) -> Cells:
        """Its row."""
        return {"does": "writes" if self.writes else "reads", "data set": self.shown, "format": self.what, "rows": self.rows,
                "bytes": self.bytes, "files": self.files}  # fmt: skip


def of(sql: Any) -> list[Access]:
    """The reads and then the writes of an execution. An adaptive plan repeats each of them in its first plan."""
    found = {(each.writes, each.what, each.where): each for each in _every(sql)}
    return sorted(found.values(), key=lambda each: each.writes)


def _every(sql: Any) -> Iterator[Access]:
    metrics: dict[str, list[dict[str, str]]] = {}
    for node in sql["nodes"]:
        metrics.setdefault(node["nodeName"].strip(), []).append(
            {each["name"]: each["value"] for each in node["metrics"]}
        )
    of_batch = "\nbatch = " in sql["description"]
    for name, text in _NODE.findall(sql["planDescription"]):
        (counted,) = metrics[name]
        rows = _count(counted.get(_ROWS))
        if name.startswith("Scan "):
            where, more = _LOCATION.findall(text)[0]
            place, what = where + (", ..." if more else ""), name.removeprefix("Scan ")
            yield Access(False, what, place, rows, *_files(counted, *_READ), of_batch)
        elif name.startswith("Execute "):
            where, what = _WRITTEN.findall(text)[0]
            yield Access(True, what.lower(), where, rows, *_files(counted, *_WRITE), of_batch)
        else:
            yield Access(True, name, f"{name} {_SINK.findall(text)[0]}", rows, None, None, of_batch)


def _files(counted: dict[str, str], read: str, files: str) -> tuple[Number | None, Number | None]:
    return (sized(counted[read]), _count(counted[files])) if read in counted else (None, None)


def _count(text: str | None) -> Number | None:
    return None if text is None else count(int(text.replace(",", "")))


def sized(text: str) -> Number:
    """A size as Spark writes it, which it rounds."""
    found = range_of(text, "bytes")
    assert found is not None, text
    return size(0)._replace(low=found.low, high=found.high)
