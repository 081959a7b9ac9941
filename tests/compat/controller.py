"""Stands in for the remote controller of the client's tests: starts members as processes, ends them, runs scripts in them.

The tests import it as `tests.hzrc.client`. What they call keeps the names that they know.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4

TESTS = Path(__file__).resolve().parent.parent
PORTS = range(5701, 5706)
"""Where a client without configuration looks for members, and where members look for each other."""
_XML = '<hazelcast xmlns="http://www.hazelcast.com/schema/config">{}</hazelcast>'
_UUID = "result = '' + instance_0.getCluster().getLocalMember().getUuid();"
_PROPERTY = re.compile(r'<property name="(hazelcast\.[^"]+)">\s*(.*?)\s*</property>', re.DOTALL)
_FILE = """heap = "512m"
java_options = {}
majority = false
"""


class Cluster(NamedTuple):
    """What `createCluster` answers."""

    id: str


class Response(NamedTuple):
    """What a script came to."""

    success: bool
    message: str
    result: bytes | None


class Member:
    """A running member."""

    host = "127.0.0.1"

    def __init__(self, port: int, command: list[str], log: Path) -> None:
        self.port = port
        self._scripts = _free_port()
        own = [sys.executable, "-m", "compat.member", str(self._scripts), *command]
        path = {"PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}"}
        with log.open("a") as errors:
            self.process = subprocess.Popen(
                own, cwd=log.parent, env=os.environ | path, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        # A test may time out here. No cluster knows the member yet, so nothing else would end it.
        with ExitStack() as unready:
            unready.callback(self.end, signal.SIGKILL)
            self._wait_until_ready(log)
            self.uuid = (self.run(_UUID).result or b"").decode()
            unready.pop_all()

    def _wait_until_ready(self, log: Path) -> None:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if "is ready at" in line:
                return
        raise RuntimeError(f"a member ended with {self.process.wait()}: {_cause(log.read_text())}")

    def run(self, script: str) -> Response:
        """Run a script in the member."""
        with socket.create_connection((self.host, self._scripts)) as link, link.makefile("rw") as file:
            file.write(json.dumps(script) + "\n")
            file.flush()
            found = json.loads(file.readline())
        result = found.get("result")
        return Response(
            found["success"], found.get("message", ""), None if result is None else base64.b64decode(result)
        )

    def end(self, how: signal.Signals) -> None:
        """Send it a signal, and wait for its end."""
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(how)
        self.process.wait()


class _Members:
    """The members of one cluster, and how one more is started."""

    def __init__(self, name: str, xml: str | None) -> None:
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix="kvwal-compat-"))
        self.running: list[Member] = []
        self._xml = xml or _XML.format("")
        self._ever = 0

    def start(self) -> Member:
        """One more member, at the first port that is free."""
        taken = {member.port for member in self.running}
        port = next((port for port in PORTS if port not in taken and is_free(port)), None)
        if port is None:
            raise RuntimeError(f"no port is free for a member: {PORTS[0]} to {PORTS[-1]} are in use")
        self._ever += 1
        of_kind = self._node if os.environ["COMPAT_MEMBER"] == "node" else self._plain
        member = Member(port, of_kind(port), self.folder / f"{self._ever}.log")
        self.running.append(member)
        return member

    def _plain(self, port: int) -> list[str]:
        """With the configuration of the test, under the name that the test asks for."""
        text = re.sub(r"<cluster-name>.*?</cluster-name>", "", self._xml, flags=re.DOTALL)
        text = re.sub(r"(<hazelcast\b[^>]*>)", rf"\1<cluster-name>{self.name}</cluster-name>", text, count=1)
        file = self.folder / f"{self._ever}.xml"
        file.write_text(text)
        return ["plain", str(file), str(port)]

    def _node(self, port: int) -> list[str]:
        """A node has no XML. Of what a test asks for by one it gets the properties of Hazelcast, by Java's options."""
        file = self.folder / "node.toml"
        file.write_text(
            _FILE.format(json.dumps(["-XX:+UseSerialGC", *(f"-D{n}={v}" for n, v in _PROPERTY.findall(self._xml))]))
        )
        if not self.running:
            self._archive = self.folder / f"archive-{self._ever}"
        members = ",".join(f"127.0.0.1:{number}" for number in [*(member.port for member in self.running), port])
        name = f"node-{self._ever}"
        return [
            "node", str(self.folder / name), "--address", f"127.0.0.1:{port}", "--node", name, "--cluster", self.name,
            "--members", members, "--archive", str(self._archive), "--config", str(file),
        ]  # fmt: skip

    def end(self, uuid: str | None, how: signal.Signals) -> None:
        """End one member, or all."""
        for member in [member for member in self.running if uuid in (None, member.uuid)]:
            member.end(how)
            self.running.remove(member)

    def forget(self) -> None:
        """End all, and remove what they wrote."""
        self.end(None, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class HzRemoteController:
    """What the tests know as their remote controller."""

    not_exited: ClassVar[set[HzRemoteController]] = set()

    def __init__(self, host: str, port: int) -> None:
        self._clusters: dict[str, _Members] = {}
        self.not_exited.add(self)

    def createCluster(self, version: str | None, xml: str | None) -> Cluster:  # noqa: N802 - the tests call it so
        return self._create(str(uuid4()), xml)

    def createClusterKeepClusterName(self, version: str | None, xml: str | None) -> Cluster:  # noqa: N802
        named = re.search(r"<cluster-name>(.*?)</cluster-name>", xml or "", flags=re.DOTALL)
        return self._create(named[1].strip() if named else "dev", xml)

    def _create(self, name: str, xml: str | None) -> Cluster:
        self._clusters[name] = _Members(name, xml)
        return Cluster(name)

    def startMember(self, cluster: str) -> Member:  # noqa: N802
        return self._clusters[cluster].start()

    def shutdownMember(self, cluster: str, uuid: str) -> bool:  # noqa: N802
        return self._end(cluster, uuid, signal.SIGTERM)

    def terminateMember(self, cluster: str, uuid: str) -> bool:  # noqa: N802
        return self._end(cluster, uuid, signal.SIGKILL)

    def _end(self, cluster: str, uuid: str, how: signal.Signals) -> bool:
        self._clusters[cluster].end(uuid, how)
        return True

    def suspendMember(self, cluster: str, uuid: str) -> bool:  # noqa: N802
        return self._signal(cluster, uuid, signal.SIGSTOP)

    def resumeMember(self, cluster: str, uuid: str) -> bool:  # noqa: N802
        return self._signal(cluster, uuid, signal.SIGCONT)

    def _signal(self, cluster: str, uuid: str, what: signal.Signals) -> bool:
        for member in self._clusters[cluster].running:
            if member.uuid == uuid:
                member.process.send_signal(what)
        return True

    def shutdownCluster(self, cluster: str) -> bool:  # noqa: N802
        return self.terminateCluster(cluster)

    def terminateCluster(self, cluster: str) -> bool:  # noqa: N802
        if found := self._clusters.pop(cluster, None):
            found.forget()
        return True

    def executeOnController(self, cluster: str | None, script: str, language: Any) -> Response:  # noqa: N802
        if cluster is None:  # which version members have, before there is one
            return Response(True, "", b"5.7.0")
        number = re.search(r"instance_(\d+)", script)
        return self._clusters[cluster].running[int(number[1]) if number else 0].run(script)

    def exit(self) -> None:
        """End the members that a test left running."""
        for cluster in list(self._clusters):
            self.terminateCluster(cluster)
        self.not_exited.discard(self)


def _cause(log: str) -> str:
    """The last exception that a member logged, on one line, and the end of its log."""
    named = [
        line.strip() for line in log.splitlines() if re.match(r"\s*(Caused by: )?[\w.$]+(Exception|Error)\b", line)
    ]
    return "\n".join([*named[-1:], log[-2000:]])


def is_free(port: int) -> bool:
    """Whether nothing listens at the port."""
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return link.connect_ex(("127.0.0.1", port)) != 0


def _free_port() -> int:
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        return int(link.getsockname()[1])
