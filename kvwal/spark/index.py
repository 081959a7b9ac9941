"""The index of the recorded applications: small records in the same business, so that a list reads no jobs.

    =app/<app>                              Summary: the record of the application, once more
    =app/=<node>                            the mark of a node: every application in its log has a summary
    =failed/<ms, 15 digits>/<app>/<what>    Failure: of an application, an SQL execution, a job or a streaming query
    =lineage=<app>=<what>                   Edges: what an SQL execution, a job or a streaming query read and wrote

A summary, a failure and edges are written in the transaction of the record that they are made from. No prefix of
an application has a `=`. So all summaries are neighbours, and all failures are neighbours in order of time.

A failure is never changed, and goes if its SQL execution turns out to have been stopped. A later event may end its application
in another way; then the failure of the application counts no more, because the summary does not say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from typing import Any, Protocol

import msgspec

from kvwal.spark.lineage.edges import edge_entries
from kvwal.spark.records import Application, Error, from_value, to_value
from kvwal.structures.map.changes import ABSENT

APPLICATIONS = "=app/"
"""Where the keys of summaries and marks begin."""
FAILURES = "=failed/"
"""Where the keys of failures begin."""
AFTER_FAILURES = "=failed0"
"""The first key after those of the failures."""
CLUSTER = "cluster"
"""Stands for the node in the mark of a cluster: a map of a cluster has one index, of all its nodes."""
_MARK = "=app/="
_VERSION = 2
"""Version 1 had no edges."""
_MOST_PENDING = 100
"""Records that a transaction of `complete_index` is made from. An error with its stack has up to 12 KB."""


class IndexedMap(Protocol):
    """The methods of a map that `complete_index` needs."""

    def get(self, key: str, default: Any = None, /) -> Any:
        """The value of a key."""
        ...

    def items(self) -> Iterable[tuple[str, Any]]:
        """All keys and values, in the order of the keys."""
        ...

    def put_many(self, entries: dict[str, Any], /) -> Any:
        """Put all entries in one transaction."""
        ...

    def commit_if(self, conditions: Mapping[Any, Any], items: Any, deletes: Iterable[Any] = (), /) -> bool:
        """See `kvwal.Map.commit_if`."""
        ...


class Summary(Application, tag_field="kind", tag="summary"):
    """An application, as its own record has it: so a list of applications reads neighbours, and no other record."""


class Failure(msgspec.Struct, kw_only=True, tag_field="kind", tag="failure"):
    """A failure: `what` failed at the time `at`, for example `job 4`, with its error.

    `sql` is the SQL execution that failed, or the one that a failed job belongs to; `root` is the execution that `sql` is a
    part of, or itself. An execution, its root and its jobs fail together, and a list shows them as one failure. The `error` of
    an application may be null: then its status and its exit code say why.
    """

    app: str
    what: str
    at: int
    title: str = ""
    error: Error | None = None
    sql: int | None = None
    root: int | None = None


def is_application_key(key: str) -> bool:
    """Whether a key belongs to an application. Those of the index begin with `=`, and those of followers with `!`."""
    return not key.startswith(("=", "!"))


def summary_key(prefix: str) -> str:
    """The key of an application's summary."""
    return f"{APPLICATIONS}{prefix}"


def mark_key(node: str) -> str:
    """The key of the mark of a node."""
    return f"{_MARK}{node}"


def node_of_mark(store: object) -> str:
    """The node that the mark of an open store names: the node of a folder, `CLUSTER` for a cluster."""
    return getattr(store, "node", None) or CLUSTER


def mark_value() -> dict[str, Any]:
    """The value of a mark."""
    return {"kind": "index", "version": _VERSION}


def is_whole(mark: object) -> bool:
    """Whether the node of a stored mark has the whole index of this version, edges among it."""
    return isinstance(mark, Mapping) and mark.get("version", 0) >= _VERSION


def is_mark(key: str) -> bool:
    """Whether a key among those of the summaries is that of a mark."""
    return key.startswith(_MARK)


def mark_of(records: Sized, node: str) -> dict[str, Any]:
    """The mark of a node without any record, as it is put with its first one; nothing if there are records already."""
    return {} if len(records) else {mark_key(node): mark_value()}


def complete_index(records: IndexedMap, node: str) -> None:
    """Write the index of the records that an earlier version wrote without one, or with a part of it, and the mark of the node.

    Returns at once if the mark of this version is there. All records are read otherwise. A call that is interrupted begins anew
    the next time. Others may write records and their index meanwhile, however long this call stands still.
    """
    if is_whole(records.get(mark_key(node))):
        return
    app: dict[str, Any] = {}
    pending: dict[str, Any] = {}
    for key, stored in records.items():
        value = _whole(stored) if is_application_key(key) else None
        if value is None:
            continue
        if value["kind"] == "app":
            app = {key: stored}
        read = {**app, key: stored} if value["kind"] == "stream" else {key: stored}
        if any(records.get(key) != entry for key, entry in _index_of(read).items()):
            pending |= read
        if len(pending) >= _MOST_PENDING:
            _put_index(records, pending)
            pending = {}
    _put_index(records, pending)
    records.put_many({mark_key(node): mark_value()})


def _put_index(records: IndexedMap, read: dict[str, Any]) -> None:
    """Put the index of these records, on the condition that they still are what was read. Otherwise they are read again."""
    while read and not records.commit_if(
        {key: ABSENT if stored is None else stored for key, stored in read.items()}, _index_of(read)
    ):
        read = {key: records.get(key) for key in read}


def _index_of(read: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of the index for these records, as they are stored. A record that was deleted (None) has none."""
    values = {key: _whole(stored) for key, stored in read.items() if stored is not None}
    return index_entries({key: value for key, value in values.items() if value is not None})


def _whole(stored: object) -> dict[str, Any] | None:
    """A stored record with all the fields that it has in this version; None for a value that is no record."""
    try:
        return to_value(from_value(stored))
    except msgspec.ValidationError:
        return None


def failures_since(moment: int) -> str:
    """The first key of the failures at or after a time in unix milliseconds."""
    return f"{FAILURES}{max(0, moment):015d}/"


def application_of_failure(key: str) -> str:
    """The prefix of the application whose failure has this key."""
    return key.removeprefix(FAILURES).partition("/")[2].rpartition("/")[0]


def index_entries(records: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of the index for these records of one or more applications: stored objects by key."""
    entries: dict[str, Any] = {}
    for key, value in records.items():
        kind = value["kind"]
        if kind == "app":
            prefix = key.removesuffix("/app")
            entries[summary_key(prefix)] = {**value, "kind": "summary"}
            if failed(value["status"], value["error"]):
                what, at = "application", value["ended"] or value["last_event"]
                entries |= _failure(prefix, what, at, value["name"], value["error"])
        elif value.get("error") is None or value["status"] == "KILLED":
            continue
        elif kind == "job":
            title = value["description"] or value["name"]
            entries |= _failure(
                _above(key, 2), f"job {value['id']}", value["ended"], title, value["error"], value["sql"]
            )
        elif kind == "sql":
            parts = (value["id"], value["root"])
            entries |= _failure(
                _above(key, 2), f"sql {value['id']}", value["ended"], value["description"], value["error"], *parts
            )
        elif kind == "stream":
            name = value["name"] or value["id"]
            at = value.get("ended") or records.get(f"{_above(key, 2)}/app", {}).get("last_event", 0)
            entries |= _failure(_above(key, 2), f"stream {name}", at, value["name"], value["error"])
    return entries | edge_entries(records)


def withdrawn_failures(records: Mapping[str, Any]) -> list[str]:
    """The keys of failures that these records no longer are: an SQL execution failed, and its streaming query was stopped."""
    killed = ((key, value) for key, value in records.items() if value["kind"] == "sql" and value["status"] == "KILLED")
    return [
        _failure_key(_above(key, 2), f"sql {value['id']}", value["ended"])
        for key, value in killed
        if value["error"] is not None
    ]


def failed(status: str, error: object) -> bool:
    """Whether an application with this status and error counts as failed."""
    return error is not None or status in ("FAILED", "KILLED")


def _above(key: str, levels: int) -> str:
    """A key without its last parts."""
    return key.rsplit("/", levels)[0]


def _failure(
    prefix: str, what: str, at: int, title: str, error: Any, sql: int | None = None, root: int | None = None
) -> dict[str, Any]:
    failure = Failure(app=prefix, what=what, at=at, title=title, sql=sql, root=root)
    return {_failure_key(prefix, what, at): {**msgspec.to_builtins(failure), "error": error}}


def _failure_key(prefix: str, what: str, at: int) -> str:
    last = what.replace("/", "%2F").replace(" ", "-", 1)
    return f"{FAILURES}{max(0, at):015d}/{prefix}/{last}"
