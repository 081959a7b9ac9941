"""Events of an application: its log, its start and end, its settings and its executors."""

from __future__ import annotations

import msgspec

from kvwal.spark.events.base import EventStruct, Int, spark_names


class LogStart(EventStruct, rename=spark_names()):
    """The first line of a log, and of each rolled file. Databricks gives it a name of its own."""

    spark_version: str = ""


class ApplicationStart(EventStruct, rename=spark_names(app_id="App ID", attempt="App Attempt ID")):
    """The start of an application. `attempt` is set by cluster managers that run an application again after a failure.

    The logs and the attributes of the driver are there where the cluster manager runs it.
    """

    app_name: str
    timestamp: Int
    user: str = ""
    app_id: str | None = None
    attempt: str | None = None
    driver_logs: dict[str, str] | None = None
    driver_attributes: dict[str, str] | None = None


class ApplicationEnd(EventStruct, rename=spark_names(exit_code="ExitCode")):
    """The stop of the application's SparkContext. Spark writes `exit_code` from version 4 on."""

    timestamp: Int
    exit_code: Int | None = None


class Attached(EventStruct, rename=spark_names()):
    """An event of kvwal, not of Spark: a recorder began to listen."""


class Detached(EventStruct, rename=spark_names()):
    """An event of kvwal, not of Spark: a recorder stopped listening.

    `status` and `exit_code` say how the driver's Python ended (see `endings`). `error` and `stack` are those of the exception
    that ended it; empty if none did. `killed`: Python was gone without a word. `dropped` counts the events that Spark dropped
    because its queue was full.
    """

    timestamp: Int = 0
    killed: bool = False
    status: str = ""
    exit_code: Int | None = None
    error: str = ""
    stack: str = ""
    dropped: Int = 0


class EnvironmentUpdate(EventStruct, rename=spark_names(jvm="JVM Information")):
    """The settings of the application. `classpath_entries` are paths, each with who added it."""

    jvm: dict[str, str] = msgspec.field(default_factory=dict)
    spark_properties: dict[str, str] = msgspec.field(default_factory=dict)
    system_properties: dict[str, str] = msgspec.field(default_factory=dict)
    metrics_properties: dict[str, str] = msgspec.field(default_factory=dict)
    classpath_entries: dict[str, str] = msgspec.field(default_factory=dict)


class ResourceRequest(EventStruct, rename=spark_names()):
    """The amount of one resource. Spark counts memory in MiB."""

    amount: Int = 0


class TaskResourceRequest(EventStruct, rename=spark_names()):
    """The amount of one resource that a task takes: half a GPU, say."""

    amount: float = 0.0


class ResourceProfileAdded(
    EventStruct,
    rename=spark_names(
        profile="Resource Profile Id", executor="Executor Resource Requests", task="Task Resource Requests"
    ),
):
    """What executors of a profile have, and what its tasks take, by name. Profile 0 is that of the settings."""

    profile: Int
    executor: dict[str, ResourceRequest] = msgspec.field(default_factory=dict)
    task: dict[str, TaskResourceRequest] = msgspec.field(default_factory=dict)


class ResourceInformation(EventStruct):
    """The addresses of one kind of resource: the numbers of its GPUs, say."""

    addresses: list[str] = msgspec.field(default_factory=list)


class ExecutorInfo(EventStruct, rename=spark_names(profile="Resource Profile Id")):
    """Host and cores of an executor, its resource profile, and what the cluster manager says about it."""

    host: str = ""
    total_cores: Int = 0
    profile: Int = 0
    log_urls: dict[str, str] = msgspec.field(default_factory=dict)
    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    resources: dict[str, ResourceInformation] = msgspec.field(default_factory=dict)


class ExecutorAdded(EventStruct, rename=spark_names()):
    """An executor joined."""

    timestamp: Int
    executor_id: str
    executor_info: ExecutorInfo = msgspec.field(default_factory=ExecutorInfo)


class ExecutorRemoved(EventStruct, rename=spark_names(reason="Removed Reason")):
    """An executor left. `reason` is Spark's text."""

    timestamp: Int
    executor_id: str
    reason: str = ""


class BlockManagerId(EventStruct, rename=spark_names()):
    """The executor of a block manager, and its host."""

    executor_id: str
    host: str = ""


class BlockManagerAdded(EventStruct, rename=spark_names(block_manager="Block Manager ID")):
    """An executor, or the driver, has memory for blocks: `maximum_memory` bytes, on its heap and off it."""

    block_manager: BlockManagerId
    timestamp: Int
    maximum_memory: Int = 0
