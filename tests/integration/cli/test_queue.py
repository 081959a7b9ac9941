"""`kvwal queue`: what each command prints, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kvwal as library
from kvwal.cli.queue.selection import complete_queue
from tests.support.cli import Ran, kvwal
from tests.support.polling import until

RUN = [sys.executable, "-c", "from kvwal.cli.main import main; main()"]
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z(?:\+\d+)?")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with a map, its business's own queue, a named queue, and the queue of another business."""
    root = tmp_path / "data"
    with library.open(root) as store:
        mail = store.business("mail")
        mail.map()["a key"] = "of the map"
        mail.queue().put_many([{"to": "ada"}, "hello", 7])
        mail.queue("urgent").put("now", priority=-2, ttl=3600)
        mail.queue("urgent").put(b"\xff")
        store.queue("work").put("w")
        store.archive()
    return root


def items(root: Path, business: str = "mail", name: str = "") -> list[Any]:
    with library.open(root, read_only=True) as store:
        return list(store.business(business).queue(name).browse())


def lines(ran: Ran) -> list[Any]:
    assert ran.code == 0, ran
    return [json.loads(line) for line in ran.out.splitlines()]


def test_the_queues_with_items_are_listed(root: Path) -> None:
    ran = kvwal("queue", "list", root)
    assert [line.split()[:3] for line in ran.out.splitlines()] == [
        ["business", "queue", "items"], ["mail", "mail", "3"], ["mail", "mail/urgent", "2"], ["work", "work", "1"],
    ]  # fmt: skip
    listed = lines(kvwal("queue", "list", root, "mail", "--json"))
    ages = [row.pop("oldest_seconds") for row in listed]
    assert all(0 <= age < 300 for age in ages)
    assert listed == [
        {"business": "mail", "queue": "mail", "items": 3, "bytes": 19},
        {"business": "mail", "queue": "mail/urgent", "items": 2, "bytes": 4},
    ]
    assert kvwal("queue", "purge", root, "work", "--yes").code == 0
    assert kvwal("queue", "list", root, "work") == Ran(0, "No queue holds an item.\n", "")
    assert kvwal("queue", "list", root, "work", "--json") == Ran(0, "", "")


def test_a_damaged_business_hides_no_other(root: Path) -> None:
    segment = min((root / "default" / "local" / "mail" / "local").glob("*.wal"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    ran = kvwal("queue", "list", root, "--json")
    assert (ran.code, str(segment) in ran.err) == (4, True)
    assert [json.loads(line)["queue"] for line in ran.out.splitlines()] == ["work"]


def test_the_shell_completes_businesses_and_queues(root: Path) -> None:
    class Context(NamedTuple):
        params: dict[str, str]

    for begun, names in (
        ("", ["mail", "work"]),
        ("m", ["mail"]),
        ("mail/", ["mail/urgent"]),
        ("mail/x", []),
        ("no/", []),
    ):
        assert complete_queue(Context({"location": str(root)}), begun) == names  # type: ignore[arg-type]
    for location in ("s3://bucket", "kvwal://127.0.0.1:1"):
        for begun in ("m", "mail/"):
            assert complete_queue(Context({"location": location}), begun) == []  # type: ignore[arg-type]


def test_items_are_put_as_values_are(tmp_path: Path) -> None:
    root = tmp_path / "data"
    ran = kvwal("queue", "put", root, "mail", '{"to": "ada"}', "hello", "7", "-5", "null", '"7"')
    assert ran == Ran(
        0, "mail: 6 items were put.\n", f"kvwal: {root} is new: a store begins there, with the queue mail.\n"
    )
    assert items(root) == [{"to": "ada"}, "hello", 7, -5, None, "7"]
    ran = kvwal("queue", "put", root, "mail/urgent", "later", "--ttl", "1h", "--json")
    assert ran == Ran(
        0, '{"queue":"mail/urgent","put":1}\n', "kvwal: the queue mail/urgent is new in mail (there are: mail).\n"
    )
    ran = kvwal("queue", "put", root, "mail/urgent", "now", "--priority", "-2")
    assert ran == Ran(0, "mail/urgent: 1 item was put.\n", "")
    later: Any
    now, later = lines(kvwal("queue", "browse", root, "mail/urgent", "--json"))
    assert (now["value"], now["priority"], "expires" in now) == ("now", -2, False)
    assert (later["value"], later["priority"], "expires" in later) == ("later", 0, True)
    ran = kvwal("queue", "put", root, "mail", "{to: ada}")
    assert ran.code == 0
    assert ran.err.startswith("kvwal: VALUE begins as JSON does and is none")


def test_the_values_of_one_call_are_one_transaction(root: Path) -> None:
    ran = kvwal("queue", "put", root, "mail", *(f"{number}" + "x" * 100_000 for number in range(60)))
    assert (ran.code, ran.out) == (0, "mail: 60 items were put.\n")
    with library.open(root, read_only=True) as store:
        put = [item for item in store.business("mail").queue().items() if "x" in str(item.value)]
    assert (len(put), len({item.timestamp for item in put})) == (60, 1)


def test_a_drained_queue_is_not_new(root: Path) -> None:
    assert kvwal("queue", "take", root, "mail/urgent", "-n", 10).code == 0
    assert kvwal("queue", "put", root, "mail/urgent", "1") == Ran(0, "mail/urgent: 1 item was put.\n", "")


def typed(root: Path, *words: object, given: bytes = b"") -> Ran:
    done = subprocess.run(
        [*RUN, "queue", *map(str, words)], input=given, capture_output=True, check=False, cwd=root.parent
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_lines_of_standard_input_are_items(root: Path) -> None:
    given = b'{"to": "eve"}\nplain text \r\n\n \n7\n"no line end"'
    assert typed(root, "put", root, "mail/lines", "-", given=given).out == "mail/lines: 4 items were put.\n"
    assert items(root, name="lines") == [{"to": "eve"}, "plain text ", 7, "no line end"]
    many = b"".join(b"%d\n" % number for number in range(1_201))
    assert typed(root, "put", root, "mail/many", "-", given=many).out == "mail/many: 1,201 items were put.\n"
    assert items(root, name="many") == list(range(1_201))
    assert typed(root, "put", root, "mail/lines", "-") == Ran(0, "mail/lines: 0 items were put.\n", "")


def test_a_line_that_is_no_item_ends_the_puts_and_is_named(root: Path) -> None:
    given = b"".join(b"%d\n" % number for number in range(600)) + b"\xff\n601\n"
    ran = typed(root, "put", root, "mail/lines", "-", given=given)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "kvwal: standard input: 600 items were put; line 601 is the first that was not: it is no UTF-8 text: its byte 0 is 0xff."
        " An item of bytes is put by a program.\n"
    )
    assert items(root, name="lines") == list(range(600))
    ran = typed(root, "put", root, "mail/lines", "-", given=b"1\n" + b"x" * (6 << 20) + b"\n")
    assert ran.code == 0
    assert items(root, name="lines")[-1] == "x" * (6 << 20)


def test_an_interrupted_put_says_how_far_it_came(root: Path) -> None:
    with subprocess.Popen(
        [*RUN, "queue", "put", root, "mail/lines", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as put:
        assert put.stdin is not None
        assert put.stderr is not None
        put.stdin.write(b"".join(b"%d\n" % number for number in range(700)))
        put.stdin.flush()
        until(lambda: kvwal("queue", "stats", root, "mail/lines", "--json").out.find('"items":500') > 0 or None)
        until(lambda: reads(put.pid) or None)
        put.send_signal(signal.SIGINT)
        said = put.stderr.read().decode()
        assert put.wait() == 130
    assert "500 items were put; line 501 is the first that was not" in said
    assert items(root, name="lines") == list(range(500))


def reads(pid: int) -> bool:
    """Whether the main thread of the process waits for standard input."""
    return Path(f"/proc/{pid}/syscall").read_text().split()[:2] == ["0", "0x0"]


def test_a_mistyped_queue_is_told_with_those_that_hold_items(root: Path) -> None:
    there = "(queues with items in mail: mail/urgent, mail)"
    for command in ("take", "browse", "purge", "stats"):
        ran = kvwal("queue", command, root, "mail/urgnet")
        assert (ran.code, ran.err) == (command != "stats", f"kvwal: mail/urgnet has no item {there}.\n"), command
    assert kvwal("queue", "move", root, "mail/urgnet", "mail").code == 1
    for typed in (["list", root, "mial"], ["take", root, "mial"], ["browse", root, "mial"], ["stats", root, "mial"],
                  ["purge", root, "mial", "--yes"], ["move", root, "mial", "mial/a"]):  # fmt: skip
        ran = kvwal("queue", *typed)
        assert (ran.code, "has no map 'mial' (there are: mail, work)" in ran.err) == (2, True), ran


@pytest.mark.parametrize("command", ["list", "put", "take", "browse", "move", "purge", "options", "stats"])
def test_the_folder_of_an_archive_is_refused(root: Path, command: str) -> None:
    words = {"list": [], "put": ["mail", "1"], "move": ["mail", "mail/urgent"]}.get(command, ["mail"])
    ran = kvwal("queue", command, root / "_archive", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(
        f"kvwal: {root / '_archive'} is an archive, and `kvwal queue` works on folders and clusters. "
    )


def test_what_only_reads_works_while_another_process_holds_the_store(root: Path) -> None:
    with library.open(root) as store:
        mail = store.queue("mail")
        with mail.transaction() as t:
            assert t.take() == {"to": "ada"}
            assert [line.split()[2] for line in kvwal("queue", "list", root).out.splitlines()[1:]] == ["3", "2", "1"]
            ran = kvwal("queue", "browse", root, "mail", "-n", 2)
            assert [TIME.sub("", line).split() for line in ran.out.splitlines()] == [
                ["priority", "put", "value"], ["0", '{"to":"ada"}'], ["0", "hello"],
            ]  # fmt: skip
            [figures] = lines(kvwal("queue", "stats", root, "mail", "--json"))
            assert (figures["items"], figures["in_flight"]) == (3, None)
        assert kvwal("queue", "put", root, "mail", "1").code == 3
    [figures] = lines(kvwal("queue", "stats", root, "mail", "--json"))
    assert 0 <= figures.pop("oldest_seconds") < 300
    assert figures == {"queue": "mail", "items": 2, "in_flight": 0, "delayed": 0, "bytes": 7, "by_priority": {"0": 2}}


def test_figures_have_the_items_of_each_priority(root: Path) -> None:
    ran = kvwal("queue", "stats", root, "mail/urgent")
    figures = dict(line.split() for line in ran.out.splitlines())
    assert float(figures.pop("oldest_seconds")) < 300
    assert figures == {
        "queue": "mail/urgent", "items": "2", "in_flight": "0", "delayed": "0", "bytes": "4",
        "by_priority.-2": "1", "by_priority.0": "1",
    }  # fmt: skip
    ran = kvwal("queue", "stats", root, "mail/none", "--json")
    assert json.loads(ran.out) == {
        "queue": "mail/none", "items": 0, "in_flight": 0, "delayed": 0, "oldest_seconds": None, "bytes": 0, "by_priority": {},
    }  # fmt: skip
    assert ran.code == 0, "what watches a queue is not ended by an empty one"


def test_items_are_browsed_as_table_json_and_csv(root: Path) -> None:
    found = lines(kvwal("queue", "browse", root, "mail/urgent", "--format", "json"))
    assert [(item["priority"], item["value"]) for item in found] == [(-2, "now"), (0, "/w==")]
    assert found[1]["value_encoding"] == "base64"
    assert found[0]["timestamp"].isdecimal()
    assert TIME.fullmatch(found[0]["time"])
    assert int(found[0]["position"]) < int(found[1]["position"])
    ran = kvwal("queue", "browse", root, "mail/urgent", "--format", "csv")
    assert TIME.sub("TIME", ran.out).split() == ["priority,put,value", "-2,TIME,now", "0,TIME,0xff"]
    assert items(root, name="urgent") == ["now", b"\xff"]


def test_items_are_moved_within_a_business(root: Path) -> None:
    ran = kvwal("queue", "move", root, "mail/urgent", "mail", "-n", 1)
    assert ran == Ran(0, "1 item was moved from mail/urgent to mail.\n", "")
    [moved, *_] = lines(kvwal("queue", "browse", root, "mail", "--json"))
    assert (moved["value"], moved["priority"], "expires" in moved) == ("now", -2, True)
    ran = kvwal("queue", "move", root, "mail", "mail/all", "--json")
    assert ran == Ran(0, '{"from":"mail","to":"mail/all","moved":4}\n', "")
    assert items(root, name="all") == ["now", {"to": "ada"}, "hello", 7]
    assert items(root) == []
    for to in ("work", "work/all"):
        ran = kvwal("queue", "move", root, "mail/all", to)
        assert (ran.code, ran.err.startswith(f"kvwal: mail/all and {to} are of two businesses")) == (2, True)
    assert kvwal("queue", "move", root, "mail/all", "mail/all").code == 2
    assert len(items(root, name="all")) == 4


def test_large_items_are_moved_in_several_transactions(root: Path) -> None:
    given = [f"{number}" + "x" * 1_000_000 for number in range(12)]
    for item in given:
        with library.open(root) as store:
            store.business("mail").queue("large").put(item)
    assert (
        kvwal("queue", "move", root, "mail/large", "mail/small").out
        == "12 items were moved from mail/large to mail/small.\n"
    )
    assert items(root, name="small") == given
    assert items(root, name="large") == []


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The two ends of a terminal."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


def test_a_purge_asks(root: Path, terminal: tuple[int, int]) -> None:
    ran = typed(root, "purge", root, "mail")
    assert ran == Ran(
        2, "",
        "kvwal: mail has 3 items, and standard input is no terminal on which to ask; nothing was deleted. Give --yes.\n",
    )  # fmt: skip
    person, program = terminal
    for answer, code, left in ((b"n\n", 1, 3), (b"y\n", 0, 0)):
        os.write(person, answer)
        done = subprocess.run(
            [*RUN, "queue", "purge", root, "mail"], stdin=program, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "Delete 3 items of mail?" in done.stderr) == (code, True), done
        assert len(items(root)) == left
    ran = kvwal("queue", "purge", root, "mail/urgent", "--yes", "--json")
    assert ran == Ran(0, '{"queue":"mail/urgent","purged":2}\n', "")
    assert items(root, "work") == ["w"]
    with library.open(root, read_only=True) as store:
        assert dict(store.map("mail")) == {"a key": "of the map"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["put", "mail", "1", "--priority", "high"], "--priority 'high' is no whole number from -16 to 15."),
        (["put", "mail", "1", "--priority", "16"], "--priority '16' is no whole number from -16 to 15."),
        (["put", "mail", "1", "--priority", "--5"], "--priority '--5' is no whole number from -16 to 15."),
        (["put", "mail", "1", "--ttl", "soon"], "--ttl 'soon' is no duration."),
        (["put", "mail", "1", "--ttl", "0"], "--ttl '0' must be above 0."),
        (["put", "mail", "1", "-"], "VALUE - is standard input, and stands alone; nothing was put."),
        (["put", "mail/a/b", "1"], "The queue name 'a/b' holds '/'"),
        (["put", "mail/", "1"], "The queue name '' is empty."),
        (["put", "my mail", "1"], "The business name 'my mail' holds ' '"),
        (["take", "mail", "-n", "0"], "-n '0' is no whole number from 1 on."),
        (["take", "mail", "-n", "10001"], "-n 10,001 is more than the 10,000 items of one transaction"),
        (["take", "mail", "--timeout", "never"], "--timeout 'never' is no duration."),
        (["take", "mail", "--node", "other"], "there are: local"),
    ],
)  # fmt: skip
def test_what_is_mistyped_is_refused_and_changes_nothing(root: Path, words: list[str], says: str) -> None:
    ran = kvwal("queue", words[0], root, *words[1:])
    assert (ran.code, ran.out) == (2, ""), ran
    assert says in ran.err
    assert ran.err.count("\n") == 1
    assert items(root) == [{"to": "ada"}, "hello", 7]
