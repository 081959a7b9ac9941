"""A member in a process of its own, of which the tests may ask that it runs a script: `python -m compat.member KIND …`.

`plain FILE` is Hazelcast as it comes, with the XML of FILE; `node ARGUMENT…` is `kvwal node ARGUMENT…`. The first argument
is the port at which scripts are taken, one a connection: JavaScript in, one JSON object out.
"""

from __future__ import annotations

import base64
import json
import signal
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any

import jpype
from compat import jars

from kvwal.node import jvm

_JVM = ["-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-Xrs", "-Djava.util.concurrent.ForkJoinPool.common.parallelism=4",
        "-Djava.net.preferIPv4Stack=true", "-Dhazelcast.logging.type=jdk", "-Dhazelcast.phone.home.enabled=false",
        "-Dhazelcast.shutdownhook.enabled=false", "-Dhazelcast.wait.seconds.before.join=0"]  # fmt: skip


class Scripts(socketserver.StreamRequestHandler):
    """Runs what the tests send, in the process of the member."""

    def handle(self) -> None:
        script = self.rfile.readline()
        try:
            found = _run(json.loads(script))
            answer: dict[str, Any] = {"success": True, "result": base64.b64encode(found).decode()}
        except (jpype.JException, RuntimeError, TypeError) as error:
            answer = {"success": False, "message": str(error)}
        self.wfile.write(json.dumps(answer).encode())


def _run(script: str) -> bytes:
    """What the script left in `result`; the members of this process are its `instance_0`, and so on."""
    urls = [jpype.JClass("java.io.File")(str(jar)).toURI().toURL() for jar in jars.of_scripts()]
    system = jpype.JClass("java.lang.ClassLoader").getSystemClassLoader()
    loader = jpype.JClass("java.net.URLClassLoader")(urls, system)
    engine = jpype.JClass("org.openjdk.nashorn.api.scripting.NashornScriptEngineFactory", loader=loader)
    javascript = engine().getScriptEngine(loader)
    for number, instance in enumerate(jpype.JClass("com.hazelcast.core.Hazelcast").getAllHazelcastInstances()):
        for name in {f"instance_{number}", "instance_0", "instance_1"}:
            javascript.put(name, instance)
    javascript.eval(script)
    found = javascript.get("result")
    if found is None:
        return b""
    return bytes(found) if isinstance(found, jpype.JArray) else str(found).encode()


def plain(file: str, port: str) -> None:
    """Be a member as Hazelcast has it, until SIGTERM."""
    own = [jvm.find_hazelcast(None), *jars.of_plain_member()]
    jpype.startJVM(jpype.getDefaultJVMPath(), *_JVM, classpath=[str(jar) for jar in own], convertStrings=False)
    root = jpype.JClass("java.util.logging.Logger").getLogger("")
    root.setLevel(jpype.JClass("java.util.logging.Level").WARNING)
    config = jpype.JClass("com.hazelcast.config.InMemoryXmlConfig")(Path(file).read_text())
    network = config.getNetworkConfig().setPort(int(port))
    network.getJoin().getAutoDetectionConfig().setEnabled(False)
    network.getJoin().getMulticastConfig().setEnabled(False)
    tcp = network.getJoin().getTcpIpConfig().setEnabled(True)
    for number in range(5701, 5706):
        tcp.addMember(f"127.0.0.1:{number}")
    instance = jpype.JClass("com.hazelcast.core.Hazelcast").newHazelcastInstance(config)
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    print("plain is ready at", port, flush=True)
    told.wait()
    instance.shutdown()


def main() -> None:
    """Take scripts, and be the member."""
    scripts, kind, *rest = sys.argv[1:]
    server = socketserver.ThreadingTCPServer(("127.0.0.1", int(scripts)), Scripts)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if kind == "plain":
        plain(*rest)
        return
    from kvwal.cli.main import main as kvwal

    sys.argv = ["kvwal", "node", *rest]
    kvwal()


if __name__ == "__main__":
    main()
