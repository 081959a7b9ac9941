"""The demonstration of `make run-cluster`: Spark jobs recorded into three nodes, which are all killed and started again.

All files lie under data/demo-cluster (or the folder given). Each run deletes those of the run before.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from terminal import KVWAL, console, empty_folder, shell, step, typed

import kvwal

HERE = Path(__file__).resolve().parent
CLUSTER = "demo"
NODES = 3


class Node:
    """A node of the cluster, as `kvwal node` runs it."""

    def __init__(self, home: Path, number: int, addresses: list[str]) -> None:
        self.name = f"node-{number}"
        self._arguments = [
            "node", str(home / self.name), "--address", addresses[number - 1], "--members", ",".join(addresses),
            "--node", self.name, "--cluster", CLUSTER, "--archive", str(home / "archive"),
        ]  # fmt: skip
        self._log = home / f"{self.name}.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begin to start."""
        typed(*self._arguments)
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*KVWAL, *self._arguments], stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )

    def wait(self) -> None:
        """Return when it serves, and print what it says of that. Exit if it ends instead."""
        if self._process is None or self._process.stdout is None:
            return
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self.name} ended with code {self._process.wait()}: see {self._log}")
        console.print(line.rstrip())

    def kill(self) -> None:
        """Kill -9, and wait for the end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Let it leave in order."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def main() -> int:
    """Run all steps. 0 if the cluster has the same records after all of its nodes were killed."""
    home = empty_folder("data/demo-cluster")
    work = home / "flights"
    work.mkdir(parents=True)
    began = time.monotonic()
    with running(home) as (nodes, location):
        record_flights(location, work)
        before = records(location)
        kill_all(nodes)
        shell("jobs", location, "--cluster", CLUSTER)
        after = records(location)
    differ = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    console.print(f"\n{len(before):,} records before, {len(after):,} after, [bold]{len(differ)} differ[/].")
    if differ:
        console.print("\n[bold red]The records differ.[/]")
        return 1
    console.print(f"\n[bold green]Done[/] in {time.monotonic() - began:.0f} seconds.")
    return 0


@contextmanager
def running(home: Path) -> Iterator[tuple[list[Node], str]]:
    """Three nodes that serve, and the location of their cluster. They leave at the end of the block."""
    step(
        1,
        "Three nodes",
        "Each is a process with its own part of the memory and its own log. They wait for each other, and then serve.",
    )
    addresses = [f"127.0.0.1:{port}" for port in free_ports(NODES)]
    nodes = [Node(home, number, addresses) for number in range(1, NODES + 1)]
    with ExitStack() as stops:
        for node in nodes:
            stops.callback(node.stop)
        start_all(nodes)
        yield nodes, f"kvwal://{','.join(addresses)}"


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def start_all(nodes: list[Node]) -> None:
    """Start the nodes, and return when all serve."""
    for node in nodes:
        node.start()
    for node in nodes:
        node.wait()


def record_flights(location: str, work: Path) -> None:
    """Run the flights application to its end, recorded into the cluster."""
    step(
        2,
        "A Spark application, recorded into the cluster",
        "336,776 flights: joins, aggregations, a window, a stream, and one job that fails on purpose.",
    )
    command = [sys.executable, str(HERE / "flights" / "app.py"), location, "--work", str(work), "--cluster", CLUSTER]
    # Spark's workers take the first python3 on the PATH unless PYSPARK_PYTHON names another.
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with console.status("Spark is starting, then working"), (work / "stderr.txt").open("ab") as log:
        ended = subprocess.run(command, env=environment, stderr=log, check=False)
    if ended.returncode:
        sys.exit(f"the application ended with code {ended.returncode}: see {work / 'stderr.txt'}")
    shell("jobs", location, "--cluster", CLUSTER)
    shell("jobs", location, "--cluster", CLUSTER, "--failed")


def kill_all(nodes: list[Node]) -> None:
    """Kill every node, so that nothing of the memory is left, and start them again."""
    step(
        3,
        "kill -9 of all three nodes",
        "Nothing is left of the memory. The nodes start with the same commands, and fill it from their logs.",
    )
    for node in nodes:
        node.kill()
    console.print("Killed.\n")
    start_all(nodes)
    console.print()


def records(location: str) -> dict[str, Any]:
    """All records that the cluster serves."""
    with kvwal.connect(location.removeprefix("kvwal://"), cluster=CLUSTER) as store:
        return dict(store.map("spark").items())


if __name__ == "__main__":
    sys.exit(main())
