"""What events tell of a run, a job or a data set, as one record: the order of the events, and repeats, make no difference.

    run/<run id>/<node>        LineageRecord: a run, from all of its events
    job/<digest>/<node>        LineageRecord: a job, from its latest event without a run
    dataset/<digest>/<node>    LineageRecord: a data set, from its events without a job
    event/<of>/<time>-<digest> the event, as docs/lineage.md describes it

`<node>` is the node that stored the events, so that two nodes of a root never write one record: a reader adds them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import msgspec

from kvwal.lineage.graph import Column, Graph
from kvwal.spark.lineage.edges import Edges
from kvwal.spark.lineage.names import DatasetName, canonical
from kvwal.store.reading.business_reader import BusinessReader

BUSINESS = "openlineage"
"""The business of imported events."""
PARTS = ("run/", "job/", "dataset/")
"""Where the keys of what was told begin."""
STATUSES = {"COMPLETE": "SUCCEEDED", "FAIL": "FAILED", "ABORT": "KILLED", "RUNNING": "RUNNING", "START": "RUNNING"}
"""The status of a run, in the words of Spark's records, by the state that its events told."""
_RANKS = {"COMPLETE": 3, "FAIL": 3, "ABORT": 3, "RUNNING": 2, "START": 1}
"""States by how late in a run they are: one that ends it stays, also where the clock of another event is ahead."""
_NEVER = 1 << 62


class LineageRecord(msgspec.Struct, kw_only=True, tag_field="kind", omit_defaults=True, tag="lineage"):
    """What the events of one subject told. Times are Unix milliseconds by the clocks of the producers (0: not known).

    `state` is OpenLineage's: START, RUNNING, COMPLETE, ABORT, FAIL, or empty. `links` has pairs of data sets: another name, and
    the first one. `columns` has a column of an output, and those of inputs that it is made from.
    """

    subject: str
    run: str = ""
    namespace: str = ""
    job: str = ""
    parent: str = ""
    producer: str = ""
    state: str = ""
    state_at: int = 0
    started: int = 0
    ended: int = 0
    last_event: int = 0
    reads: list[DatasetName] = []
    writes: list[DatasetName] = []
    others: list[DatasetName] = []
    links: list[tuple[DatasetName, DatasetName]] = []
    columns: list[tuple[Column, list[Column]]] = []


def record_of(event: dict[str, Any]) -> LineageRecord:
    """What one valid event tells."""
    at = time_of(event)
    producer = _text(event.get("producer"))
    if "run" not in event and "job" not in event:
        datasets = _Datasets([event["dataset"]])
        return LineageRecord(
            subject=f"dataset/{digest_of(*datasets.names[0].key)}" if datasets.names else "dataset/",
            producer=producer, last_event=at, others=datasets.names, links=datasets.links, columns=datasets.columns,
        )  # fmt: skip
    inputs, outputs = _Datasets(event.get("inputs")), _Datasets(event.get("outputs"))
    namespace, job = _text(event["job"]["namespace"]), _text(event["job"]["name"])
    told = LineageRecord(
        subject=f"job/{digest_of(namespace, job)}", namespace=namespace, job=job, producer=producer, last_event=at,
        reads=_joined(inputs.names), writes=_joined(outputs.names), links=_joined(inputs.links, outputs.links),
        columns=_joined(outputs.columns),
    )  # fmt: skip
    if "run" in event:
        told.run = event["run"]["runId"].lower()
        told.subject, told.parent = f"run/{told.run}", _parent(event["run"])
        state = event.get("eventType", "")
        if state in _RANKS:
            told.state, told.state_at = state, at
            told.started = at if _RANKS[state] == 1 else 0
            told.ended = at if _RANKS[state] == 3 else 0
    return told


def merged(one: LineageRecord, other: LineageRecord) -> LineageRecord:
    """What two events of one subject tell together. Neither the order nor a repeat makes a difference.

    What a run reads and writes adds up over its events. A job and its data sets are those of its latest event without a run.
    """
    late = max(one, other, key=_age)
    if not late.run and not late.others:
        return late
    state = max((one, other), key=lambda told: (_RANKS.get(told.state, 0), told.state_at, told.state))
    return LineageRecord(
        subject=late.subject, run=late.run, namespace=late.namespace, job=late.job, parent=max(one.parent, other.parent),
        producer=late.producer, state=state.state, state_at=state.state_at,
        started=_earliest(one.started, other.started), ended=state.ended, last_event=late.last_event,
        reads=_joined(one.reads, other.reads), writes=_joined(one.writes, other.writes),
        others=_joined(one.others, other.others), links=_joined(one.links, other.links),
        columns=_joined(one.columns, other.columns),
    )  # fmt: skip


def add_told(graph: Graph, business: BusinessReader) -> None:
    """Add what events told to a graph."""
    decode = msgspec.json.Decoder(LineageRecord).decode
    for part in PARTS:
        for entry in business.entries(part):
            told = decode(entry.value)
            for name in told.others:
                graph.add_name(name)
            if told.reads or told.writes:
                edges = Edges(
                    process=told.run or f"job {told.job}", reads=told.reads, writes=told.writes, title=told.job,
                    status=STATUSES.get(told.state, ""), at=told.state_at or told.last_event,
                )  # fmt: skip
                graph.add("openlineage", [(told.namespace, edges)])
            for alias, first in told.links:
                graph.add_alias(alias.key, first.key)
            for column, sources in told.columns:
                graph.columns.setdefault(column, {}).update(dict.fromkeys(sources))


def time_of(event: dict[str, Any]) -> int:
    """The time of a valid event, in Unix milliseconds; UTC if it has no zone."""
    moment = datetime.fromisoformat(event["eventTime"])
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)


def digest_of(*texts: str) -> str:
    """A short text for names that are too long, or too wild, for a key."""
    return blake2b(msgspec.json.encode(texts), digest_size=16).hexdigest()


class _Datasets:
    """The data sets of an event, and what their facets tell. Facets may have any shape: what has another one does not count."""

    def __init__(self, datasets: Any) -> None:
        self.names: list[DatasetName] = []
        self.links: list[tuple[DatasetName, DatasetName]] = []
        self.columns: list[tuple[Column, list[Column]]] = []
        for dataset in datasets or ():
            name = _name(dataset)
            if name is None:
                continue
            if name not in self.names:
                self.names.append(name)
            facets = dataset.get("facets") or {}
            for link in _list(_object(facets.get("symlinks")).get("identifiers")):
                if (other := _name(link)) is not None and other != name:
                    self.links.append((other, name))
            for field, made in _object(_object(facets.get("columnLineage")).get("fields")).items():
                sources = [_column(source) for source in _list(_object(made).get("inputFields"))]
                found = [source for source in sources if source is not None]
                if found:
                    self.columns.append(((*name.key, _text(field)), found))


def _name(told: Any) -> DatasetName | None:
    """The name of a data set; None for one that is empty, which leads nowhere."""
    told = _object(told)
    namespace, name = _text(told.get("namespace")), _text(told.get("name"))
    return DatasetName(*canonical(namespace, name)) if namespace and name else None


def _column(told: Any) -> Column | None:
    name, field = _name(told), _text(_object(told).get("field"))
    return (*name.key, field) if name is not None and field else None


def _parent(run: dict[str, Any]) -> str:
    parent = _object(_object(run.get("facets")).get("parent"))
    return _text(_object(parent.get("run")).get("runId")).lower()


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _age(told: LineageRecord) -> tuple[int, str, str, str, bytes]:
    """Sorts what was told by its time; of two of one time, always the same one first."""
    rest = b"" if told.run or told.others else msgspec.json.encode(told)
    return told.last_event, told.namespace, told.job, told.producer, rest


def _earliest(one: int, other: int) -> int:
    found = min(one or _NEVER, other or _NEVER)
    return 0 if found == _NEVER else found


def _joined(one: Iterable[Any], other: Iterable[Any] = ()) -> list[Any]:
    """Each item of both once, in an order that does not depend on which came first."""
    return sorted({msgspec.json.encode(item): item for item in (*one, *other)}.values(), key=msgspec.json.encode)
