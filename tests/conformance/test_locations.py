"""One business, written into a node, is read from the cluster, from the node's folder and from its archive: equal answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

import kvwal
from kvwal.client import key_pages, memory
from kvwal.client.cluster_business import ClusterBusiness
from kvwal.cluster import requests
from kvwal.location.cluster import ClusterMaps
from tests.repository.source import ROOT
from tests.support.cli import Ran
from tests.support.cli import kvwal as run
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running
from tests.support.polling import until
from tests.support.ports import free_port

pytestmark = needs_hazelcast

HOSTILE = [
    "",
    " ",
    "ünï ☃ \U0001f600",
    "a\nb\tc",
    "\x1b[31mred",
    "%_\\",
    "b\\",
    "'; DROP TABLE jobs; --",
    "0xff",
    "7",
    "\x00",
]
BINARY = os.fsdecode(b"\xff\x00")
"""The key whose value is no text, as it is typed."""
RUN = UUID("123e4567-e89b-12d3-a456-426614174000")
NAMES = ("--cluster", CLUSTER)
LOCATIONS = ("cluster", "folder", "archive", "file URL")


class Written(NamedTuple):
    """The locations of the data, by kind, and the node that serves it."""

    locations: dict[str, str]
    node: Node


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    root = tmp_path_factory.mktemp("locations") / "root"
    with running(root, config="[log]\narchive_seconds = 0.2\n") as node:
        cluster = f"kvwal://{node.address}"
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            write(store)
        assert run("record", cluster, ROOT / "tests" / "golden" / "event-log", *NAMES).code == 0
        archive = root / "_archive"
        until(lambda: True if archived(root) == archived(archive) else None)
        yield Written(
            {"cluster": cluster, "folder": str(root), "archive": str(archive), "file URL": f"file://{archive}"}, node
        )


def write(store: Any) -> None:
    work = store.business("work")
    work.map("state").put_many({"a": 1, "b": [2]})
    work.map()["own"] = 1
    for name in ("todo", "todo2", ""):
        work.queue(name).put_many([f"first of {name}", {"n": None}, b"\xff\x00"], priority=3)
        work.queue(name).put("urgent", priority=-2, ttl=3600)
    jobs = store.map("jobs")
    for text in HOSTILE:
        jobs[text] = {"text": text}
    jobs.put_many(
        {7: "int", 2**70: "huge", 1.5: "float", True: "bool", None: "none", b"\xff\x00": b"\x00\xfe", b"a": 1}
    )
    jobs.put_many(
        {datetime(2026, 1, 31, tzinfo=UTC): 1, date(2026, 1, 31): 2, Decimal("1.50"): 3, RUN: 4, ("job", 7): 5}
    )
    jobs.put("for an hour", "value", ttl=3600)
    jobs.put("soon", "gone", ttl=0.001)
    jobs["changed"] = 1
    jobs["changed"] = [2, None]
    jobs["deleted"] = 1
    del jobs["deleted"]
    with jobs.transaction() as together:
        together["one"], together["two"] = 1, 2.5
    assert work.queue("todo").take_many(2) == ["urgent", "first of todo"]
    with work.transaction() as t:
        t.queue("todo2").put(t.queue("todo").take())
        del t.map("state")["b"]
    store.map("words").put_many({f"key-{number:04}": number for number in range(3000)})
    until(lambda: None if "soon" in jobs else True)


def archived(location: Path) -> dict[str, int]:
    """The last sequence of each business in a root or an archive; of nothing at all, an empty answer."""
    ran = run("stats", location, *NAMES, "--json")
    figures = json.loads(ran.out)["businesses"] if ran.code == 0 else {}
    return {name: nodes["node-1"]["last_sequence"] for name, nodes in figures.items()}


def ask(written: Written, kind: str, command: tuple[str, ...]) -> Ran:
    return run(command[0], written.locations[kind], *command[1:], *NAMES)


def keys() -> Iterator[tuple[str, ...]]:
    """Every key that was written, and one that was not, as they are typed."""
    for text in (*HOSTILE, "for an hour", "soon", "changed", "deleted", "one", "never"):
        yield (text,)
    for text, kind in (
        ("7", "int"),
        (str(2**70), "int"),
        ("1.5", "float"),
        ("true", "bool"),
        ("null", "none"),
        ("a", "bytes"),
        ("2026-01-31T05:30:00+05:30", "datetime"),
        ("2026-01-31", "date"),
        ("1.5", "decimal"),
        (str(RUN), "uuid"),
        ('["job", 7]', "tuple"),
        ('["job", 7.0]', "tuple"),
    ):
        yield text, "--key-class", kind
    yield BINARY, "--key-class", "bytes"


COMMANDS = [
    ("scan", "jobs", "--json"),
    ("scan", "jobs", "--format", "csv"),
    ("scan", "jobs", "--prefix", "b\\", "--json"),
    ("scan", "jobs", "--prefix", "%_", "--json"),
    ("scan", "words", "--prefix", "key-29", "--json"),
    ("scan", "words", "--from", "key-0100", "--to", "key-0110", "--json"),
    ("scan", "words", "--from", "key-0100", "--reverse", "--limit", "3", "--json"),
    ("scan", "words", "--prefix", "key-29", "--to", "key-2950", "--reverse", "--limit", "3", "--json"),
    ("scan", "jobs", "--reverse", "--json"),
    ("scan", "jobs", "--limit", "4", "--json"),
    ("scan", "jobs", "--from", "0", "--key-class", "int", "--json"),
    ("scan", "jobs", "--from", "2026-01-01", "--key-class", "date", "--json"),
    ("scan", "jobs", "--from", '["job"]', "--to", '["job", 8]', "--key-class", "tuple"),
    ("export", "words", "--to", "key-0003"),
    ("export", "jobs", "--from", "1", "--key-class", "float", "--reverse", "--limit", "2"),
    ("export", "jobs"),
    ("export", "words"),
    ("ttl", "jobs", "changed", "--json"),
    ("query", "SELECT * FROM jobs ORDER BY key_class, key", "--json"),
    ("query", "SELECT * FROM jobs WHERE key = '7'", "--json"),
    ("query", "SELECT * FROM jobs WHERE key IN ('0xff00', 'changed', 'never')", "--json"),
    ("query", "SELECT key, timestamp FROM words WHERE key LIKE 'key-000%' ORDER BY key", "--json"),
    ("query", "SELECT count(*), sum(value::INT) FROM words WHERE starts_with(key, 'key-1')", "--json"),
    ("query", "SELECT a.key FROM jobs a JOIN jobs b ON a.key = b.value->>'text' ORDER BY 1", "--json"),
    ("query", "SELECT * FROM never"),
    ("query", 'SELECT * FROM "work/queue/todo" ORDER BY priority, position', "--json"),
    ("query", 'SELECT * FROM "work/queue/*" ORDER BY structure, priority, position', "--json"),
    ("query", 'SELECT * FROM "work/queue/todo_history" ORDER BY priority, position, timestamp', "--json"),
    ("query", 'SELECT * FROM "work/queue/*_history" ORDER BY structure, priority, position, timestamp', "--json"),
    ("query", 'SELECT i.value FROM "work/queue" i, "work/map/state" s WHERE s.value = 1 AND i.priority < 0', "--json"),
    ("query", 'SELECT * FROM "work/map/state_history" ORDER BY key, timestamp', "--json"),
    ("query", 'DESCRIBE "work/queue/none"', "--json"),
    ("jobs", "--json"),
    ("jobs", "--failed", "--json"),
    ("jobs", "local-1795237371242", "--json"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_location_gives_the_same_answer(written: Written, command: tuple[str, ...]) -> None:
    expected = ask(written, "folder", command)
    assert (expected.code == 0) == bool(expected.out), expected.err
    for kind in LOCATIONS:
        answer = ask(written, kind, command)
        assert (answer.code, answer.out) == (expected.code, expected.out), kind
        # A node's folder has the cluster's mark of an index and none of its own, and says that all records are read.
        assert answer.err == expected.err or command[0] == "jobs", kind


@pytest.mark.parametrize("key", list(keys()), ids=ascii)
def test_every_location_has_the_same_entry_and_the_same_past(written: Written, key: tuple[str, ...]) -> None:
    plain = [] if key[0] == BINARY else [("get", "jobs", *key)]
    for command in (("get", "jobs", *key, "--json"), ("history", "jobs", *key, "--json"), *plain):
        expected = ask(written, "folder", command)
        assert expected.code in (0, 1), expected.err
        assert [ask(written, kind, command) for kind in LOCATIONS] == [expected] * len(LOCATIONS)


AT = [
    ("get", "jobs", "changed", "--json"),
    ("get", "jobs", "deleted"),
    ("scan", "jobs", "--json"),
    ("scan", "jobs", "--from", "c", "--to", "p", "--reverse", "--limit", "3", "--json"),
    ("export", "jobs"),
    ("query", "SELECT key, value, timestamp, expires FROM jobs ORDER BY key_class, key", "--json"),
    ("query", 'SELECT * FROM "work/queue/*" ORDER BY structure, priority, position', "--json"),
    ("query", 'SELECT * FROM "work/queue/todo_history" ORDER BY priority, position', "--json"),
    ("query", 'SELECT * FROM "work/map/state" ORDER BY key', "--json"),
    ("jobs", "--json"),
]


@pytest.mark.parametrize("command", AT, ids=" ".join)
def test_every_location_gives_the_same_answer_of_the_past(written: Written, command: tuple[str, ...]) -> None:
    *_, deleted = run("history", written.locations["folder"], "jobs", "deleted", *NAMES, "--json").out.splitlines()
    put_at = json.loads(deleted)["timestamp"]
    expected = ask(written, "folder", (*command, "--at", put_at))
    assert expected.code == 0
    assert expected.out or command[0] == "jobs"
    for kind in LOCATIONS:
        assert ask(written, kind, (*command, "--at", put_at)) == expected, kind


@pytest.mark.parametrize(
    "command", [("get", "jobz", "a"), ("history", "jobz", "a"), ("scan", "jobz"), ("export", "jobz"), ("delete", "jobz", "a")],
    ids=" ".join,
)  # fmt: skip
def test_a_mistyped_business_is_an_error_everywhere_and_makes_no_map(
    written: Written, command: tuple[str, ...]
) -> None:
    for kind in LOCATIONS:
        assert ask(written, kind, command).code == 2, kind
    ran = ask(written, "cluster", command)
    assert "the cluster test has no map 'jobz' (there are: jobs, spark, words, work)" in ran.err


def test_what_is_written_through_the_cluster_is_exported_and_imported(written: Written, tmp_path: Path) -> None:
    exported = tmp_path / "jobs.jsonl"
    assert ask(written, "cluster", ("export", "jobs", str(exported))).code == 0
    lines = len(exported.read_text().splitlines())
    ran = ask(written, "cluster", ("import", "copied", str(exported), "--json"))
    assert json.loads(ran.out) == {"imported": lines, "expired": 0}
    assert run("import", tmp_path / "root", "copied", exported, "--cluster", CLUSTER).code == 0
    scanned = run("scan", tmp_path / "root", "copied", *NAMES, "--json")
    assert ask(written, "cluster", ("scan", "copied", "--json")) == scanned
    command = ("query", "SELECT key, expires FROM copied WHERE key = 'for an hour' AND expires IS NOT NULL", "--json")
    assert ask(written, "cluster", command).out


def test_a_business_begins_with_its_first_put_and_a_delete_is_seen(written: Written) -> None:
    assert ask(written, "cluster", ("put", "new", "a", '{"b": 1}')).code == 0
    assert ask(written, "cluster", ("get", "new", "a")).out == '{"b":1}\n'
    assert ask(written, "cluster", ("delete", "new", "a", "--json")).code == 0
    assert ask(written, "cluster", ("get", "new", "a")) == Ran(1, "", "kvwal: new has no 'a'.\n")


@pytest.mark.long
def test_large_reads_come_in_pages(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys partition by partition, values by their size, and entries of the logs up to some megabytes at a time."""
    pages: list[int] = []
    ask_logs = ClusterBusiness._ask

    def counted(business: ClusterBusiness, question: requests.Question) -> Any:
        answer = ask_logs(business, question)
        pages.append(sum(len(entry.value) for entry in answer))
        return answer

    with kvwal.connect(written.node.address, cluster=CLUSTER) as store:
        words, large = store.map("words"), store.map("large")
        expected = {f"key-{number:04}": number for number in range(3000)}
        monkeypatch.setattr(memory, "KEYS_AT_ONCE", 10)
        monkeypatch.setattr(key_pages, "KEYS_PER_PAGE", 3)
        assert dict(words.items()) == expected
        assert list(words) == sorted(expected)
        for number in range(20):
            large[number] = bytes([number]) * (1 << 20)
        assert [value[0] for value in large.values()] == list(range(20))
        monkeypatch.setattr(ClusterBusiness, "_ask", counted)
        logged = ClusterMaps(store).read_business("large", logged=True)
        assert [entry.value[0] for entry in logged.entries()] == list(range(20))
        assert len(pages) == 3
        assert max(pages) <= requests.PAGE_BYTES + (1 << 20)
        assert len(large.at(large.put("last", 1))) == 21


def test_many_keys_of_one_beginning_are_all_that_a_cluster_reads(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    ask_logs = ClusterBusiness._ask

    def noted(business: ClusterBusiness, question: requests.Question) -> Any:
        asked.append(question.page.prefix)
        return ask_logs(business, question)

    monkeypatch.setattr(ClusterBusiness, "_ask", noted)
    query = ("query", "SELECT count(*) FROM words WHERE key LIKE 'key-1%' AND value::INT >= 1100", "--format", "csv")
    assert ask(written, "cluster", query).out.split() == ["count_star()", "900"]
    assert asked == [b"key-1"]


def test_the_figures_of_a_cluster_name_its_members(written: Written) -> None:
    figures = json.loads(ask(written, "cluster", ("stats", "--json")).out)
    assert figures["members"] == {"node-1": written.node.address}
    assert figures["businesses"]["words"] == {"entries": 3000}


def test_every_location_lists_the_same_maps_with_as_many_keys(written: Written) -> None:
    """The maps of other tests may not be archived yet."""
    names = ("jobs", "spark", "words")
    scanned = {name: ask(written, "folder", ("scan", name, "--json")).out.count("\n") for name in names}
    for kind in LOCATIONS:
        rows = [json.loads(row) for row in ask(written, kind, ("maps", "--json")).out.splitlines()]
        keys = {row["map"]: row["keys"] for row in rows}
        assert {name: keys[name] for name in names} == scanned, kind
        assert all((row["bytes"] is None) == (kind == "cluster") for row in rows)


def test_errors_name_the_kind_that_was_meant(written: Written) -> None:
    cluster = written.locations["cluster"]
    for ran, sentence in (
        (run("scan", cluster, "jobs"), "refuses this client: it is of another cluster than local"),
        (run("scan", cluster, "jobs", *NAMES, "--namespace", "other"), "is of the namespace 'default', not 'other'"),
        (run("scan", cluster, "jobs", *NAMES, "--namespace", "*"), "a cluster has one namespace"),
        (run("scan", cluster, "jobs", *NAMES, "--node", "node-1"), "a cluster answers for all its nodes"),
        (run("scan", cluster, "jobs", *NAMES, "--archive", "none"), "its nodes know their archive"),
        (run("query", cluster, "SELECT * FROM jobs_history", *NAMES), "a cluster gives no table of all changes"),
    ):
        assert ran.code in (2, 3)
        assert sentence in ran.err
        assert "Traceback" not in ran.err


@pytest.mark.long
def test_the_businesses_are_known_after_a_restart(written: Written) -> None:
    """The last test of the file: others would wait for the node."""
    written.node.restart()
    there = set(json.loads(ask(written, "cluster", ("stats", "--json")).out)["businesses"])
    assert {"jobs", "spark", "words"} <= there


def test_doctor_says_which_members_answer_and_that_an_archive_is_not_its_own(written: Written) -> None:
    ran = ask(written, "cluster", ("doctor", "--json"))
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.code, {one["level"] for one in told}) == (0, {"ok"}), ran.out
    assert [one["found"] for one in told if one["about"] == written.node.address][1:] == ["it is the member node-1."]
    assert "entries on 1 member;" in told[-1]["found"]
    nobody = run("doctor", f"kvwal://127.0.0.1:{free_port()}", *NAMES)
    assert (nobody.code, "it does not answer" in nobody.out) == (1, True)
    ran = ask(written, "file URL", ("doctor",))
    assert (ran.code, "`kvwal archive verify` checks an archive" in ran.err) == (2, True)
