"""A TCP relay before a server that counts the bytes of its answers: what a client reads, however many processes it has."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

PIECE = 1 << 18


class Relay(socketserver.ThreadingTCPServer):
    """`url` is where clients go instead of `endpoint`. `answered` is the number of bytes that came back, headers included."""

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        there = urlsplit(endpoint)
        self.there = (there.hostname, there.port)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.answered = 0
        self._lock = threading.Lock()

    def count(self, received: int) -> None:
        """Add the bytes of an answer."""
        with self._lock:
            self.answered += received


class _Connection(socketserver.BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        with socket.create_connection(self.server.there) as upstream:
            back = threading.Thread(target=self._pass_on, args=(upstream, self.request, self.server.count), daemon=True)
            back.start()
            self._pass_on(self.request, upstream, lambda received: None)
            back.join()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket, count: Callable[[int], None]) -> None:
        with suppress(OSError):  # a side that has hung up ends the connection of both
            while piece := source.recv(PIECE):
                count(len(piece))
                target.sendall(piece)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def relayed(endpoint: str) -> Iterator[Relay]:
    """A relay before this server."""
    with Relay(endpoint) as relay:
        thread = threading.Thread(target=relay.serve_forever)
        thread.start()
        try:
            yield relay
        finally:
            relay.shutdown()
            thread.join()
