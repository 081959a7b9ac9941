"""Parts of the records: errors, accesses, sources, and what a stage keeps of its tasks."""

from __future__ import annotations

import msgspec


class Error(msgspec.Struct):
    """An error: message and stack, both bounded."""

    message: str
    stack: str = ""


class Access(msgspec.Struct):
    """A source or target of data: its format, its path, and its table in a catalog (`catalog.database.table`).

    `node` is the plan's node. -1: there is no metric for it.
    """

    what: str
    where: str = ""
    node: str = ""
    rows: int = -1
    bytes: int = -1
    files: int = -1
    table: str = ""


class PlanEdge(msgspec.Struct):
    """An edge of a plan: the numbers of two nodes. The parent takes the rows of the child."""

    child: int
    parent: int


class Slowest(msgspec.Struct):
    """The longest task of a stage, with the facts that explain its time."""

    ms: int = 0
    task: int = -1
    index: int = -1
    partition: int = -1
    executor: str = ""
    host: str = ""
    input_bytes: int = 0
    shuffle_read_bytes: int = 0


class StageMetrics(msgspec.Struct):
    """The SQL metrics of the tasks of a stage, by accumulator id.

    `totals` counts each task of the stage once, by its last try until one has succeeded. `unsuccessful` has what the tries of a
    task have counted, by its index, as long as none has succeeded. `is_replaced`: a later attempt at the stage counts instead.
    """

    totals: dict[str, int] = {}
    unsuccessful: dict[str, dict[str, int]] = {}
    is_replaced: bool = False


class TaskFailure(msgspec.Struct):
    """Tasks that failed with the same message: their number, and the first of them."""

    message: str
    stack: str = ""
    count: int = 0
    task: int = -1
    executor: str = ""
    host: str = ""


class ResourceProfile(msgspec.Struct):
    """What an executor of a resource profile has, and what a task of it takes: amounts by name, memory in MiB."""

    id: int
    executor: dict[str, int] = {}
    task: dict[str, float] = {}


class ClasspathFolder(msgspec.Struct):
    """Entries of the classpath in one folder, which ends with a slash. `source` is who added them, in Spark's words."""

    source: str
    folder: str
    entries: list[str] = []


class Accumulator(msgspec.Struct):
    """An accumulator that the program named: its value when the stage ended, as Spark's text."""

    id: int
    name: str
    value: str = ""


class Speculation(msgspec.Struct):
    """The copies of slow tasks that ended: `failed` and `killed` ones are among the `tasks`."""

    tasks: int = 0
    failed: int = 0
    killed: int = 0


class Quantiles(msgspec.Struct):
    """Quantiles of one metric over tasks. The least and the greatest value are exact, the others within 4 %."""

    min: int = 0
    p25: int = 0
    median: int = 0
    p75: int = 0
    p95: int = 0
    max: int = 0


class TaskQuantiles(msgspec.Struct, omit_defaults=True):
    """Quantiles over the successful tasks of a stage. None, and not stored: the metric is 0 in each of them."""

    gc_ms: Quantiles | None = None
    peak_memory_bytes: Quantiles | None = None
    input_bytes: Quantiles | None = None
    output_bytes: Quantiles | None = None
    shuffle_read_bytes: Quantiles | None = None
    shuffle_write_bytes: Quantiles | None = None
    spill_memory_bytes: Quantiles | None = None
    spill_disk_bytes: Quantiles | None = None


class Histogram(msgspec.Struct):
    """How many tasks had a value in each bucket, and the least and the greatest value; those of 0 are not in it."""

    least: int
    greatest: int
    buckets: dict[str, int] = {}


class Histograms(msgspec.Struct, omit_defaults=True):
    """The histograms behind the quantiles of a stage. `tasks` is the number of tasks that they count."""

    tasks: int = 0
    gc_ms: Histogram | None = None
    peak_memory_bytes: Histogram | None = None
    input_bytes: Histogram | None = None
    output_bytes: Histogram | None = None
    shuffle_read_bytes: Histogram | None = None
    shuffle_write_bytes: Histogram | None = None
    spill_memory_bytes: Histogram | None = None
    spill_disk_bytes: Histogram | None = None


class BatchSource(msgspec.Struct):
    """A source of a batch: its description, its offsets as text, and the rows that the batch read from it."""

    what: str = ""
    start: str = ""
    end: str = ""
    latest: str = ""
    rows: int = 0
