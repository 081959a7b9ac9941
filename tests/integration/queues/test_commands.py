"""`kvwal queue` on a running cluster: what each command prints, and no item is lost between a queue and the output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal as library
from kvwal.cluster.queues.requests import OWNER_CLASS, OWNER_KEY, Put, PutItem
from tests.support.cli import Ran, kvwal
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running
from tests.support.polling import until
from tests.support.queue.blocks import rolled_back

pytestmark = needs_hazelcast
NAMES = ("--cluster", CLUSTER)
RUN = [sys.executable, "-c", "from kvwal.cli.main import main; main()"]
LARGE = "x" * 10_000
"""An item of which seven fill a pipe."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(tmp_path_factory.mktemp("commands") / "root") as made:
        yield made


@pytest.fixture(scope="module")
def store(node: Node) -> Iterator[Any]:
    """A client of the cluster. Each test has a business of its own."""
    with library.connect(node.address, cluster=CLUSTER) as made:
        yield made


@pytest.fixture
def run(node: Node) -> Any:
    """`kvwal queue COMMAND` on the cluster."""
    return lambda command, *words: kvwal("queue", command, f"kvwal://{node.address}", *words, *NAMES)


@pytest.fixture
def typed(node: Node) -> Any:
    """The same as a command of its own process."""
    return lambda command, *words: [*RUN, "queue", command, f"kvwal://{node.address}", *words, *NAMES]


def lines(ran: Ran) -> list[Any]:
    assert ran.code == 0, ran
    return [json.loads(line) for line in ran.out.splitlines()]


def content(store: Any, business: str, name: str = "") -> list[Any]:
    return list(store.business(business).queue(name).browse())


def test_items_are_put_and_taken_in_their_order(store: Any, run: Any) -> None:
    ran = run("put", "order", '{"to": "ada"}', "hello", "7")
    assert (ran.code, ran.out) == (0, "order: 3 items were put.\n")
    assert ran.err.startswith(f"kvwal: the queue order is new in the cluster {CLUSTER} (there are: ")
    assert run("put", "order", "first", "--priority", "-2", "--ttl", "1h", "--json") == Ran(
        0, '{"queue":"order","put":1}\n', ""
    )
    assert content(store, "order") == ["first", {"to": "ada"}, "hello", 7]
    assert run("take", "order", "-n", 3) == Ran(0, '"first"\n{"to":"ada"}\n"hello"\n', "")
    assert run("take", "order", "-n", 3) == Ran(0, "7\n", "")
    assert run("take", "order") == Ran(1, "", "kvwal: order has no item (queues with items in order: none).\n")


def test_lines_of_standard_input_are_items(store: Any, typed: Any) -> None:
    given = b"".join(b'{"n": %d}\n' % number for number in range(700)) + b"\xff\n"
    done = subprocess.run(typed("put", "lines/all", "-"), input=given, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"standard input: 700 items were put; line 701 is the first that was not: it is no UTF-8 text" in done.stderr
    assert content(store, "lines", "all") == [{"n": number} for number in range(700)]


def test_queues_are_listed_and_counted(store: Any, run: Any) -> None:
    business = store.business("counted")
    business.queue().put_many(["aa", "b"])
    business.queue().put("c", priority=-1)
    business.queue("empty").put(1)
    assert business.queue("empty").take() == 1
    store.map("counted-too")["a"] = 1
    with rolled_back(business.queue("held").transaction()) as t:
        business.queue("held").put_many([1, 2])
        assert t.take_many(2) == [1, 2]
        ran = run("list", "counted")
        assert [line.split()[:3] for line in ran.out.splitlines()] == [
            ["business", "queue", "items"], ["counted", "counted", "3"], ["counted", "counted/held", "0"],
        ]  # fmt: skip
        ran = run("stats", "counted/held", "--json")
        assert ran.err == "kvwal: counted/held has no item that can be taken now (2 in flight).\n"
        assert json.loads(ran.out) == {
            "queue": "counted/held", "items": 0, "in_flight": 2, "delayed": 0, "oldest_seconds": None, "bytes": 0,
            "by_priority": {},
        }  # fmt: skip
        assert run("take", "counted/held") == Ran(1, "", ran.err)
    own, held = [row for row in lines(run("list", "--json")) if row["business"].startswith("counted")]
    assert 0 <= own.pop("oldest_seconds") < 300
    assert own == {"business": "counted", "queue": "counted", "items": 3, "bytes": 4}
    assert (held["queue"], held["items"]) == ("counted/held", 2)
    [figures] = lines(run("stats", "counted", "--json"))
    assert 0 <= figures.pop("oldest_seconds") < 300
    assert figures == {
        "queue": "counted", "items": 3, "in_flight": 0, "delayed": 0, "bytes": 4, "by_priority": {"-1": 1, "0": 2},
    }  # fmt: skip
    ran = run("stats", "counted/none", "--json")
    assert (ran.code, json.loads(ran.out)["items"]) == (0, 0), "what watches a queue is not ended by an empty one"


def test_items_are_browsed_as_table_json_and_csv(store: Any, run: Any) -> None:
    q = store.business("browsed").queue("all")
    q.put_many(["second", "third"])
    q.put("first", priority=-3, ttl=3600)
    q.put(b"\xff")
    found = lines(run("browse", "browsed/all", "--json"))
    assert [(item["priority"], item["value"]) for item in found] == [
        (-3, "first"), (0, "second"), (0, "third"), (0, "/w=="),
    ]  # fmt: skip
    assert ["expires" in item for item in found] == [True, False, False, False]
    shown = list(q.items())
    assert [int(item["position"]) for item in found] == [item.position for item in shown]
    assert [line.split(",")[2] for line in run("browse", "browsed/all", "--format", "csv").out.splitlines()] == [
        "value", "first", "second", "third", "0xff",
    ]  # fmt: skip
    assert len(run("browse", "browsed/all", "-n", 2).out.splitlines()) == 3
    assert len(q) == 4


def test_an_item_of_a_codec_that_is_not_here_is_shown_and_taken(store: Any, run: Any) -> None:
    q = store.queue("foreign")
    q._calls.ask(Put("foreign", [PutItem("queue", 0, b"\xfe\xff", "of-a-program")]), writes=True)
    assert lines(run("browse", "foreign", "--json"))[0]["value"] == "/v8="
    assert run("take", "foreign") == Ran(0, '{"value_encoding":"base64","value":"/v8="}\n', "")
    assert len(q) == 0


def test_items_are_moved_and_purged(store: Any, run: Any) -> None:
    business = store.business("moved")
    business.queue().put_many(range(1_200))
    business.queue().put("first", priority=-1, ttl=3600)
    assert run("move", "moved", "moved/some", "-n", 2) == Ran(0, "2 items were moved from moved to moved/some.\n", "")
    [first, second] = business.queue("some").items()
    assert (first.value, first.priority, first.expires > 0, second.value) == ("first", -1, True, 0)
    ran = run("move", "moved", "moved/rest", "--json")
    assert ran == Ran(0, '{"from":"moved","to":"moved/rest","moved":1199}\n', "")
    assert content(store, "moved", "rest") == list(range(1, 1_200))
    ran = run("purge", "moved/rest")
    assert (ran.code, ran.err[:61]) == (2, "kvwal: moved/rest has 1,199 items, and standard input is no t")
    assert run("purge", "moved/rest", "--yes") == Ran(0, "moved/rest: 1,199 items deleted.\n", "")
    ran = Ran(1, "", "kvwal: moved/rest has no item (queues with items in moved: moved/some).\n")
    assert (
        run("purge", "moved/rest", "--yes") == run("purge", "moved/rest") == run("move", "moved/rest", "moved") == ran
    )


def test_items_that_are_large_together_are_moved_in_several_transactions(store: Any, run: Any) -> None:
    q, large = store.queue("large"), "x" * (1 << 20)
    for number in range(7):
        q.put(f"{number}{large}")
    assert run("move", "large", "large/all") == Ran(0, "7 items were moved from large to large/all.\n", "")
    assert [item[0] for item in content(store, "large", "all")] == [str(number) for number in range(7)]
    assert (len(q), q.in_flight) == (0, 0)


def test_what_is_not_there_is_told_and_nothing_is_written(store: Any, run: Any) -> None:
    store.queue("there").put(1)
    store.map("plain")["a"] = 1
    for command, *more in (("list",), ("take", "--timeout", "10m"), ("browse",), ("stats",), ("options",),
                           ("move", "ther/x"), ("purge", "--yes")):  # fmt: skip
        ran = run(command, "ther", *more)
        assert (ran.code, f"the cluster {CLUSTER} has no map 'ther' (there are: there, " in ran.err) == (2, True), ran
        assert "ther" not in store.maps()
    for command, *more in (("take",), ("browse",), ("stats",), ("options",), ("move", "plain/x"), ("purge", "--yes")):
        ran = run(command, "plain", *more)
        assert ran.code == (0 if command == "stats" else 1)
        assert ran.err == "kvwal: plain has no item (queues with items in plain: none).\n"
        owner = store.business("plain").business.state.lookup(OWNER_CLASS, OWNER_KEY)
        assert owner is None, "a business without a queue does not become one with queues"
    for command, *more in (("take",), ("browse",), ("purge", "--yes"), ("move", "there")):
        ran = run(command, "there/x", *more)
        assert ran == Ran(1, "", "kvwal: there/x has no item (queues with items in there: there).\n")


def test_options_are_set_and_shown_and_hold(store: Any, run: Any) -> None:
    q = store.queue("options")
    q.put(1)
    none = {
        "queue": "options", "capacity": None, "capacity_bytes": None, "redelivery_delay": None, "max_deliveries": None,
        "dead_letters": None, "ttl": None,
    }  # fmt: skip
    assert lines(run("options", "options", "--json")) == [none]
    words = ["--capacity", "2", "--max-deliveries", "2", "--dead-letters", "options/dead"]
    [options] = lines(run("options", "options", *words, "--json"))
    assert options == none | {"capacity": 2, "max_deliveries": 2, "dead_letters": "options/dead"}
    assert (q.options().capacity, q.options().dead_letters) == (2, "dead")
    q.put(2, delay=3600)
    ran = run("put", "options", "3")
    assert ran.code == 3
    assert "options/queue is full: its capacity is 2 items; nothing was put." in ran.err
    with rolled_back(q.transaction()) as t:
        t.take()
    [item] = lines(run("browse", "options", "--json"))
    assert (item["value"], item["deliveries"]) == (1, 1)
    [figures] = lines(run("stats", "options", "--json"))
    assert (figures["items"], figures["in_flight"], figures["delayed"], figures["capacity"]) == (1, 0, 1, 2)


def test_options_of_a_map_do_not_make_it_a_business_with_queues(store: Any, run: Any) -> None:
    store.map("flat")["a"] = 1
    ran = run("options", "flat")
    assert ran.code == 1
    assert store.business("flat").business.state.lookup(OWNER_CLASS, OWNER_KEY) is None


def test_an_output_that_takes_nothing_leaves_the_items(store: Any, typed: Any) -> None:
    store.queue("output").put_many(["a", "b", "c"])
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(typed("take", "output", "-n", "2"), stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
    with open("/dev/full", "w") as full:
        done = subprocess.run(typed("take", "output", "-n", "2"), stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 5
    assert done.stderr == b"kvwal: standard output took no more (No space left on device). Nothing was taken.\n"
    assert (content(store, "output"), store.queue("output").in_flight) == (["a", "b", "c"], 0)


def test_a_reader_that_leaves_before_the_last_line_leaves_the_items(store: Any, typed: Any) -> None:
    given = [f"{number}{LARGE}" for number in range(50)]
    store.queue("leaves").put_many(given)
    line = '"$@" | head -1; exit "${PIPESTATUS[0]}"'
    words = typed("take", "leaves", "-n", "50")
    done = subprocess.run(["bash", "-c", line, "bash", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (141, f'"0{LARGE}"\n', "")
    assert (content(store, "leaves"), store.queue("leaves").in_flight) == (given, 0)


def writes(pid: int) -> bool:
    """Whether the main thread of the process waits for the reader of its output."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[:2] == ["1", "0x1"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
def test_a_take_that_is_interrupted_while_it_prints_loses_no_item(
    store: Any, typed: Any, number: signal.Signals, code: int
) -> None:
    """After Ctrl-C the items are back at once. After a kill they are in flight, until the visibility timeout."""
    name = f"interrupted-{number.name}"
    q, given = store.queue(name), [f"{number}{LARGE}" for number in range(50)]
    q.put_many(given)
    with subprocess.Popen(typed("take", name, "-n", "50"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: writes(process.pid) or None)
        assert (len(q), q.in_flight) == (0, 50)
        process.send_signal(number)
        _, err = process.communicate()
        assert (process.returncode, err) == (code, b"")
    if number is signal.SIGINT:
        assert (content(store, name), q.in_flight) == (given, 0)
    else:
        assert sum(q.counts()[:2]) == 50, "in flight, or back already"


@pytest.mark.long
def test_a_take_that_stands_still_loses_its_items_to_another_taker(store: Any, typed: Any) -> None:
    q, given = store.queue("still"), [f"{number}{LARGE}" for number in range(50)]
    q.put_many(given)
    with subprocess.Popen(
        typed("take", "still", "-n", "50"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until(lambda: writes(process.pid) or None)
        process.send_signal(signal.SIGSTOP)
        taken = q.take_many(50, timeout=600)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate()
    assert taken == given
    assert (process.returncode, len(out.splitlines())) == (2, 50)
    assert b"the items of this block are back in their queues: it was silent for longer than its visibility" in err
    assert (len(q), q.in_flight) == (0, 0)


def test_a_take_waits_for_an_item_that_another_client_puts(store: Any, typed: Any, run: Any) -> None:
    q = store.queue("waits")
    q.put(1)
    assert q.take() == 1
    with subprocess.Popen(typed("take", "waits", "--timeout", "10m"), stdout=subprocess.PIPE) as process:
        until(lambda: q.counts()[2] or None)
        assert run("put", "waits/other", "of another queue").code == 0
        assert run("put", "waits", "it came").code == 0
        assert (process.communicate()[0], process.returncode) == (b'"it came"\n', 0)
    ran = run("take", "waits", "--timeout", "0.2")
    assert ran == Ran(1, "", "kvwal: waits has no item (queues with items in waits: waits/other).\n")


def test_an_interrupted_wait_takes_nothing(store: Any, typed: Any) -> None:
    q = store.queue("stopped")
    q.put(1)
    assert q.take() == 1
    with subprocess.Popen(
        typed("take", "stopped", "--timeout", "10m"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until(lambda: q.counts()[2] or None)
        process.send_signal(signal.SIGINT)
        assert process.communicate() == (b"", b"")
        assert process.returncode == 130
    q.put(2)
    assert q.take(0) == 2
