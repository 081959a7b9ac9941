"""Ports of loopback for servers that tests start: each is given once in a run.

A server keeps its port while it is killed and started again. So it is none of those that the kernel gives to outgoing
connections: who connects to such a port while nobody listens there can meet itself, and keeps the port.
"""

from __future__ import annotations

import os
import random
import socket

ABOVE = 10_000
"""SeaweedFS takes the port so far above for gRPC; of every port that is given that one is free too."""
_PROCESSES = 8
"""Processes of one run that may share the ports: each has its own part of them."""
_OWN = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
_LEFT = list(range(10_000, 20_000))[_OWN::_PROCESSES]
random.SystemRandom().shuffle(_LEFT)


def free_port() -> int:
    """A port that nobody listens on now."""
    while True:
        port = _LEFT.pop()
        if _is_free(port) and _is_free(port + ABOVE):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
