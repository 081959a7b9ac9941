"""Idle nodes: their processor time and their memory, beside plain members of Hazelcast."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.harness import Question, Row, Run, absolute_row, unranked_row
from benchmarks.nodes import compiler_seconds, nodes, processor_seconds, resident_memory
from benchmarks.peers.java import java
from kvwal.node import jvm
from tests.support.ports import free_port

QUESTION = Question(
    "cluster_idle",
    "What does an idle node cost?",
    "a plain member of Hazelcast, for three nodes each of three members of one cluster: the same jar, heap and options of the"
    " JVM, but for the clock of kvwal's own, and Hazelcast's defaults, but for its call home.",
    "the start and the first ten minutes, in which Java compiles what is called most: a node runs for weeks. The notes have the"
    " second minute. No member has a map or a client. All eight processes, four nodes and four plain members, are idle at the"
    " same time, each with a heap of 256 MiB, and each round is one minute.",
)
HEAP = "256m"
SETTLE = 600
"""Seconds from the start until what is measured. By then Java has compiled what an idle node calls."""
TARGET = 2
"""% of a core."""
OWN_CLOCK = "-Dcom.hazelcast.clock.impl="
MEMBER = """<hazelcast xmlns="http://www.hazelcast.com/schema/config">
  <cluster-name>{name}</cluster-name>
  <properties><property name="hazelcast.phone.home.enabled">false</property></properties>
  <network>
    <port auto-increment="false">{port}</port>
    <join>
      <auto-detection enabled="false"/><multicast enabled="false"/>
      <tcp-ip enabled="true">{members}</tcp-ip>
    </join>
    <interfaces enabled="true"><interface>127.0.0.1</interface></interfaces>
  </network>
</hazelcast>
"""


@contextmanager
def plain(folder: Path, count: int) -> Iterator[list[int]]:
    """A cluster of `count` members of Hazelcast: their process ids. They are killed afterwards."""
    ports = [free_port() for _ in range(count)]
    members = "".join(f"<member>127.0.0.1:{port}</member>" for port in ports)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for port in ports:
            config = folder / f"{port}.xml"
            config.write_text(MEMBER.format(name=escape(folder.name), port=port, members=members))
            with (folder / f"{port}.log").open("w") as log:
                running.append(subprocess.Popen(command(config), stdout=log, stderr=subprocess.STDOUT))
        until_joined(folder, running, count)
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait()


def command(config: Path) -> list[str]:
    """The command of a plain member."""
    options = [option for option in jvm.OPTIONS if not option.startswith(OWN_CLOCK)]
    jar = str(jvm.find_hazelcast(None))
    starter = "com.hazelcast.core.server.HazelcastMemberStarter"
    return [java(), f"-Xms{HEAP}", f"-Xmx{HEAP}", *options, f"-Dhazelcast.config={config}", "-cp", jar, starter]


def until_joined(folder: Path, running: list[subprocess.Popen[bytes]], count: int) -> None:
    """Return when each member has logged that all are there."""
    logs = list(folder.glob("*.log"))
    while not all(f"Members {{size:{count}," in log.read_text() for log in logs):
        if any(process.poll() is not None for process in running):
            raise RuntimeError("\n".join(log.read_text()[-2000:] for log in logs))
        time.sleep(0.2)


class Idle:
    """One group of idle processes, and what each of them took in each round. The first round is of the second minute."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self.cores: list[float] = []
        self.compilers: list[float] = []
        self.memory: list[float] = []
        self._before = self._taken()
        self._began = time.perf_counter()

    def _taken(self) -> tuple[float, float]:
        return sum(map(processor_seconds, self._pids)), sum(map(compiler_seconds, self._pids))

    def begin(self) -> None:
        """Begin a round."""
        self._before, self._began = self._taken(), time.perf_counter()

    def end(self) -> None:
        """End a round: note the share of a core, in %, and the memory of each process."""
        processor, compilers = self._taken()
        a_percent = (time.perf_counter() - self._began) * len(self._pids) / 100
        self.cores.append((processor - self._before[0]) / a_percent)
        self.compilers.append((compilers - self._before[1]) / a_percent)
        self.memory.append(sum(map(resident_memory, self._pids)) / len(self._pids))


def take_round(idle: list[Idle], seconds: float) -> None:
    """One round of all groups at once."""
    for group in idle:
        group.begin()
    time.sleep(seconds)
    for group in idle:
        group.end()


def rows(name: str, members: Idle, ours: Idle) -> list[Row]:
    """The two rows of a number of nodes."""
    notes = {
        "in its second minute, % of a core": ours.cores[0],
        "in its second minute Java's compilers, %": ours.compilers[0],
        "of it Java's compilers, %": sum(ours.compilers[1:]) / len(ours.compilers[1:]),
        "the baseline in its second minute, % of a core": members.cores[0],
    }
    return [
        absolute_row(f"{name}, idle", "% of a core", members.cores[1:], ours.cores[1:], "at most", TARGET, notes),
        unranked_row(f"Resident memory of {name}", "MiB", members.memory[1:], ours.memory[1:]),
    ]


def measure(run: Run) -> list[Row]:
    """Two rows for one node, and for each of three: the share of a core, and the resident memory."""
    minute, settle = run.size(60, 2), run.size(SETTLE, 4)
    with (
        nodes(run.root(), 1, run.root(), HEAP) as one,
        nodes(run.root(), 3, run.root(), HEAP) as three,
        plain(run.root(), 1) as one_member,
        plain(run.root(), 3) as three_members,
    ):
        pids = [one_member, [node.pid for node in one.running], three_members, [node.pid for node in three.running]]
        time.sleep(minute)
        idle = [Idle(group) for group in pids]
        take_round(idle, minute)
        time.sleep(settle - 2 * minute)
        for _ in range(run.rounds(2)):
            take_round(idle, minute)
    return [*rows("one node", *idle[:2]), *rows("each of three nodes", *idle[2:])]
