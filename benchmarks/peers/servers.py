"""The servers among the peers, each on a port of loopback and with its files in a folder of the measured disk."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.peers.engines.base import Opening
from tests.support.ports import free_port

STARTED_WITHIN = 120


def redis_command(folder: Path, port: int) -> list[str]:
    """A Redis that answers after the sync of its append-only file."""
    return [
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--appendonly", "yes",
        "--appendfsync", "always", "--save", "", "--auto-aof-rewrite-percentage", "0",
    ]  # fmt: skip


def etcd_command(folder: Path, port: int) -> list[str]:
    """An etcd of one member, which syncs as it comes. Its limits are wide enough for our transactions."""
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
    return [
        "etcd", "--data-dir", str(folder / "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
        "--max-txn-ops", "10000", "--max-request-bytes", str(64 << 20), "--quota-backend-bytes", str(8 << 30),
        "--log-level", "error",
    ]  # fmt: skip


COMMANDS = {"redis": redis_command, "etcd": etcd_command}


@contextmanager
def server(name: str, folder: Path, wrapper: list[str] | None = None) -> Iterator[Opening]:
    """A server that answers, and how to reach it. `wrapper` goes before its command. It is ended in order afterwards."""
    port = free_port()
    with (folder / "server.log").open("a") as log:
        command = [*(wrapper or []), *COMMANDS[name](folder, port)]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(name, port, process, folder)
        yield Opening(folder, port)
    finally:
        end(process, wrapped=wrapper is not None)


def end(process: subprocess.Popen[bytes], wrapped: bool) -> None:
    """Ask the server itself to end, not what runs it, and wait."""
    children = psutil.Process(process.pid).children() if wrapped and process.poll() is None else []
    for child in children:
        child.send_signal(signal.SIGTERM)
    if not children:
        process.send_signal(signal.SIGTERM)
    process.wait()


def wait_for(name: str, port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Return when the server answers a request. Raises `RuntimeError` with its log if it ends before."""
    until = time.monotonic() + STARTED_WITHIN
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        if answers(name, port):
            return
        time.sleep(0.005)
    raise RuntimeError(f"{name} did not start:\n{(folder / 'server.log').read_text()[-1500:]}")


def answers(name: str, port: int) -> bool:
    """Whether the server answers, all its data loaded."""
    request = b"PING\r\n" if name == "redis" else b"GET /health HTTP/1.0\r\n\r\n"
    expected = b"+PONG" if name == "redis" else b'"health":"true"'
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(request)
            received = b""
            while expected not in received:
                part = connection.recv(4096)
                received += part
                if not part or (name == "redis" and part.startswith(b"-LOADING")):
                    return False
            return True
    except OSError:
        return False
