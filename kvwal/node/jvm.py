"""The Java virtual machine in this process: found, checked and started, once."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import jpype

from kvwal.config import check_file
from kvwal.errors import ConfigError
from kvwal.ports.disk import OS_DISK

HAZELCAST = "hazelcast-5.7.0.jar"
SHA256 = "241ec66cea8491787f68c3336f069ac463877af50bdb7676cd9d538f1940dc33"
GLUE = Path(__file__).parent / "glue.jar"

OPTIONS = [
    # No handlers of its own: signals are for Python, which shuts the member down in order.
    "-Xrs",
    # A JVM that runs out of memory loses threads and answers unnoticed: end it with exit code 3, so that it is started again.
    "-XX:+ExitOnOutOfMemoryError",
    # The JVM's last messages go to standard error, like the log of the node.
    "-XX:+DisplayVMOutputToStderr",
    # JPype requests a garbage collection whenever this process has grown, and holds the GIL meanwhile: about 1 s for each GB.
    "-XX:+DisableExplicitGC",
    # No file of figures in /tmp, which the JVM would write 20 times a second; jcmd works without it.
    "-XX:-UsePerfData",
    # With fewer than three cores Hazelcast would start a thread for each callback.
    "-Djava.util.concurrent.ForkJoinPool.common.parallelism=4",
    "-Djava.net.preferIPv4Stack=true",
    "-Dhazelcast.logging.type=jdk",
    # Hazelcast's time without the steps of the machine's clock: with them members would give each other up.
    "-Dcom.hazelcast.clock.impl=kvwal.clock.SteadyClock",
    # Java 25 warns, in plain text, of what JPype and Hazelcast do: load a library, and reach for memory.
    "--enable-native-access=ALL-UNNAMED",
    "-Dsun.misc.unsafe.memory.access=allow",
    "--add-modules=java.se",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.management/sun.management=ALL-UNNAMED",
    "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED",
]


def find_hazelcast(named: str | None) -> Path:
    """The path of the Hazelcast jar: `named`, else the jar that set-up has cached in this checkout or for this user."""
    caches = [Path(__file__).parent.parent.parent / ".cache" / "jars", _user_cache()]
    places = [check_file("hazelcast_jar", named)] if named is not None else [cache / HAZELCAST for cache in caches]
    for place in places:
        if OS_DISK.exists(place):
            return place
    raise ConfigError(
        f"{HAZELCAST} is in none of: {', '.join(map(str, places))}.",
        hint="`make setup` brings it; elsewhere, set hazelcast_jar in the node's file.",
    )


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvwal"


def check_hazelcast(jar: Path) -> Path:
    """Return `jar` if its SHA-256 is the pinned one. The glue jar depends on Hazelcast's internals."""
    digest = hashlib.sha256(OS_DISK.read(jar)).hexdigest()
    if digest != SHA256:
        raise ConfigError(
            f"{jar} has the SHA-256 {digest}, but {SHA256} is pinned.",
            hint="Use Hazelcast 5.7.0 as its makers published it: the glue reaches into it.",
        )
    return jar


def start(heap: str, hazelcast_jar: str | None, more: list[str]) -> None:
    """Start the JVM with Hazelcast and the glue on its class path. `ConfigError` says what is missing."""
    if not OS_DISK.exists(GLUE):
        raise ConfigError(f"{GLUE} is missing.", hint="`make setup` builds it; a wheel brings it.")
    jars = [GLUE, check_hazelcast(find_hazelcast(hazelcast_jar))]
    path = ""
    try:
        path = jpype.getDefaultJVMPath()
        jpype.startJVM(
            path, f"-Xms{heap}", f"-Xmx{heap}", *OPTIONS, *more, classpath=[str(jar) for jar in jars],
            convertStrings=False, interrupt=False,
        )  # fmt: skip
    except (jpype.JVMNotFoundException, jpype.JVMNotSupportedException) as error:
        raise ConfigError(f"no Java could be started: {error}.", hint="Set JAVA_HOME to a Java 17 or newer.") from error
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            f"the Java of {path} did not start with heap = {heap!r} and java_options = {more} ({error}).",
            hint="See whether it is Java 17 or newer and takes these options, and whether this machine has so much memory.",
        ) from error
    # From now on Java's warnings, errors, printed lines and uncaught exceptions are logged, one JSON object a line.
    java("kvwal.member.JsonLogFormatter").begin()


def java(name: str) -> Any:
    """A Java class by its full name."""
    return jpype.JClass(name)
