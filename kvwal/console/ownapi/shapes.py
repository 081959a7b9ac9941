"""Shapes of the answers of kvwal's REST API, as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class Error(TypedDict):
    """A sentence on what happened, and what to do next."""

    error: str


class Business(TypedDict):
    """A business. `bytes` are those of its logs, or of its objects in an archive; null in a cluster."""

    name: str
    bytes: int | None


class Businesses(TypedDict):
    """The businesses of the location, sorted by name."""

    businesses: list[Business]


class Entry(TypedDict):
    """An entry. `value` is JSON; of bytes it is base64, and `value_encoding` says so. A delete has null.

    Timestamps are text: they exceed the numbers of JSON. They are missing where the memory of a cluster answers.
    """

    key: Any
    key_class: str
    key_encoding: NotRequired[str]
    value: Any
    value_class: str
    value_encoding: NotRequired[str]
    deleted: bool
    timestamp: NotRequired[str]
    time: NotRequired[str]
    expires: NotRequired[str]


class Page(TypedDict):
    """Entries in the order of keys. `next` is the `cursor` of the page that follows; null on the last page."""

    entries: list[Entry]
    next: str | None


class History(TypedDict):
    """The changes of a key, newest first, deletes included."""

    entries: list[Entry]


class Written(TypedDict):
    """A change that is durable. `timestamp` is null if another change came at once."""

    timestamp: str | None
    time: str | None


class Rows(TypedDict):
    """The answer to a statement. `types` are DuckDB's. With `is_whole` false there are more rows than were asked for."""

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    is_whole: bool


class Queue(TypedDict):
    """Figures of a queue. The name of a business's own queue is empty."""

    business: str
    queue: str
    items: int
    bytes: int
    oldest_seconds: float | None
    by_priority: dict[str, int]


class Queues(TypedDict):
    """The queues that hold items."""

    queues: list[Queue]


class QueueStats(Queue):
    """Figures of one queue, with its options. `delayed` is null where it is not known."""

    delayed: int | None
    capacity: NotRequired[int]
    capacity_bytes: NotRequired[int]
    dead_letters: NotRequired[str]


class QueueItem(TypedDict):
    """An item of a queue."""

    priority: int
    position: str
    timestamp: str
    time: str
    value: Any
    value_encoding: NotRequired[str]
    expires: NotRequired[str]
    deliveries: NotRequired[int]
    due: NotRequired[str]


class QueueItems(TypedDict):
    """Items in the order of takes. They stay in the queue."""

    items: list[QueueItem]


class Content(TypedDict):
    """A content, without its bytes."""

    name: str
    bytes: int
    sha256: str
    attributes: dict[str, str]
    timestamp: str
    time: str


class Contents(TypedDict):
    """Contents in the order of names. `structures` are those of the business that hold contents; its own has no name."""

    contents: list[Content]
    structures: list[str]
    next: str | None


class EventItem(TypedDict):
    """An item before or after an event."""

    of: str
    key: Any
    timestamp: str
    bytes: int
    value: Any


class Event(TypedDict):
    """An event of provenance."""

    event: str
    time: str
    timestamp: str
    type: str
    key: Any
    of: str
    node: str
    component: str
    details: dict[str, str]
    before: list[EventItem]
    after: list[EventItem]


class Events(TypedDict):
    """Events of provenance."""

    events: list[Event]


class Dataset(TypedDict):
    """A data set."""

    dataset: str
    namespace: str
    name: str
    table: str
    depth: NotRequired[int]


class LineageJob(TypedDict):
    """The runs of one job that read and write the same data sets. `at` is the time of the last one, in unix ms."""

    source: str
    job: str
    runs: int
    failed: int
    last: str
    status: str
    at: int
    reads: list[str]
    writes: list[str]


class Lineage(TypedDict):
    """Where the data of a data set come from (`up`), and where they go (`down`)."""

    dataset: Dataset
    columns: dict[str, list[str]]
    up: NotRequired[list[Dataset]]
    down: NotRequired[list[Dataset]]
    jobs: list[LineageJob]


class Datasets(TypedDict):
    """Data sets whose name has the searched text, and the number of all that have it."""

    datasets: list[Dataset]
    found: int


class Finding(TypedDict):
    """A finding of `kvwal doctor`: its level (`ok`, `note`, `problem`), what it is about, and what to do."""

    level: str
    about: str
    text: str
    todo: str


class Health(TypedDict):
    """What `kvwal doctor` says, at most some minutes ago. `status` is the worst level of a finding."""

    location: str
    status: str
    findings: list[Finding]
    examined_seconds_ago: float


class NodeFigures(TypedDict):
    """A node of a cluster. One that does not answer has null for its figures, and `told` says why.

    It counts since its start, its fdatasyncs over `fsync_within_seconds`. `told` is what it says of itself beside its phase.
    `refused_writes` are by error, `warnings` and `errors` lines of its log. From a `memory_ratio` of 1 on puts are refused.
    """

    node: str
    address: str | None
    phase: str | None
    serves: bool | None
    told: str
    written_entries: int | None
    refused_writes: dict[str, int] | None
    fsyncs: int | None
    fsync_within_seconds: float | None
    fsync_p50_seconds: float | None
    fsync_p99_seconds: float | None
    warnings: int | None
    errors: int | None
    disk_usable_bytes: int | None
    disk_capacity_bytes: int | None
    memory_ratio: float | None


class LogFigures(TypedDict):
    """A log of a node. Of many logs of a node the largest and those in trouble are told, the others together as `_rest`.

    `holder` is the process that holds a folder's log, empty if none does, null in a cluster. `trouble` has a sentence for each.
    What is not known is null. In a folder the archive and the contents are those of the last examination.
    """

    business: str
    node: str
    last_sequence: int | None
    bytes: int | None
    content_bytes: int | None
    snapshot_sequence: int | None
    checkpoint_age_seconds: float | None
    archived_sequence: int | None
    archive_lag_entries: int | None
    archive_lag_seconds: float | None
    holder: str | None
    trouble: list[str]


class MapFigures(TypedDict):
    """A map in the memory of a cluster: its entries and about their bytes, the copies of all nodes that answer."""

    map: str
    entries: int
    bytes: int


class ArchivedLog(TypedDict):
    """What an archive holds of a log."""

    business: str
    node: str
    objects: int
    entries: int
    bytes: int
    last_sequence: int
    newest_object_age_seconds: float | None


class Operations(TypedDict):
    """The figures of the location, and the last examination of it. `kind` is `cluster`, `folder` or `archive`.

    `status` is the worst level of a finding, null without an examination: of an archive. `note` says what is missing.
    """

    location: str
    kind: str
    status: str | None
    findings: list[Finding]
    examined_seconds_ago: float | None
    note: str
    disk_usable_bytes: int | None
    disk_capacity_bytes: int | None
    nodes: list[NodeFigures]
    logs: list[LogFigures]
    maps: list[MapFigures]
    archived: list[ArchivedLog]


Stats = dict[str, Any]
"""What `kvwal stats --json` prints."""
