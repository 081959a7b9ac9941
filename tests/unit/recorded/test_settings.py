"""The settings of an application: Spark's, the JVM's, those of metrics, its classpath and its resource profiles."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.entry import Entry
from kvwal.spark import records as rec
from kvwal.spark.events.application import ExecutorAdded
from kvwal.spark.projection.projection import Projection
from kvwal.spark.tables.catalogue import TABLES
from tests.support.spark_records import recorded_lines

ENV = "app/env"
SYSTEM = "System Classpath"


def settings(**sections: dict[str, str]) -> dict[str, Any]:
    told = {"JVM Information": {}, "Spark Properties": {"spark.app.name": "a"}} | {
        name.replace("_", " "): section for name, section in sections.items()
    }
    return {"Event": "SparkListenerEnvironmentUpdate", **told}


def test_properties_of_the_jvm_and_of_metrics_are_recorded_without_secrets() -> None:
    env = recorded_lines(
        settings(
            System_Properties={
                "java.io.tmpdir": "/tmp",
                "db.password": "hush",
                "sun.java.command": "run --token hush x",
            },
            Metrics_Properties={"*.sink.servlet.path": "/metrics/json"},
            Hadoop_Properties={"fs.defaultFS": "hdfs://name-node"},
        )
    )[ENV]
    assert env.system == {
        "java.io.tmpdir": "/tmp",
        "db.password": "*********(redacted)",
        "sun.java.command": "*********(redacted)",
    }
    assert (env.metrics, env.left_out) == ({"*.sink.servlet.path": "/metrics/json"}, {})


def test_the_classpath_has_the_jars_of_the_application_before_sparks_own() -> None:
    jars = {"/spark/jars/b.jar": SYSTEM, "/spark/jars/a.jar": SYSTEM, "/spark/conf/": SYSTEM}
    env = recorded_lines(settings(Classpath_Entries={**jars, "spark://host:7078/jars/mine.jar": "Added By User"}))[ENV]
    assert env.classpath == [
        rec.ClasspathFolder("Added By User", "spark://host:7078/jars/", ["mine.jar"]),
        rec.ClasspathFolder(SYSTEM, "/spark/conf/", [""]),
        rec.ClasspathFolder(SYSTEM, "/spark/jars/", ["a.jar", "b.jar"]),
    ]


def test_sections_are_bounded_and_the_rest_is_counted() -> None:
    many = {f"name-{number:05}": "x" * 100 for number in range(500)}
    jars = {f"/spark/jars/{'x' * 60}-{number:05}.jar": SYSTEM for number in range(2_000)}
    last = {"/zzz/mine.jar": "Added By User"}
    env = recorded_lines(settings(System_Properties=many, Classpath_Entries=jars | last), times=2)[ENV]
    assert len(env.system) == 20_000 // len("name-00000" + "x" * 100)
    kept = sum(len(folder.entries) for folder in env.classpath)
    assert env.classpath[0].entries == ["mine.jar"]
    assert env.left_out == {"system": 500 - len(env.system), "classpath": 2_001 - kept}
    assert len(msgspec.json.encode(env)) < 60_000


def test_settings_and_jars_are_rows() -> None:
    jars = {"/spark/jars/a.jar": SYSTEM}
    env = recorded_lines(settings(System_Properties={"java.io.tmpdir": "/tmp"}, Classpath_Entries=jars))[ENV]
    values = [rec.to_value(env), {"kind": "env", "spark": {"k": "1"}}]
    entries = [Entry(ENV.encode(), "str", msgspec.json.encode(value), "json", False, 1) for value in values]
    rows = TABLES["spark_settings"].read(entries, ["scope", "name", "value"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("spark", "spark.app.name", "a"),
        ("system", "java.io.tmpdir", "/tmp"),
        ("classpath", "/spark/jars/a.jar", SYSTEM),
        ("spark", "k", "1"),
    ]


def profile(number: int, memory: int, gpus: float) -> dict[str, Any]:
    return {
        "Event": "SparkListenerResourceProfileAdded", "Resource Profile Id": number,
        "Executor Resource Requests": {
            "memory": {"Resource Name": "memory", "Amount": memory}, "gpu": {"Resource Name": "gpu", "Amount": 2},
        },
        "Task Resource Requests": {"gpu": {"Resource Name": "gpu", "Amount": gpus}},
    }  # fmt: skip


def test_resource_profiles_have_what_executors_have_and_what_tasks_take() -> None:
    env = recorded_lines(profile(1, 512, 0.5), profile(0, 1_024, 1.0), profile(1, 512, 0.25), times=2)[ENV]
    assert env.profiles == [
        rec.ResourceProfile(0, {"gpu": 2, "memory": 1_024}, {"gpu": 1.0}),
        rec.ResourceProfile(1, {"gpu": 2, "memory": 512}, {"gpu": 0.25}),
    ]
    assert env.executor_memory_bytes == {"0": 1 << 30, "1": 512 << 20}


def test_an_executor_that_comes_does_not_write_the_settings_again() -> None:
    stored = {ENV: rec.to_value(rec.Environment(executor_memory_bytes={"0": 7}))}
    projection = Projection("app", stored.get)
    projection.apply(ExecutorAdded(1, "1"), 1)
    changed = projection.take()
    assert (ENV in changed, changed["app/executor/000001"]["memory_bytes"]) == (False, 7)
