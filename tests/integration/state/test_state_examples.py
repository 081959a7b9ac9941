"""The programs of examples/state, killed or stopped in the middle and run again: each order counts once."""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kvwal
from tests.repository.source import ROOT
from tests.support.chance import new_seed
from tests.support.cluster.nodes import CLUSTER, needs_hazelcast, running
from tests.support.spark import environment

PRODUCTS = ("apples", "bread", "coffee", "dates")
pytestmark = pytest.mark.long


class Driver:
    """An example as a process group of its own."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._errors = errors

    def lines(self, count: int) -> list[str]:
        """The next lines that it prints; fewer if it ends before."""
        assert self._process.stdout is not None
        return [line.strip() for _, line in zip(range(count), self._process.stdout, strict=False)]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its Python, its JVM and their workers."""
        os.killpg(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> tuple[int, list[str]]:
        """Wait for its end; its exit code, and the last lines that it printed."""
        assert self._process.stdout is not None
        rest = self._process.stdout.read().split("\n")
        code = self._process.wait()
        assert code in (0, 3), self._errors.read_text()[-4_000:]
        return code, [line for line in rest if line]


@contextmanager
def example(folder: Path, name: str, *arguments: str) -> Iterator[Driver]:
    """One of the examples."""
    errors = folder / f"{name}.stderr"
    command = [sys.executable, str(ROOT / "examples" / "state" / f"{name}.py"), *arguments]
    with errors.open("a") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(ROOT), cwd=folder,
            start_new_session=True,
        )  # fmt: skip
    driver = Driver(process, errors)
    try:
        yield driver
    finally:
        if process.poll() is None:
            driver.kill()
        assert process.stdout is not None
        process.stdout.close()


def kill_in_the_middle(folder: Path, name: str, *arguments: str, most: int) -> list[str]:
    """Run an example, and kill it after some lines and some more time; the lines."""
    chance = random.Random(new_seed())
    with example(folder, name, *arguments) as driver:
        lines = driver.lines(chance.randrange(1, most))
        threading.Event().wait(chance.random() / 2)
        driver.kill()
    return lines


def test_a_killed_run_of_parts_counts_each_part_once(tmp_path: Path) -> None:
    root, day = str(tmp_path / "root"), "2026-11-24"
    before = kill_in_the_middle(tmp_path, "parts", root, day, most=10)
    with example(tmp_path, "parts", root, day) as driver:
        code, after = driver.end()
    assert (code, after[-1]) == (0, "6000 orders in 12 parts")
    done = [line.split()[0] for line in [*before, *after[:-1]]]
    assert len(set(done)) == len(done), "no part was done again that was committed"
    with kvwal.open(root, read_only=True) as store:
        found = dict(store.map("order-sums").scan(f"{day}/"))
    assert len(found) == 12 * len(PRODUCTS)
    assert sum(value["sum"] for value in found.values()) == sum(number % 90 + 10 for number in range(6_000))


def expected_totals(until: int, step: int = 250) -> dict[str, int]:
    """What increments.py counts, by the rule of its watermark."""
    totals: Counter[str] = Counter()
    watermark: int | None = None
    for begin in range(0, until, step):
        numbers = range(begin, min(begin + step, until))
        seconds = {number: number - (60 if number % 10 == 9 else 0) for number in numbers}
        floor = -1 if watermark is None else watermark
        totals.update("late" if seconds[n] < floor else PRODUCTS[n % 4] for n in numbers)
        watermark = max(floor, max(seconds.values()) - 30)
    return dict(totals)


def test_a_killed_program_goes_on_from_its_last_position(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    before = kill_in_the_middle(tmp_path, "increments", root, "5000", most=15)
    with example(tmp_path, "increments", root, "5000") as driver:
        code, after = driver.end()
    positions = [int(line.split()[0]) for line in [*before, *after]]
    # The killed program may have committed the last position before it could print it.
    assert code == 0
    assert positions[-1] == 5000 or not after
    assert len(set(positions)) == len(positions)
    with kvwal.open(root, read_only=True) as store:
        totals = {key: value for key, value in store.map("order-totals").items() if not key.startswith("!")}
    assert totals == expected_totals(5000)
    assert totals["late"] > 0


@needs_hazelcast
def test_the_store_refuses_a_stopped_driver_when_another_has_taken_over(tmp_path: Path) -> None:
    chance = random.Random(new_seed())
    with running(tmp_path / "node") as node:
        words = ("takeover", f"kvwal://{node.address}", "6000", CLUSTER, "3")
        with example(tmp_path, *words) as one, example(tmp_path, *words) as other:
            begun: queue.Queue[tuple[Driver, list[str]]] = queue.Queue()
            # Either may be the first that holds the lease: it is the one that prints.
            for driver in (one, other):
                threading.Thread(target=lambda d=driver: begun.put((d, d.lines(1)))).start()
            first, printed = begun.get()
            assert printed, "a driver ended before its first step"
            second = other if first is one else one
            # At once is between two steps, when it has no write on its way.
            threading.Event().wait(chance.choice((0.0, chance.random())))
            first.signal(signal.SIGSTOP)
            assert begun.get()[0] is second
            code, lines = second.end()
            assert (code, lines[-1].split()) == (0, ["6000", "2"])
            first.signal(signal.SIGCONT)
            code, lines = first.end()
            assert code == 3
            assert "the store refused its write" in lines[-1]
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            state = dict(store.map("order-count").items())
    assert {name: state[name] for name in PRODUCTS} == dict.fromkeys(PRODUCTS, 1500)
    tokens = [state[f"token/{position}"] for position in range(100, 6001, 100)]
    assert tokens == sorted(tokens)
    assert set(tokens) == {1, 2}


def test_a_killed_work_list_counts_each_part_once(tmp_path: Path) -> None:
    root, parts = str(tmp_path / "root"), 6
    kill_in_the_middle(tmp_path, "worklist", root, str(parts), most=4)
    with kvwal.open(root, read_only=True) as store:
        work = store.business("orders")
        done, todo = (list(work.queue(name).browse()) for name in ("done", "todo"))
        assert done + todo == list(range(parts)), "what was in flight is back at the head"
        assert sum(work.map("totals").values()) == 200 * len(done)
    with example(tmp_path, "worklist", root, str(parts)) as driver:
        code, lines = driver.end()
    assert (code, lines) == (0, [str(part) for part in todo])
    with kvwal.open(root) as store:
        work = store.business("orders")
        assert list(work.queue("done").browse()) == list(range(parts))
        assert dict(work.map("totals")) == Counter(PRODUCTS[n % len(PRODUCTS)] for n in range(200 * parts))
