"""Real nodes of a cluster on loopback: processes that are started, killed and started again, and clients of theirs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import hazelcast
import jpype
import pytest

import kvwal
from tests.repository.source import ROOT
from tests.support.java.class_data import java_options
from tests.support.polling import until
from tests.support.ports import free_port

JAR = ROOT / ".cache" / "jars" / "hazelcast-5.7.0.jar"
GLUE = ROOT / "kvwal" / "node" / "glue.jar"
CLUSTER = "test"
JAVA_OPTIONS = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
"""For a JVM that starts quickly and needs few threads."""
INSPECTED = "-Dkvwal.inspect=true"
"""For JAVA_TOOL_OPTIONS: clients may look into the members' own maps, and ask as a member does."""

needs_hazelcast = pytest.mark.skipif(
    not (JAR.exists() and GLUE.exists()),
    reason="Hazelcast's jar or the glue is not here: `make setup` brings both where there is a network",
)


class Node:
    """One node under `root`. Its ports stay the same from start to start; `log` is its standard error, of all starts,
    `prefix` a command that it always runs under, `program` the kvwal that it is of. `jvm` is what its file says of its JVM; by
    default that is a small one."""

    def __init__(
        self,
        root: Path,
        name: str = "node-1",
        *,
        config: str = "",
        more: Sequence[str] = (),
        host: str = "127.0.0.1",
        jvm: str | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.root = root
        self.name = name
        self.host = host
        self.prefix = list(prefix)
        self.program = Path(sys.executable).parent / "kvwal"
        self.port, self.http = free_port(), free_port()
        self.more = list(more)
        self.log = root.parent / f"{root.name}-{name}.log"
        self._config = root.parent / f"{root.name}-{name}.toml"
        self._config.write_text((small_jvm() if jvm is None else jvm) + config)
        self.process: subprocess.Popen[str] | None = None
        self._serves = False

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def spawn(self, *prefix: str) -> None:
        """Begin to start; `prefix` is a command to run it under."""
        command = [
            *self.prefix, *prefix, str(self.program), "node", str(self.root), "--address", self.address,
            "--node", self.name, "--cluster", CLUSTER, "--http", f"{self.host}:{self.http}", "--config", str(self._config),
            *self.more,
        ]  # fmt: skip
        self._serves = False
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def lines(self) -> list[dict[str, Any]]:
        """What it said on standard error, of all starts: each line is a JSON object."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def written_again(self) -> list[dict[str, int]]:
        """What it wrote to its log once more: the number of entries of each map, for each comparison that succeeded."""
        compared = '"event": "compared with the others after an absence"'
        return [json.loads(line)["written_again"] for line in self.log.read_text().splitlines() if compared in line]

    def wait_ready(self) -> None:
        """Return when it says that it serves; fail with its log if it ends instead."""
        assert self.process is not None
        assert self.process.stdout is not None
        while not self._serves and (line := self.process.stdout.readline()):
            self._serves = "is ready at" in line
        if self._serves:
            return
        raise AssertionError(f"{self.name} ended with {self.process.wait()}:\n{self.log.read_text()}")

    def start(self) -> None:
        """Return when it serves."""
        self.spawn()
        self.wait_ready()

    def kill(self) -> None:
        """Kill -9, and wait for the end."""
        assert self.process is not None
        self.process.kill()
        self.ended()

    def stop(self) -> int:
        """SIGTERM, and wait for the end; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Wait for its end; its exit code."""
        assert self.process is not None
        code = self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None
        return code

    def restart(self) -> None:
        """Kill -9, and start again."""
        self.kill()
        self.start()

    def get(self, path: str) -> tuple[int, str]:
        """An HTTP answer's status and text."""
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.http}{path}") as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def ready(self) -> dict[str, Any]:
        """What /readyz says."""
        found: dict[str, Any] = json.loads(self.get("/readyz")[1])
        return found

    def figures(self) -> dict[str, float]:
        """What it tells Prometheus, by name and labels."""
        lines = (line.rsplit(" ", 1) for line in self.get("/metrics")[1].splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def told(self, word: str) -> str:
        """Wait until it says something with `word` at /readyz; what it said."""

        def said() -> str | None:
            try:
                text = self.get("/readyz")[1]
            except OSError:  # it does not listen yet
                return None
            return text if word in text else None

        return until(said)

    @contextmanager
    def client(self, **settings: Any) -> Iterator[hazelcast.HazelcastClient]:
        """A plain client of hazelcast-python-client."""
        client = hazelcast.HazelcastClient(cluster_name=CLUSTER, cluster_members=[self.address], **settings)
        try:
            yield client
        finally:
            client.shutdown()


def small_jvm(*more: str, heap: str = "256m") -> str:
    """Settings of a node: a JVM that is small and starts quickly, with `more` Java options."""
    return _settings(heap, [*JAVA_OPTIONS, *_class_data(), *more])


def _settings(heap: str, options: Sequence[str]) -> str:
    return f'heap = "{heap}"\njava_options = {json.dumps(list(options))}\n'


def prepare_nodes() -> None:
    """Make the class-data archive of nodes, if it is not there."""
    if JAR.exists() and GLUE.exists():
        _class_data()


@cache
def _class_data() -> list[str]:
    home = Path(jpype.getDefaultJVMPath()).parents[2]
    return java_options(
        "node", home, [JAR, GLUE, Path(jpype.__file__)], _fill_class_data
    )  # JPype brings a jar of its own


def _fill_class_data(options: list[str]) -> None:
    """Run two nodes that do a little of everything; the JVM of the first one writes its classes when it ends.

    The test that asks first may have set a token, which a plain client does not give: it would be refused for ever.
    """
    with TemporaryDirectory() as folder, patch.dict(os.environ):
        for variable in ("KVWAL_TOKEN", "KVWAL_TOKEN_FILE"):
            os.environ.pop(variable, None)
        first = Node(Path(folder) / "root-1", "node-1", jvm=_settings("256m", [*JAVA_OPTIONS, *options]))
        second = Node(Path(folder) / "root-2", "node-2", jvm=_settings("256m", JAVA_OPTIONS))
        for node in (first, second):
            node.more = ["--members", f"{first.address},{second.address}", "--archive", str(Path(folder) / "archive")]
            node.spawn()
        try:
            first.wait_ready()
            second.wait_ready()
            with first.client() as client:
                plain = client.get_map("plain").blocking()
                plain.put_all({"a": 1, "b": 2})
                plain.put("c", 3, ttl=60)
                plain.delete("a")
                plain.entry_set()
            with kvwal.connect(first.address, cluster=CLUSTER) as store:
                jobs = store.map("jobs")
                with jobs.transaction() as together:
                    together["a"], together["b"] = 1, 2
                jobs.history("a")
            first.figures()
        finally:
            for node, end in ((first, Node.stop), (second, Node.kill)):
                if node.process is not None:
                    end(node)


class Cluster:
    """Nodes that are told of each other, each with a root of its own under `folder`, and one archive.

    `{node}` in `config` stands for the name of each node.
    """

    def __init__(
        self, folder: Path, count: int, *, archive: Path | None = None, url: str = "", config: str = ""
    ) -> None:
        """`url` is that of a bucket which they archive to, and not to the folder `archive`."""
        self.folder = folder
        self.archive = folder / "archive" if archive is None else archive
        self.url = url or str(self.archive)
        self.config = config
        self.nodes: list[Node] = []
        self._ever = 0
        self.grow(count)

    @property
    def addresses(self) -> str:
        """The addresses of all nodes, with commas."""
        return ",".join(node.address for node in self.nodes)

    @property
    def location(self) -> str:
        """The cluster as a location of kvwal."""
        return f"kvwal://{self.addresses}"

    def tell(self, *more: str) -> None:
        """Give every node the list of members as it is now, and `more` options."""
        for node in self.nodes:
            node.more = ["--members", self.addresses, "--archive", self.url, *more]

    def grow(self, count: int) -> None:
        """More nodes, with roots of their own; all are told of them, and none is started."""
        more = range(self._ever + 1, self._ever + count + 1)
        names = [(self.folder / f"root-{n}", f"node-{n}") for n in more]
        self.nodes += [Node(root, name, config=self.config.replace("{node}", name)) for root, name in names]
        self._ever += count
        self.tell()

    def start(self) -> None:
        """Start those that do not run; return when all serve."""
        for node in self.nodes:
            if node.process is None:
                node.spawn()
        for node in self.nodes:
            node.wait_ready()

    def kill(self, *lost: Node) -> None:
        """Kill -9 these, or all of them, as near to the same moment as can be."""
        for node in lost or self.nodes:
            os.kill(node.pid, signal.SIGKILL)
        for node in lost or self.nodes:
            node.kill()

    def restart(self, lost: Node | None = None) -> None:
        """Kill -9 one of them (None: all), and start what is gone; return when all serve."""
        if lost is None:
            self.kill()
        else:
            lost.kill()
        self.start()

    @contextmanager
    def client(self, *first: Node, **settings: Any) -> Iterator[hazelcast.HazelcastClient]:
        """A plain client that knows all members, and sends again what may be sent again. Who the members are it hears from the
        one that it reached first: any, or one of `first`."""
        addresses = [node.address for node in first or self.nodes]
        client = hazelcast.HazelcastClient(
            cluster_name=CLUSTER, cluster_members=addresses, redo_operation=True, **settings
        )
        try:
            yield client
        finally:
            client.shutdown()

    def by_age(self) -> list[Node]:
        """The nodes that serve, the oldest member first: it leads the others."""
        nodes = {node.address: node for node in self.nodes}
        with self.client() as client:
            members = client.cluster_service.get_members()
        return [nodes[f"{member.address.host}:{member.address.port}"] for member in members]

    def contents(self, name: str) -> dict[Any, Any]:
        """What a map holds."""
        with self.client() as client:
            return dict(client.get_map(name).blocking().entry_set())


@contextmanager
def cluster(folder: Path, count: int, **settings: Any) -> Iterator[Cluster]:
    """Nodes that serve, and that are gone afterwards."""
    made = Cluster(folder, count, **settings)
    ever = set(made.nodes)
    try:
        made.start()
        yield made
    finally:
        for node in ever.union(made.nodes):
            if node.process is not None:
                node.kill()


@contextmanager
def running(root: Path, **settings: Any) -> Iterator[Node]:
    """A node that serves, and that is gone afterwards."""
    node = Node(root, **settings)
    try:
        node.start()
        yield node
    finally:
        if node.process is not None:
            node.kill()


def key_owned_by(client: hazelcast.HazelcastClient, node: Node, keys: Sequence[str]) -> str:
    """The first of these keys that the node owns, as the client sees that; a new client hears of owners only after a while."""
    partitions = client.partition_service
    members = client.cluster_service.get_members()
    uuid = next(one.uuid for one in members if f"{one.address.host}:{one.address.port}" == node.address)

    def first() -> str | None:
        owned = (key for key in keys if partitions.get_partition_owner(partitions.get_partition_id(key)) == uuid)
        return next(owned, None)

    return until(first)


def java_tool(name: str) -> str | None:
    """A program of the JDK, or None where there is only a runtime."""
    home = os.environ.get("JAVA_HOME")
    places = [Path(home) / "bin"] if home else []
    places += [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    return next((str(place / name) for place in places if (place / name).exists()), None)
