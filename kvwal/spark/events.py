"""The events of Spark that are recorded, as types: what one line of an event log says.

A log is one JSON object a line, and most of its bytes are task ends. So a line's name is looked at first, events that
nothing is made of are never parsed, and of the others only the fields below are.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from kvwal.errors import KvwalError

PREFIX = b'{"Event":"'
_SQL = "org.apache.spark.sql.execution.ui."
_STREAM = "org.apache.spark.sql.streaming.StreamingQueryListener$"


Int = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
"""A number as Spark has them, and as a store takes them."""


class DamagedLine(KvwalError):
    """A line that is no event: not JSON, or not of the shape that its name promises."""


class _Event(msgspec.Struct, gc=False):
    """Base of all events. Fields a version of Spark does not write have defaults."""


def _names(**special: str) -> Any:
    """A renaming for msgspec: the given fields as given, any other from `stage_id` to `Stage ID`'s plain form."""
    return lambda field: special.get(
        field, field.replace("_", " ").title().replace(" Id", " ID").replace(" Of ", " of ")
    )


class LogStart(_Event, rename=_names()):
    """The first line of a log, and of each rolled file."""

    spark_version: str = ""


class ApplicationStart(_Event, rename=_names(app_id="App ID", attempt="App Attempt ID")):
    """An application has an id. `attempt` is set by cluster managers that try again."""

    app_name: str
    timestamp: Int
    user: str = ""
    app_id: str | None = None
    attempt: str | None = None


class ApplicationEnd(_Event, rename=_names(exit_code="ExitCode")):
    """The application stopped its context. `exit_code` is known from Spark 4 on."""

    timestamp: Int
    exit_code: Int | None = None


class Detached(_Event, rename=_names()):
    """Ours: a recorder stopped listening, because of `error` if there is one; or the driver was found `killed`."""

    timestamp: Int = 0
    killed: bool = False
    error: str = ""
    stack: str = ""
    dropped: Int = 0


class EnvironmentUpdate(_Event, rename=_names(jvm="JVM Information")):
    """The settings of the application."""

    jvm: dict[str, str] = {}
    spark_properties: dict[str, str] = {}


class ExecutorInfo(_Event, rename=_names()):
    """Where an executor runs."""

    host: str = ""
    total_cores: Int = 0


class ExecutorAdded(_Event, rename=_names()):
    """An executor joined."""

    timestamp: Int
    executor_id: str
    executor_info: ExecutorInfo = msgspec.field(default_factory=ExecutorInfo)


class ExecutorRemoved(_Event, rename=_names(reason="Removed Reason")):
    """An executor left, and why."""

    timestamp: Int
    executor_id: str
    reason: str = ""


class Properties(
    _Event,
    rename={
        "description": "spark.job.description",
        "group": "spark.jobGroup.id",
        "sql": "spark.sql.execution.id",
        "call_site": "callSite.short",
        "batch": "streaming.sql.batchId",
        "query": "sql.streaming.queryId",
    },
):
    """What a thread said about the jobs it starts."""

    description: str = ""
    group: str = ""
    sql: str = ""
    call_site: str = ""
    batch: str = ""
    query: str = ""


class Frame(_Event, rename=_names()):
    """One line of a Java stack trace."""

    declaring_class: str = ""
    method_name: str = ""
    file_name: str | None = None
    line_number: Int = -1

    def __str__(self) -> str:
        where = f"{self.file_name or 'Unknown Source'}" + (f":{self.line_number}" if self.line_number >= 0 else "")
        return f"\tat {self.declaring_class}.{self.method_name}({where})"


class Failure(_Event, rename=_names()):
    """The exception that failed a job."""

    message: str = ""
    stack_trace: list[Frame] = []


class Accumulable(_Event, rename=_names()):
    """A counter of a stage: `value` is its total on the driver."""

    id: Int = msgspec.field(name="ID", default=-1)
    value: Any = None
    metadata: str | None = None


class StageInfo(_Event, rename=_names(attempt="Stage Attempt ID", details="Details")):
    """What a stage is, and after its end what became of it."""

    stage_id: Int
    attempt: Int = 0
    stage_name: str = ""
    number_of_tasks: Int = 0
    parent_ids: list[Int] = msgspec.field(name="Parent IDs", default_factory=list)
    submission_time: Int | None = None
    completion_time: Int | None = None
    failure_reason: str | None = None
    accumulables: list[Accumulable] = []


class StageName(_Event, rename=_names()):
    """Of a job's stages at its start: which they are, and what they are called."""

    stage_id: Int
    stage_name: str = ""


class JobStart(_Event, rename=_names(stage_ids="Stage IDs")):
    """A job begins."""

    job_id: Int
    submission_time: Int = 0
    stage_infos: list[StageName] = []
    stage_ids: list[Int] = []
    properties: Properties | None = None


class JobResult(_Event, rename=_names()):
    """How a job ended."""

    result: str
    exception: Failure | None = None


class JobEnd(_Event, rename=_names()):
    """A job ends."""

    job_id: Int
    job_result: JobResult
    completion_time: Int = 0


class StageSubmitted(_Event, rename=_names()):
    """A stage begins."""

    stage_info: StageInfo


class StageCompleted(_Event, rename=_names()):
    """A stage ends."""

    stage_info: StageInfo


class TaskReason(_Event, rename=_names()):
    """Why a task ended. Which fields are there depends on `reason`."""

    reason: str
    class_name: str = ""
    description: str = ""
    full_stack_trace: str = ""
    message: str = ""
    loss_reason: str = ""
    kill_reason: str = ""
    executor_id: str = ""


class TaskInfo(_Event, rename=_names()):
    """One run of one task."""

    task_id: Int
    index: Int
    attempt: Int = 0
    partition_id: Int = -1
    launch_time: Int = 0
    finish_time: Int = 0
    executor_id: str = ""
    host: str = ""
    failed: bool = False
    killed: bool = False


class ShuffleRead(_Event, rename=_names()):
    """What a task read from other stages."""

    fetch_wait_time: Int = 0
    remote_bytes_read: Int = 0
    local_bytes_read: Int = 0
    total_records_read: Int = 0


class ShuffleWrite(_Event, rename=_names()):
    """What a task wrote for other stages."""

    shuffle_bytes_written: Int = 0
    shuffle_records_written: Int = 0


class Input(_Event, rename=_names()):
    """What a task read from outside."""

    bytes_read: Int = 0
    records_read: Int = 0


class Output(_Event, rename=_names()):
    """What a task wrote to the outside."""

    bytes_written: Int = 0
    records_written: Int = 0


class TaskMetrics(_Event, rename=_names(cpu_ns="Executor CPU Time", gc_ms="JVM GC Time")):
    """What a task cost. Times are milliseconds unless the name says otherwise."""

    executor_run_time: Int = 0
    cpu_ns: Int = 0
    gc_ms: Int = 0
    peak_execution_memory: Int = 0
    memory_bytes_spilled: Int = 0
    disk_bytes_spilled: Int = 0
    shuffle_read_metrics: ShuffleRead = msgspec.field(default_factory=ShuffleRead)
    shuffle_write_metrics: ShuffleWrite = msgspec.field(default_factory=ShuffleWrite)
    input_metrics: Input = msgspec.field(default_factory=Input)
    output_metrics: Output = msgspec.field(default_factory=Output)


class TaskEnd(_Event, rename=_names(attempt="Stage Attempt ID", reason="Task End Reason")):
    """A task ended, well or badly. `task_metrics` is missing where the executor was lost with it."""

    stage_id: Int
    reason: TaskReason
    task_info: TaskInfo
    attempt: Int = 0
    task_metrics: TaskMetrics | None = None


class PlanMetric(_Event, rename="camel"):
    """A counter of a plan's node."""

    name: str = ""
    accumulator_id: Int = -1
    metric_type: str = ""


class PlanNode(_Event, rename="camel"):
    """A node of a physical plan, with what it reads from."""

    node_name: str = ""
    simple_string: str = ""
    children: list[PlanNode] = []
    metadata: dict[str, str] = {}
    metrics: list[PlanMetric] = []


class SqlStart(_Event, rename="camel"):
    """An SQL execution begins."""

    execution_id: Int
    description: str = ""
    details: str = ""
    physical_plan_description: str = ""
    spark_plan_info: PlanNode = msgspec.field(default_factory=PlanNode)
    time: Int = 0
    root_execution_id: Int | None = None


class SqlPlan(_Event, rename="camel"):
    """Adaptive execution changed its mind about a plan."""

    execution_id: Int
    physical_plan_description: str = ""
    spark_plan_info: PlanNode = msgspec.field(default_factory=PlanNode)


class SqlMetrics(_Event, rename="camel"):
    """Adaptive execution gave a plan more counters."""

    execution_id: Int
    sql_plan_metrics: list[PlanMetric] = []


class SqlDriver(_Event, rename="camel"):
    """Counters that the driver keeps, as pairs of id and value."""

    execution_id: Int
    accum_updates: list[tuple[Int, Int]] = []


class SqlEnd(_Event, rename="camel"):
    """An SQL execution ends. `error_message` is empty where it succeeded."""

    execution_id: Int
    time: Int = 0
    error_message: str | None = None


class StreamStarted(_Event, rename="camel"):
    """A streaming query begins."""

    id: str
    run_id: str
    name: str | None = None
    timestamp: str = ""


class StreamTerminated(_Event, rename="camel"):
    """A streaming query ends, with the exception if one ended it."""

    id: str
    run_id: str
    exception: str | None = None
    error_class_on_exception: str | None = None


class Source(_Event, rename="camel"):
    """Where a batch came from. Offsets are JSON of the source's own making."""

    description: str = ""
    start_offset: Any = None
    end_offset: Any = None
    latest_offset: Any = None
    num_input_rows: Int = 0
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None


class Sink(_Event, rename="camel"):
    """Where a batch went. -1 rows: the sink does not say."""

    description: str = ""
    num_output_rows: Int = -1


class StateOperator(_Event, rename="camel"):
    """What a stateful operator keeps."""

    operator_name: str = ""
    num_rows_total: Int = 0
    num_rows_updated: Int = 0
    memory_used_bytes: Int = 0
    num_rows_dropped_by_watermark: Int = 0


class Progress(_Event, rename="camel"):
    """One batch of a streaming query."""

    id: str
    run_id: str
    batch_id: Int
    name: str | None = None
    timestamp: str = ""
    batch_duration: Int = 0
    duration_ms: dict[str, Int] = {}
    event_time: dict[str, str] = {}
    state_operators: list[StateOperator] = []
    sources: list[Source] = []
    sink: Sink = msgspec.field(default_factory=Sink)


class StreamProgress(_Event, rename="camel"):
    """A batch ended."""

    progress: Progress


Event = (
    LogStart | ApplicationStart | ApplicationEnd | Detached | EnvironmentUpdate | ExecutorAdded | ExecutorRemoved
    | JobStart | JobEnd | StageSubmitted | StageCompleted | TaskEnd
    | SqlStart | SqlPlan | SqlMetrics | SqlDriver | SqlEnd
    | StreamStarted | StreamProgress | StreamTerminated
)  # fmt: skip

_TYPES: dict[str, type[Any]] = {
    "SparkListenerLogStart": LogStart,
    "SparkListenerApplicationStart": ApplicationStart,
    "SparkListenerApplicationEnd": ApplicationEnd,
    "kvwal.Detached": Detached,
    "SparkListenerEnvironmentUpdate": EnvironmentUpdate,
    "SparkListenerExecutorAdded": ExecutorAdded,
    "SparkListenerExecutorRemoved": ExecutorRemoved,
    "SparkListenerJobStart": JobStart,
    "SparkListenerJobEnd": JobEnd,
    "SparkListenerStageSubmitted": StageSubmitted,
    "SparkListenerStageCompleted": StageCompleted,
    "SparkListenerTaskEnd": TaskEnd,
    _SQL + "SparkListenerSQLExecutionStart": SqlStart,
    _SQL + "SparkListenerSQLAdaptiveExecutionUpdate": SqlPlan,
    _SQL + "SparkListenerSQLAdaptiveSQLMetricUpdates": SqlMetrics,
    _SQL + "SparkListenerDriverAccumUpdates": SqlDriver,
    _SQL + "SparkListenerSQLExecutionEnd": SqlEnd,
    _STREAM + "QueryStartedEvent": StreamStarted,
    _STREAM + "QueryProgressEvent": StreamProgress,
    _STREAM + "QueryTerminatedEvent": StreamTerminated,
}
_DECODE = {name.encode(): msgspec.json.Decoder(kind).decode for name, kind in _TYPES.items()}

# Frequent or large, and nothing is made of them: not even parsed.
_SKIPPED = frozenset(
    b"SparkListener" + name
    for name in (
        b"TaskStart", b"TaskGettingResult", b"BlockUpdated", b"BlockManagerAdded", b"BlockManagerRemoved", b"UnpersistRDD",
        b"ExecutorMetricsUpdate", b"StageExecutorMetrics", b"ResourceProfileAdded", b"SpeculativeTaskSubmitted",
    )
)  # fmt: skip

_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


def parse_line(line: bytes) -> Event | None:
    """The event that a line holds, or None for one that nothing is made of. Raises `DamagedLine`."""
    name = _name(line)
    if name in _SKIPPED and line.endswith(b"}"):
        return None
    decode = _DECODE.get(name)
    try:
        if decode is not None:
            event: Event = decode(line)
            return event
        if not isinstance(_decode_any(line).get("Event"), str):
            raise DamagedLine("the line is JSON, but no event")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedLine(str(error)) from error
    return None


def _name(line: bytes) -> bytes:
    """What the event is called, if the line begins as Spark begins it; else what a full parse says."""
    if line.startswith(PREFIX):
        return line[len(PREFIX) : line.find(b'"', len(PREFIX))]
    try:
        return str(_decode_any(line).get("Event", "")).encode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedLine(str(error)) from error
