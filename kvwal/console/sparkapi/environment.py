"""The environment of an application, and its stored RDDs, in Spark's REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvwal.console.sparkapi.applications import recorded
from kvwal.console.sparkapi.known import kept_state, state_of
from kvwal.console.sparkapi.parameters import not_found
from kvwal.console.sparkapi.serving import Asked, Rows
from kvwal.console.sparkevents.events import ExecutorRequest, ResourceProfileAdded
from kvwal.console.sparkstate.executor_rows import RddRow
from kvwal.console.sparkstate.state import State
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import ClasspathFolder
from kvwal.spark.records import Environment as Recorded
from kvwal.spark.redaction import Redaction, rules_of

_NOT_TOLD = "The environment"


def environment(asked: Asked) -> dict[str, Any]:
    """GET environment."""
    state = state_of(asked)
    if state is not None:
        return _of_state(state, asked)
    prefix, _ = recorded(asked)
    found = recorded_environment(asked.view.records, prefix)
    if found is None:
        raise not_found(f"{_NOT_TOLD} of {asked.key} is not known: no event has told it")
    return _of_record(found)


def recorded_environment(records: RecordReader, prefix: str) -> Recorded | None:
    """The environment of an application from its records; None if none was told."""
    key = f"{prefix}/env"
    for stored in records.between(key, key + "\0"):
        return stored.of(Recorded)
    return None


def _of_state(state: State, asked: Asked) -> dict[str, Any]:
    told = state.environment
    if told is None:
        raise not_found(f"{_NOT_TOLD} of {asked.key} is not known: no event has told it")
    rules = Redaction(rules_of(told.spark_properties))
    settings = (told.spark_properties, told.hadoop_properties, told.system_properties, told.metrics_properties)
    spark, hadoop, system, metrics = (_pairs(rules.settings(each, limit=None)) for each in settings)
    return {
        "runtime": _runtime(told.jvm),
        "sparkProperties": spark,
        "hadoopProperties": hadoop,
        "systemProperties": system,
        "metricsProperties": metrics,
        "classpathEntries": _pairs(told.classpath_entries),
        "resourceProfiles": [_profile(profile) for profile in state.profiles.values()],
    }


def _of_record(told: Recorded) -> dict[str, Any]:
    """From the record, which has not all settings of Hadoop, and of a profile the amounts alone."""
    return {
        "runtime": _runtime(told.jvm),
        "sparkProperties": _pairs(told.spark),
        "systemProperties": _pairs(told.system),
        "metricsProperties": _pairs(told.metrics),
        "classpathEntries": _pairs(dict(entry for folder in told.classpath for entry in _entries(folder))),
        "resourceProfiles": [
            {
                "id": profile.id,
                "executorResources": {
                    name: {"resourceName": name, "amount": amount} for name, amount in profile.executor.items()
                },
                "taskResources": {
                    name: {"resourceName": name, "amount": amount} for name, amount in profile.task.items()
                },
            }
            for profile in told.profiles
        ],
    }


def _entries(folder: ClasspathFolder) -> list[tuple[str, str]]:
    return [(folder.folder + entry, folder.source) for entry in folder.entries]


def _runtime(jvm: Mapping[str, str]) -> dict[str, str]:
    names = {"javaVersion": "Java Version", "javaHome": "Java Home", "scalaVersion": "Scala Version"}
    return {shown: jvm[name] for shown, name in names.items() if name in jvm}


def _pairs(settings: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(settings.items())


def _profile(profile: ResourceProfileAdded) -> dict[str, Any]:
    return {
        "id": profile.profile,
        "executorResources": {name: _request(request) for name, request in profile.executor.items()},
        "taskResources": {
            name: {"resourceName": request.resource_name, "amount": request.amount}
            for name, request in profile.task.items()
        },
    }


def _request(request: ExecutorRequest) -> dict[str, Any]:
    return {
        "resourceName": request.resource_name, "amount": request.amount, "discoveryScript": request.discovery_script,
        "vendor": request.vendor,
    }  # fmt: skip


def list_rdds(asked: Asked) -> Rows:
    """GET storage/rdd: those that have a stored partition."""
    rdds = kept_state(asked, "The list of stored RDDs").rdds
    return Rows([row for row in rdds.values() if row.num_cached_partitions > 0])


def one_rdd(asked: Asked) -> RddRow:
    """GET storage/rdd/<rdd>."""
    number = int(asked.path["rdd"])
    found = kept_state(asked, "The storage of an RDD").rdds.get(number)
    if found is None:
        raise not_found(f"no rdd found w/ id {number}")
    return found


def streaming(asked: Asked) -> Rows:
    """GET streaming/…: of Spark's DStreams, which an event log does not tell, so Spark's History Server refuses it, too."""
    _, app = recorded(asked)
    raise not_found(f"no streaming listener attached to {app.name}")
