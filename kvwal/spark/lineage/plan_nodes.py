"""The tables and files that an SQL execution reads and writes, from the nodes of its physical plan.

Spark has no event that names them. A node names its table or path in its name, in its metadata or in its arguments, each kind of
node in a way of its own. What a node does not tell stays empty; a node of an unknown kind is recorded with its name and text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kvwal.spark.events.sql import PlanNode
from kvwal.spark.records import Access, cut

CACHED = "InMemoryTableScan"
_READ_NODES = ("Scan ", "BatchScan", "FileScan", "MicroBatchScan", "ContinuousScan", CACHED, "LocalTableScan")
_WRITE_NODES = (
    "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "WriteToDataSourceV2", "WriteToContinuousDataSource",
    "CreateTableAsSelect", "ReplaceTableAsSelect", "AtomicCreateTableAsSelect", "AtomicReplaceTableAsSelect",
    "ReplaceData", "WriteDelta",
)  # fmt: skip
_WRITING_COMMAND = re.compile(r"(?:Insert|Save|Write|AsSelect|Append|Merge|Copy)")
_BRACKETED = re.compile(r"\[(.*)\]", re.DOTALL)
_NAME = r"(?:`[^`]+`|[\w-]+)(?:\.(?:`[^`]+`|[\w-]+))*"

_INTO_FILES = re.compile(
    r"Execute InsertIntoHadoopFsRelationCommand (?P<path>.*?), (?:false|true)\b(?P<rest>.*)", re.DOTALL
)
_FORMAT = re.compile(r", (?P<format>[A-Za-z][\w.]*), \[")
_CATALOG_TABLE = re.compile(r", (?P<table>`[^`]+`(?:\.`[^`]+`)*), ")
_INTO_HIVE = re.compile(rf"Execute InsertIntoHiveTable (?P<table>{_NAME}),")
_HIVE_PATH = re.compile(r"HiveTempPath\((?P<path>[^()]*)\)")
_AS_SELECT = re.compile(r"\w+Command\nArguments: (?P<table>`[^`]+`(?:\.`[^`]+`)*), ")
_HIVE_AS_SELECT = re.compile(r"\w+Command\nArguments: \[Database: (?P<database>[^,\]]+), TableName: (?P<table>[^,\]]+)")
_SAVE = re.compile(r"SaveIntoDataSourceCommand\nArguments: (?P<source>[\w.$]+)(?:@\w+)?, \[(?P<options>.*?)\], ")
_PLACE_OPTION = re.compile(r"(?:^|, )(?P<option>dbtable|path)=(?P<place>[^,]*)")
_V2_AS_SELECT = re.compile(rf"\w+AsSelect\w* (?P<catalog>[\w.$]+)@\w+, (?P<table>{_NAME}), ")
_WRITER_TABLE = re.compile(r"\b(?P<source>\w+?)Write\(table=(?P<table>[^,()]+)")
_DELTA_TABLE = re.compile(r"\bDeltaTableV2\([^,]*,(?P<path>[^,]*),(?P<rest>.*)", re.DOTALL)
_IDENTIFIER = re.compile(r"\bSome\((?P<table>[\w`-]+\.[\w`.-]+)\)")
_V1_TABLE = re.compile(r"\b(?P<source>\w+)Table\((?P<table>[\w`.-]+),")
_ICEBERG_SCAN = re.compile(r"IcebergScan\(table=|\(branch=[^()]*\) \[filters=")


class Dataset(NamedTuple):
    """What a node reads or writes: its format, its path (or the source's own name of it), and its table in a catalog."""

    what: str
    where: str = ""
    table: str = ""


def is_read(name: str) -> bool:
    """Whether a node of this name reads data from outside the plan."""
    return name.startswith(_READ_NODES)


def is_write(name: str) -> bool:
    """Whether a node of this name writes data."""
    return name.startswith(_WRITE_NODES) or (name.startswith("Execute ") and bool(_WRITING_COMMAND.search(name)))


def read_access(label: str, node: PlanNode) -> Access:
    """The access of a node that reads. `label` is the node's in the plan."""
    return _access(label, _scanned(node.node_name.strip(), node))


def write_access(label: str, node: PlanNode, plan: str) -> Access:
    """The access of a node that writes. `plan` is the text of the whole plan: some nodes have their arguments only there."""
    return _access(label, _written(node.node_name.strip(), node, plan))


def _access(label: str, place: Dataset) -> Access:
    return Access(cut(place.what), cut(place.where), label, table=cut(place.table.replace("`", "")))


def _scanned(name: str, node: PlanNode) -> Dataset:
    kind, _, rest = name.removeprefix("Scan ").partition(" ")
    location = node.metadata.get("Location", "")
    paths = _BRACKETED.search(location)
    if paths:
        return Dataset("delta" if _is_delta(location) else kind, paths[1], rest)
    if name.startswith("Scan hive "):
        return Dataset("hive", "", rest)
    if name.startswith("Scan JDBC"):
        table = name.partition(" from v2 scan ")[2]
        return Dataset("jdbc", "" if table else name.partition("(")[2].partition(")")[0], table)
    if name.startswith("BatchScan "):
        return _batch_scanned(rest, node)
    return Dataset(name, node.simple_string)


def _batch_scanned(rest: str, node: PlanNode) -> Dataset:
    """The table of a scan of a connector. Spark's own file formats call their table by format and path."""
    form, _, path = rest.partition(" ")
    if ":" in path or path.startswith("/"):
        return Dataset(form, path)
    return Dataset("iceberg" if _ICEBERG_SCAN.search(node.simple_string) else "table", "", rest)


def _written(name: str, node: PlanNode, plan: str) -> Dataset:
    text = node.simple_string
    if files := _INTO_FILES.match(text):
        form, table = _FORMAT.search(files["rest"]), _CATALOG_TABLE.search(files["rest"])
        return Dataset(form["format"].lower() if form else "files", files["path"], table["table"] if table else "")
    if hive := _INTO_HIVE.match(text):
        path = _HIVE_PATH.search(text)
        return Dataset("hive", path["path"] if path else "", hive["table"])
    if name.startswith("Execute "):
        return _commanded(name.removeprefix("Execute ").strip(), text, plan)
    return _connected(name, text)


def _commanded(command: str, text: str, plan: str) -> Dataset:
    """The target of a command. Its arguments are in the plan's text only."""
    if made := _AS_SELECT.search(plan):
        return Dataset("table", "", made["table"])
    if made := _HIVE_AS_SELECT.search(plan):
        return Dataset("hive", "", f"spark_catalog.{made['database']}.{made['table']}")
    if saved := _SAVE.search(plan):
        place = _PLACE_OPTION.search(saved["options"])
        return Dataset(_format_of(saved["source"]) or command, place["place"] if place else "")
    return Dataset(command, text)


def _connected(name: str, text: str) -> Dataset:
    """The target of a node that writes through a connector."""
    node, _, called = name.partition(" ")
    if made := _V2_AS_SELECT.match(text):
        return Dataset(_format_of(made["catalog"]) or "table", "", made["table"])
    if delta := _DELTA_TABLE.search(text):
        table = _IDENTIFIER.search(delta["rest"])
        return Dataset("delta", delta["path"], table["table"] if table else "")
    if writer := _WRITER_TABLE.search(text):
        return Dataset(writer["source"].lower(), "", writer["table"])
    if table := _V1_TABLE.search(text):
        return Dataset(table["source"].lower(), "", table["table"])
    return Dataset("table", "", called) if called else Dataset(node, text)


def _is_delta(text: str) -> bool:
    """Whether Delta's file indexes are named: `PreparedDeltaFileIndex`, `TahoeLogFileIndex` …"""
    return text.startswith(("PreparedDelta", "Tahoe", "Delta", "Cdc"))


def _format_of(class_name: str) -> str:
    """The format of a source or catalog by the name of its class; empty for an unknown one."""
    lower = class_name.lower()
    return next((form for form in ("delta", "iceberg", "jdbc") if form in lower), "")
