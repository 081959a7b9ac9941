"""docker-compose.yml in real containers, by the lines of docs/cluster.md, the runbook and docs/spark.md: `make compose-test`.

It needs a container engine: the one that runs here, or Debian's, which root may have (tests/compose/engine.py). Other runs take
the test only where that engine is set up already, because it brings some hundred MB and takes half an hour.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose import engine, images
from tests.compose.project import CLUSTER, Project
from tests.support.polling import until

ASKED = "KVWAL_COMPOSE_TEST"
NODES = ("node-1", "node-2", "node-3")
APPLICATION = "local-1795435315571"  # of docs/spark.md
DRIVER_RECORDS = {
    "spark.pyspark.driver.python": "kvwal-python", "spark.kvwal.store": CLUSTER, "spark.kvwal.cluster": "kvwal",
    "spark.kvwal.namespace": "spark",
}  # fmt: skip


def why_not() -> str | None:
    """Why the test is skipped, or None."""
    if (lacking := engine.missing()) is not None:
        return lacking
    if os.environ.get(ASKED) or (engine.found() is None and engine.is_set_up()):
        return None
    return "containers are built and started by `make compose-test`, or once that has set an engine up"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """The project, built and not started; everything of it is gone afterwards."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    running = engine.start()
    try:
        if running.own:
            images.make(running)
        made = Project(running, tmp_path)
        made.close()  # what a run that was killed has left
        try:
            yield made
        finally:
            made.close()
    finally:
        running.close()


def tell(step: str) -> None:
    print(f"containers: {step}", file=sys.__stderr__, flush=True)


def put(project: Project, number: int) -> None:
    ran = project.kvwal("put", CLUSTER, "notes", f"note-{number}", str(number))
    assert ran.returncode == 0, ran.stderr


def notes(project: Project) -> list[str]:
    return project.rows("SELECT value FROM notes ORDER BY value::int")


def application(project: Project) -> list[str]:
    return project.rows("SELECT name, status, jobs_failed FROM spark_apps WHERE name = 'flights'")


def stands(project: Project, count: int) -> None:
    """All that was written is there, and the application that was recorded."""
    assert notes(project) == [str(number) for number in range(count)]
    assert application(project) == ["flights,SUCCEEDED,1"]


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_services_run_in_containers_as_the_pages_say(project: Project) -> None:
    before = project.volumes()
    for step in (
        build_and_start, submit, ask, a_day, speak_json, lose_a_node, lose_a_volume,
        lose_all_and_a_volume, come_back_from_down, refuse_a_wrong_setting,
    ):  # fmt: skip
        tell(step.__doc__ or "")
        step(project)
    tell("nothing is left behind")
    project.type("docker compose down", "--volumes")
    assert project.remains() == []
    assert project.volumes() == before


def build_and_start(project: Project) -> None:
    """build, and up"""
    project.type("docker compose build")
    project.type("docker compose up --detach --wait")
    states = project.states()
    assert {name: states[name] for name in states if states[name] != "healthy"} == {}
    assert {*NODES, "recorder", "spark-master", "prometheus", "object-store"} <= states.keys()


def submit(project: Project) -> None:
    """Run submit"""
    said = project.type("docker compose run --rm submit examples/flights/app.py")
    assert said.splitlines()[-1] == "A job failed, as it should."


def ask(project: Project) -> None:
    """Questions to the cluster and to its archive"""
    until(lambda: application(project) == ["flights,SUCCEEDED,1"] or None)
    for number in range(3):
        put(project, number)
    jobs = project.type("docker compose exec recorder kvwal jobs kvwal://node-1:5701 --cluster")
    assert "flights" in jobs
    listed = project.type("docker compose run --rm --no-deps node-1 kvwal archive list s3://kvwal/archive")
    assert "node-" in listed, "each node archives what it owns, at its own time"
    assert project.follow("docker compose logs --follow object-store")
    stands(project, 3)


def a_day(project: Project) -> None:
    """The tutorial with Spark: two of its days, and its questions. The driver of the second one records itself"""
    wrong = project.ran("docker compose run --rm submit examples/orders.py 2026-11-$day", **{"$day": "19"})
    assert wrong.returncode == 1, wrong.stderr[-4000:]
    settings = [word for name, value in DRIVER_RECORDS.items() for word in ("--conf", f"{name}={value}")]
    project.compose("run", "--rm", "--no-TTY", "submit", *settings, "examples/orders.py", "2026-11-21")
    times = [
        project.type("""docker compose exec recorder kvwal put kvwal://node-1:5701 rates eur '{"usd": 1.08}'"""),
        project.type("""docker compose exec recorder kvwal put kvwal://node-1:5701 rates eur '{"usd": 1.11}'"""),
    ]
    history = project.type("docker compose exec recorder kvwal history kvwal://node-1:5701 rates eur")
    assert [line.partition("  ")[0] for line in history.splitlines()[1:]] == [time.strip() for time in times[::-1]]
    questions(project)


def questions(project: Project) -> None:
    apps = "SELECT app FROM spark_apps WHERE name = 'daily orders'"
    until(lambda: len(project.rows(f"{apps} AND status <> 'RUNNING'")) == 2 or None)
    (failed,) = project.rows(f"{apps} AND jobs_failed > 0")
    (recorded,) = project.rows(f"{apps} AND status_from = 'python' AND status = 'SUCCEEDED'")
    why = project.type("docker compose exec recorder kvwal jobs kvwal://node-1:5701 --failed")
    assert "clean the orders of 2026-11-19" in why
    assert "[CAST_INVALID_INPUT]" in why
    one = project.type("docker compose exec recorder kvwal jobs kvwal://node-1:5701 local", **{APPLICATION: failed})
    assert "examples/orders.py:27" in one
    assert "of median" in project.type("docker compose exec recorder kvwal jobs kvwal://node-1:5701 --runs")
    ways = project.type("docker compose exec recorder kvwal query kvwal://node-1:5701").splitlines()[1:]
    assert [line.split()[0] for line in ways] == [recorded] * 2
    assert [(line.split()[2], line.split()[-1]) for line in ways] == [("write", "1,000"), ("read", "1,000")]


def speak_json(project: Project) -> None:
    """Each line on standard error is JSON"""
    said = [line for name in (*NODES, "recorder") for line in project.standard_error(name).splitlines()]
    assert said
    assert [line for line in said if not is_json(line)] == []


def is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def lose_a_node(project: Project) -> None:
    """Kill a node, and let it come back"""
    project.compose("kill", "node-1")
    put(project, 3)
    stands(project, 4)
    project.compose("up", "--detach", "--wait", "node-1")
    stands(project, 4)


def lose_a_volume(project: Project) -> None:
    """Lose the volume of a node, while the others serve"""
    project.lose_volume("node-2")
    put(project, 4)
    project.type("docker compose up --detach node-2")
    put(project, 5)
    stands(project, 6)
    healthy(project)
    adopted(project)


def healthy(project: Project) -> None:
    """Returns when all nodes are. `up --wait` gives up at once where one was not in time, and its check goes on."""
    until(lambda: {"healthy"} == {state for name, state in project.states().items() if name in NODES} or None)


def adopted(project: Project) -> None:
    """Returns when the nodes have nothing to adopt: until then no other disk has the unarchived entries."""
    asking = "import urllib.request as r; print(r.urlopen('http://{0}:8701/metrics').read().decode())"

    def look() -> bool | None:
        told = [
            project.said("exec", "--no-TTY", name, "/srv/kvwal/node/bin/python", "-c", asking.format(name))
            for name in NODES
        ]
        return all("kvwal_adopting 0.0" in page for page in told) or None

    until(look)


def lose_all_and_a_volume(project: Project) -> None:
    """Stop all nodes, and lose a volume: the node is refused until it is restored by the line of the runbook"""
    project.compose("stop", *NODES)
    project.lose_volume("node-2")
    refused = project.compose("up", "--detach", "--wait", *NODES, checked=False)
    assert refused.returncode != 0
    assert project.states()["node-2"] == "unhealthy"
    assert "--take-over" in project.said("logs", "node-2")
    waiting = project.kvwal("get", CLUSTER, "notes", "note-0")
    assert (waiting.returncode, "still loading" in waiting.stderr) == (3, True), waiting.stderr
    project.type("docker compose run --rm --no-deps node-2 kvwal restore s3://kvwal/archive /srv/kvwal/data")
    project.type("docker compose restart node-2")
    healthy(project)
    stands(project, 6)


def come_back_from_down(project: Project) -> None:
    """down, and up"""
    project.type("docker compose down")
    project.type("docker compose up --detach --wait")
    stands(project, 6)


def refuse_a_wrong_setting(project: Project) -> None:
    """A wrong setting: the nodes are held, and `up --wait` ends"""
    wrong = project.compose("up", "--detach", "--wait", "--no-deps", *NODES, checked=False, KVWAL_CLUSTER="not/a/name")
    assert wrong.returncode != 0
    assert "unhealthy" in {project.states()[name] for name in NODES}
    assert "not started again" in project.type("docker compose logs node-1")
