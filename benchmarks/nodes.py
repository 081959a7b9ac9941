"""The nodes of a cluster for the questions on clusters: one process of `kvwal node` each, on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import hazelcast

from tests.support.ports import free_port

CLUSTER = "bench"
HEAP = "2g"


class Nodes:
    """`count` nodes under `folder` with one archive. They run from `start` to `end`."""

    def __init__(self, folder: Path, count: int, archive: Path, heap: str = HEAP) -> None:
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        self._http = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        self.running: list[subprocess.Popen[str]] = []
        self._folder = folder
        self._archive = archive
        (folder / "node.toml").write_text(f'heap = "{heap}"\n')

    @property
    def location(self) -> str:
        """The nodes as a location of kvwal."""
        return f"kvwal://{','.join(self.addresses)}"

    def start(self) -> None:
        """Start all nodes. Returns when all serve."""
        for number, address in enumerate(self.addresses):
            command = [
                str(Path(sys.executable).parent / "kvwal"), "node", str(self._folder / f"root-{number}"),
                "--address", address, "--members", ",".join(self.addresses), "--node", f"node-{number}",
                "--cluster", CLUSTER, "--archive", str(self._archive), "--config", str(self._folder / "node.toml"),
                "--http", self._http[number],
            ]  # fmt: skip
            with self._log(number).open("a") as log:
                self.running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True))
        for number, process in enumerate(self.running):
            assert process.stdout is not None
            if not any("is ready at" in line for line in process.stdout):
                raise RuntimeError(self._log(number).read_text()[-2000:])

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to all nodes. Returns when their processes have ended."""
        for process in self.running:
            process.send_signal(number)
        for process in self.running:
            process.communicate()
        self.running = []

    def seconds_of_loading(self) -> float:
        """The seconds from the moment when the first node began to load until the last node served."""
        began, ready = [], []
        for number in range(len(self.addresses)):
            logged = [json.loads(line) for line in self._log(number).read_text().splitlines() if line.startswith("{")]
            began += [moment(line) for line in logged if line["event"] == "filling memory" and "members" in line]
            ready += [moment(line) for line in logged if line["event"] == "serving"]
        return (max(ready) - max(began)).total_seconds()

    def processor_seconds(self) -> float:
        """The seconds of processor time that all running processes have taken."""
        return sum(processor_seconds(process.pid) for process in self.running)

    def compiler_seconds(self) -> float:
        """The seconds of `processor_seconds` that Java's compilers have taken."""
        return sum(compiler_seconds(process.pid) for process in self.running)

    def memory(self) -> dict[str, float]:
        """The memory of all processes together, in MiB: resident, heap in use, and heap of maps and copies."""
        memory = {
            "resident memory, MiB": 0.0,
            "heap in use with garbage, MiB": 0.0,
            "heap of maps and copies, MiB": 0.0,
        }
        for address in self._http:
            lines = [line.rsplit(" ", 1) for line in fetch(address).decode().splitlines() if not line.startswith("#")]
            for label, metric in zip(memory, ("process_resident_memory", "kvwal_heap_used", "kvwal_map"), strict=True):
                memory[label] += sum(float(value) for name, value in lines if name.startswith(f"{metric}_bytes")) / (
                    1 << 20
                )
        return memory

    def page(self) -> bytes:
        """The metrics page of the first node."""
        return fetch(self._http[0])

    @contextmanager
    def client(self) -> Iterator[hazelcast.HazelcastClient]:
        """Hazelcast's client, which retries operations after the loss of a connection."""
        client = hazelcast.HazelcastClient(cluster_name=CLUSTER, cluster_members=self.addresses, redo_operation=True)
        try:
            yield client
        finally:
            client.shutdown()

    def _log(self, number: int) -> Path:
        return self._folder / f"node-{number}.log"


def fetch(address: str) -> bytes:
    """The metrics page at an HTTP address."""
    with urllib.request.urlopen(f"http://{address}/metrics") as page:
        return bytes(page.read())


def ticks(stat: str) -> float:
    """The seconds of processor time in a `stat` file of /proc, of a process or a thread."""
    return sum(int(count) for count in stat.rpartition(")")[2].split()[11:13]) / os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """The seconds of processor time that a process has taken."""
    return ticks(Path(f"/proc/{pid}/stat").read_text())


def compiler_seconds(pid: int) -> float:
    """The seconds of processor time that the compiler threads of a JVM have taken, those that still run."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return sum(ticks(stat) for stat in stats if stat.partition("(")[2].startswith(("C1 Comp", "C2 Comp")))


def resident_memory(pid: int) -> float:
    """The resident memory of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


@contextmanager
def nodes(folder: Path, count: int, archive: Path, heap: str = HEAP) -> Iterator[Nodes]:
    """Nodes that serve. They are killed afterwards."""
    started = Nodes(folder, count, archive, heap)
    try:
        started.start()
        yield started
    finally:
        started.end(signal.SIGKILL)


def moment(line: dict[str, Any]) -> datetime:
    """The time of a log line."""
    return datetime.fromisoformat(line["timestamp"])
