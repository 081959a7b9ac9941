"""`kvwal queue take`: no item is lost between the queue and the output, and a take that waits does not hold the store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import kvwal as library
from tests.support.cli import Ran, kvwal
from tests.support.polling import until

RUN = [sys.executable, "-c", "from kvwal.cli.main import main; main()"]
LARGE = "x" * 10_000
"""An item of which seven fill a pipe."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with a business's own queue and a named one."""
    root = tmp_path / "data"
    with library.open(root) as store:
        mail = store.business("mail")
        mail.queue().put_many([{"to": "ada"}, "hello", 7])
        mail.queue("urgent").put("now", priority=-2, ttl=3600)
        mail.queue("urgent").put(b"\xff")
    return root


def items(root: Path, business: str = "mail", name: str = "") -> list[Any]:
    with library.open(root, read_only=True) as store:
        return list(store.business(business).queue(name).browse())


def waits(pid: int, *call: str) -> bool:
    """Whether the main thread of the process waits in this call of the system, given with its first arguments."""
    return tuple(Path(f"/proc/{pid}/syscall").read_text().split()[: len(call)]) == call


WRITE, SLEEP = ("1", "0x1"), ("230",)


def test_a_take_prints_lines_of_json_in_the_order_of_the_queue(root: Path) -> None:
    assert kvwal("queue", "take", root, "mail") == Ran(0, '{"to":"ada"}\n', "")
    assert kvwal("queue", "take", root, "mail", "-n", 5) == Ran(0, '"hello"\n7\n', "")
    ran = kvwal("queue", "take", root, "mail/urgent", "-n", 2)
    assert ran == Ran(0, '"now"\n{"value_encoding":"base64","value":"/w=="}\n', "")
    assert items(root) == items(root, name="urgent") == []
    ran = kvwal("queue", "take", root, "mail")
    assert ran == Ran(1, "", "kvwal: mail has no item (queues with items in mail: none).\n")


def take(root: Path, *words: object, out: Any) -> subprocess.CompletedProcess[str]:
    """A take with standard output at a file."""
    return subprocess.run(
        [*RUN, "queue", "take", root, *map(str, words)], stdout=out, stderr=subprocess.PIPE, text=True, check=False
    )


def test_a_closed_pipe_leaves_the_items(root: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = take(root, "mail", "-n", 3, out=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
    assert items(root) == [{"to": "ada"}, "hello", 7]


def test_a_reader_that_leaves_before_the_last_line_leaves_the_items(root: Path) -> None:
    given = [f"{number}{LARGE}" for number in range(50)]
    assert kvwal("queue", "put", root, "mail/large", *given).code == 0
    line = '"$@" | head -1; exit "${PIPESTATUS[0]}"'
    words = [*RUN, "queue", "take", root, "mail/large", "-n", "50"]
    done = subprocess.run(["bash", "-c", line, "bash", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")
    assert done.stdout == f'"0{LARGE}"\n'
    assert items(root, name="large") == given


def test_an_output_that_takes_no_more_leaves_the_items(root: Path) -> None:
    with open("/dev/full", "w") as full:
        done = take(root, "mail", "-n", 3, out=full)
    assert done.returncode == 5
    assert done.stderr == "kvwal: standard output took no more (No space left on device). Nothing was taken.\n"
    assert items(root) == [{"to": "ada"}, "hello", 7]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
def test_a_take_that_is_interrupted_while_it_prints_leaves_the_items(root: Path, number: int, code: int) -> None:
    given = [f"{number}{LARGE}" for number in range(50)]
    assert kvwal("queue", "put", root, "mail/large", *given).code == 0
    words = [*RUN, "queue", "take", root, "mail/large", "-n", "50"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: waits(process.pid, *WRITE) or None)
        process.send_signal(number)
        process.communicate()
        assert process.returncode == code
    assert items(root, name="large") == given


def test_an_interrupted_wait_takes_nothing(root: Path) -> None:
    words = [*RUN, "queue", "take", root, "mail/none", "--timeout", "10m"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: waits(process.pid, *SLEEP) or None)
        assert kvwal("queue", "put", root, "mail", "8").code == 0, "a take that waits does not hold the store"
        process.send_signal(signal.SIGINT)
        assert process.communicate() == (b"", b"")
        assert process.returncode == 130
    assert items(root) == [{"to": "ada"}, "hello", 7, 8]


def test_a_take_waits_for_an_item_that_another_process_puts(root: Path) -> None:
    words = [*RUN, "queue", "take", root, "mail/later", "--timeout", "10m"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: waits(process.pid, *SLEEP) or None)
        assert kvwal("queue", "put", root, "mail", "of another queue").code == 0
        assert kvwal("queue", "put", root, "mail/later", "it came").code == 0
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b'"it came"\n', b"")
    began = time.monotonic()
    assert kvwal("queue", "take", root, "mail/later", "--timeout", "0.5").code == 1
    assert time.monotonic() - began >= 0.5


def test_a_take_waits_for_the_process_that_holds_the_store(root: Path) -> None:
    with library.open(root) as store:
        store.queue("mail")
        for timeout in ("0", "0.3"):
            ran = kvwal("queue", "take", root, "mail", "--timeout", timeout)
            assert (ran.code, ran.out) == (3, "")
            assert "the log is held by" in ran.err
        process = subprocess.Popen([*RUN, "queue", "take", root, "mail", "--timeout", "10m"], stdout=subprocess.PIPE)
        until(lambda: waits(process.pid, *SLEEP) or None)
    assert process.communicate(timeout=60)[0] == b'{"to":"ada"}\n'
    assert process.returncode == 0
