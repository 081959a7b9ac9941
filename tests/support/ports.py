"""Ports of loopback for servers that tests start: each is given once in a run.

A server keeps its port while it is killed and started again. So it is none of those that the kernel gives to outgoing
connections: who connects to such a port while nobody listens there can meet itself, and keeps the port.

A server listens some time after its port was given. So a port is locked for the process that it was given to: runs of two
checkouts can go on side by side.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ABOVE = 10_000
"""SeaweedFS takes the port so far above for gRPC; of every port that is given that one is free too."""
_PROCESSES = 8
"""Processes of one run that may share the ports: each has its own part of them."""
_OWN = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
_LEFT = list(range(10_000, 20_000))[_OWN::_PROCESSES]
random.SystemRandom().shuffle(_LEFT)


_LOCKS = (Path(tempfile.gettempdir()) / f"kvwal-test-ports-{os.getuid()}").open("a+b")
"""The byte at the offset of a port is locked by the process that has the port."""


def free_port() -> int:
    """A port that nobody listens on now, and that no other process was given."""
    while True:
        port = _LEFT.pop()
        if _is_free(port) and _is_free(port + ABOVE) and _is_mine(port):
            return port


def _is_mine(port: int) -> bool:
    try:
        fcntl.lockf(_LOCKS, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def closing() -> Iterator[str]:
    """The address of a server that closes each connection without an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
