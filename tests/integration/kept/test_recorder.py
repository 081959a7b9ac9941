"""A real driver whose recorder keeps Spark's event log: the result is that of `kvwal record --keep-logs`, however it ends."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

import kvwal
from kvwal.spark.eventlog.lines import log_bytes
from kvwal.spark.eventlog.logs import LocalEventLog
from kvwal.spark.kept.contents import KEPT_LOGS
from tests.repository.source import ROOT
from tests.support.archive import s3
from tests.support.cli import kvwal as command
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast
from tests.support.cluster.nodes import running as running_node
from tests.support.lineage.console import console
from tests.support.polling import until
from tests.support.recording.follow_command import follow_command
from tests.support.recording.keeping import KeepingDriver, keeping_driver, kept, kept_in
from tests.support.spark import SETTINGS, environment

KVWAL = Path(sys.executable).with_name("kvwal")
INSIDE = "with recorder() as r:\n    work()\n    spark.stop()\ntell(r)"
AFTER = "with recorder() as r:\n    work()\nspark.stop()"
NEVER = "r = recorder().start()\nfor _ in range(6):\n    work(LARGE)"
FAILS = "with recorder() as r:\n    work()\n    fail()"
ONE_FILE = {"spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"}
ROLLED = {
    "spark.eventLog.rolling.enabled": "true", "spark.eventLog.rolling.maxFileSize": "10m", "spark.eventLog.compress": "false",
}  # fmt: skip


def compressed(codec: str) -> dict[str, str]:
    return {"spark.eventLog.compress": "true", "spark.eventLog.compression.codec": codec}


def plain(log: Path) -> bytes:
    """The lines of an event log, of all of its files."""
    return b"".join(data for file in LocalEventLog(log).files() for data in log_bytes(file.path))


def as_a_command_keeps_it(ran: KeepingDriver, folder: Path, *location: str) -> None:
    """The tasks, and the records that are made anew of the kept log, are those of a command at a location of its own."""
    root = str(folder / "by-command")
    assert command("record", root, ran.log, "--keep-logs", "--archive", "none").code == 0
    ours, theirs = (
        command("jobs", *where, ran.app, "--tasks", "0", "--format", "csv") for where in (location, (root,))
    )
    assert (ours.code, ours.out) == (theirs.code, theirs.out) == (0, ours.out), (ours.err, theirs.err)
    assert ours.out.count("SUCCEEDED") > 1
    again = command("record", *location, ran.app, "--again", "--json")
    assert (again.code, json.loads(again.out)["complete"]) == (0, True), again.err
    tables = [
        command(
            "query",
            *where,
            f"SELECT id, name, status, tasks, duration_ms FROM spark_jobs WHERE app = '{ran.app}' ORDER BY id",
        )
        for where in (location, (root,))
    ]
    assert tables[0] == tables[1]
    assert tables[0].code == 0, tables[0].err


@pytest.mark.parametrize(
    ("ends", "settings", "code"),
    [
        (INSIDE, ONE_FILE, 0),
        pytest.param(AFTER, ROLLED | compressed("zstd"), 0, marks=pytest.mark.long),
        pytest.param(NEVER, ROLLED, 0, marks=pytest.mark.long),
        pytest.param(NEVER, ONE_FILE | compressed("lz4"), 0, marks=pytest.mark.long),
        pytest.param(FAILS, ONE_FILE | compressed("snappy"), 1, marks=pytest.mark.long),
    ],
)
def test_a_recorder_keeps_what_a_command_keeps(ends: str, settings: dict[str, str], code: int, tmp_path: Path) -> None:
    root = tmp_path / "root"
    with keeping_driver(ends, root, tmp_path / "driver", **settings) as ran:
        told = json.loads(ran.line()) if ends == INSIDE else None
        assert ran.exit_code() == code, ran.said()
    as_a_command_keeps_it(ran, tmp_path, str(root))
    ((name, (attributes, data)),) = kept(root).items()
    assert {name: (attributes, data)} == kept(tmp_path / "by-command")
    assert f"is kept as {name}." in ran.said()
    assert told is None or (told["kept_log"], told["not_kept"]) == (name, None)
    assert name.endswith(".zstd"), "the log was finished"
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as lines:
        assert lines.read() == plain(ran.log)
    if ends == NEVER and "true" in settings["spark.eventLog.rolling.enabled"]:
        assert len(LocalEventLog(ran.log).files()) > 1
    with kvwal.open(root, read_only=True) as store:
        app = store.map("spark")[f"{ran.app}/app"]
    assert (app["status"], app["status_from"]) == ("FAILED" if code else "SUCCEEDED", "python")


def test_the_rest_api_and_a_command_give_the_kept_log_back(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with keeping_driver(AFTER, root, tmp_path / "driver", {}, **ONE_FILE) as ran:
        assert ran.exit_code() == 0, ran.said()
    assert command("archive", "run", root).code == 0
    name = f"{ran.app}/{ran.app}.zstd"
    for number, place in enumerate((root, root / "_archive")):
        got = command("content", "get", place, KEPT_LOGS, name, "-o", tmp_path / f"copy-{number}")
        assert got.code == 0, got.err
        with (tmp_path / f"copy-{number}").open("rb") as file:
            assert zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read() == plain(ran.log)
    with (
        console(root, "--archive", "none", log=tmp_path / "console") as running,
        urllib.request.urlopen(f"{running.url}/api/v1/applications/{ran.app}/logs") as answer,
    ):
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    assert archive.read(ran.app) == plain(ran.log)


@pytest.mark.long
def test_two_drivers_that_end_at_once_keep_into_one_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    ends = "with recorder() as r:\n    work()\n    spark.stop()\n    stop_here()\ntell(r)"
    with (
        keeping_driver(ends, root, tmp_path / "first", **ONE_FILE) as first,
        keeping_driver(ends, root, tmp_path / "second", **ONE_FILE) as second,
    ):
        drivers = (first, second)
        assert [ran.line() for ran in drivers] == ["here", "here"]
        for ran in drivers:
            ran.go_on()
        assert [json.loads(ran.line())["kept_log"] for ran in drivers] == [
            f"{ran.app}/{ran.app}.zstd" for ran in drivers
        ]
        assert [ran.exit_code() for ran in drivers] == [0, 0]
    assert set(kept(root)) == {f"{ran.app}/{ran.app}.zstd" for ran in drivers}
    assert {path.name for path in (root / "default/local/spark").iterdir()} == {first.app, second.app}


@pytest.mark.long
def test_a_driver_that_is_killed_while_it_keeps_leaves_nothing_half(tmp_path: Path) -> None:
    root = tmp_path / "root"
    stops = """
def write_the_half(files, writer, beat):
    writer.write(files[0].path.read_bytes()[:20_000])
    writer._write_frame(20_000)
    stop_here()
keeping._copy = write_the_half
"""
    with keeping_driver(stops + INSIDE, root, tmp_path / "driver", **ONE_FILE) as ran:
        assert ran.line() == "here"
        ran.kill()
    assert kept(root) == {}
    with kvwal.open(root, read_only=True) as store:
        before = store.map("spark")[f"{ran.app}/app"]
    assert (before["status"], before["jobs"] > 0) == ("SUCCEEDED", True)
    recorded = command("record", root, ran.log, "--keep-logs", "--archive", "none")
    assert (recorded.code, "1 log is kept." in recorded.err) == (0, True), recorded.err
    as_a_command_keeps_it(ran, tmp_path, str(root))
    assert kept(root) == kept(tmp_path / "by-command")
    with kvwal.open(root, read_only=True) as store:
        after = store.map("spark")[f"{ran.app}/app"]
    assert (after["jobs"], after["tasks"]) == (before["jobs"], before["tasks"])


def test_an_application_without_an_event_log_is_refused_or_recorded_without_it(tmp_path: Path) -> None:
    """By the program it is an error; by a setting, which may be that of all applications, the records are worth more."""
    ends = """
try:
    recorder()
except Exception as error:
    print(type(error).__mro__[1].__name__, error, flush=True)
context._conf.set("spark.kvwal.keepLogs", "maybe")
try:
    record(spark)
except Exception as error:
    print(type(error).__name__, error, flush=True)
context._conf.set("spark.kvwal.keepLogs", "TRUE")
r = record(spark)
work()
r.close()
tell(r)
"""
    root = tmp_path / "root"
    settings = {"spark.eventLog.enabled": "false", "spark.kvwal.store": str(root), "spark.kvwal.archive": "none"}
    with keeping_driver(ends, root, tmp_path / "driver", **settings) as ran:
        assert ran.line().startswith("ConfigError Spark writes no event log of this application")
        assert ran.line() == "ConfigError spark.kvwal.keepLogs is 'maybe'. Set it to true or false."
        told = json.loads(ran.line())
        assert (told["events"] > 0, told["kept_log"], told["failure"]) == (True, None, None)
        assert ran.exit_code() == 0
    assert "The application is recorded, but its event log is not kept: Spark writes no event log" in ran.said()
    assert kept(root) == {}


@pytest.mark.long
def test_submit_keeps_the_log_of_an_application_that_knows_nothing_of_kvwal(tmp_path: Path) -> None:
    """It does not stop Spark either: spark-submit has started it, and would end it after the program."""
    program, logs = tmp_path / "app.py", tmp_path / "logs"
    program.write_text(
        "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().range(0, 10, 1, 2).collect()\n"
    )
    logs.mkdir()
    settings = {**SETTINGS, **ONE_FILE, "spark.eventLog.enabled": "true", "spark.eventLog.dir": logs.as_uri()}
    words = [word for setting in settings.items() for word in ("--conf", "=".join(setting))]
    ran = subprocess.run(
        [str(KVWAL), "submit", "--archive", "none", "--keep-logs", "data", "--master", "local[2]", *words, str(program)],
        env=environment(ROOT), cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    (log,) = logs.iterdir()
    assert command("record", tmp_path / "by-command", log, "--keep-logs", "--archive", "none").code == 0
    assert kept(tmp_path / "data") == kept(tmp_path / "by-command") != {}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two members that archive to a bucket."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.server().environment().items():
            patch.setenv(name, value)
        with cluster(tmp_path_factory.mktemp("two"), 2, url=f"{s3.bucket(s3.server())}/archive") as made:
            yield made


@needs_hazelcast
@pytest.mark.long
@pytest.mark.parametrize("ends", [INSIDE, NEVER])
def test_a_cluster_has_the_log_in_its_bucket(two: Cluster, ends: str, tmp_path: Path) -> None:
    options = {"cluster": CLUSTER, "spool": str(tmp_path / "spool")}
    with keeping_driver(ends, two.location, tmp_path / "driver", options, **ONE_FILE) as ran:
        assert ends != INSIDE or json.loads(ran.line())["kept_log"] == f"{ran.app}/{ran.app}.zstd"
        assert ran.exit_code() == 0, ran.said()
    as_a_command_keeps_it(ran, tmp_path, two.location, "--cluster", CLUSTER)
    name = f"{ran.app}/{ran.app}.zstd"
    with kvwal.connect(two.addresses, cluster=CLUSTER) as store:
        contents = store.content(KEPT_LOGS)
        assert kept_in(contents)[name] == kept(tmp_path / "by-command")[name]
        assert len(contents.history(name)) == 1
        assert not [key for key in store.map("spark") if key.startswith(("!lease/", "!follower/"))]
    assert not [path for node in two.nodes for path in node.root.rglob("content/*/*")]


@needs_hazelcast
@pytest.mark.long
def test_a_follower_that_keeps_logs_and_a_recorder_keep_one_log_once(two: Cluster, tmp_path: Path) -> None:
    ends = "with recorder() as r:\n    work()\n    stop_here()\n    spark.stop()\ntell(r)"
    options = {"cluster": CLUSTER, "spool": str(tmp_path / "spool")}
    with (
        keeping_driver(ends, two.location, tmp_path / "driver", options, **ONE_FILE) as ran,
        (tmp_path / "stderr").open("w") as errors,
    ):
        assert ran.line() == "here"
        words = follow_command(two.location, ran.logs, "--keep-logs", "--cluster", CLUSTER, every=0.1)
        following = subprocess.Popen(words, stderr=errors, stdout=subprocess.DEVNULL)
        try:
            until(lambda: "left alone" in (tmp_path / "stderr").read_text() or None)
            ran.go_on()
            told = json.loads(ran.line())
            assert ran.exit_code() == 0, ran.said()
            with kvwal.connect(two.addresses, cluster=CLUSTER) as store:
                until(lambda: (store.map("spark").get(f"{ran.app}/log") or {}).get("complete"))
        finally:
            following.send_signal(signal.SIGTERM)
            following.wait()
    name = f"{ran.app}/{ran.app}.zstd"
    assert (told["kept_log"], told["not_kept"]) == (name, None)
    with kvwal.connect(two.addresses, cluster=CLUSTER) as store:
        assert len(store.content(KEPT_LOGS).history(name)) == 1


@needs_hazelcast
@pytest.mark.long
def test_a_cluster_without_an_archive_records_and_says_why_no_log_is_kept(tmp_path: Path) -> None:
    with running_node(tmp_path / "node", more=["--archive", "none"]) as node:
        location, options = f"kvwal://{node.address}", {"cluster": CLUSTER, "spool": str(tmp_path / "spool")}
        with keeping_driver(INSIDE, location, tmp_path / "driver", options, **ONE_FILE) as ran:
            told = json.loads(ran.line())
            assert ran.exit_code() == 0
        assert (told["kept_log"], told["failure"]) == (None, None)
        assert "archive" in told["not_kept"]
        assert f"`kvwal record {location} --cluster {CLUSTER} --namespace default {ran.log} --keep-logs`" in ran.said()
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            assert store.map("spark")[f"{ran.app}/app"]["status"] == "SUCCEEDED"
