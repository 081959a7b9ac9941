"""Connection to a cluster: made once, kept up by Hazelcast's client. It raises errors of kvwal only."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import Future
from copy import copy
from typing import Any, TypeVar

from hazelcast.client import HazelcastClient
from hazelcast.errors import HazelcastError
from hazelcast.future import Future as HazelcastFuture
from hazelcast.security import BasicTokenProvider

from kvwal.client.address import ClusterAddress
from kvwal.client.attempts import install
from kvwal.client.failures import translate, unreachable, would_wait
from kvwal.errors import ConfigError, StoreClosed
from kvwal.ports.processes import tell_if_forked

T = TypeVar("T")

NAMESPACE = "kvwal.namespace"
"""Attribute of a cluster member that names its namespace. A member without it is no node of kvwal."""
_CONNECT_SECONDS = 5.0


class Link:
    """One connection for any number of threads. It reconnects by itself after the cluster was away."""

    def __init__(self, address: ClusterAddress) -> None:
        """Waits some seconds for a member that answers. Raises `ClusterUnreachable` and `ConfigError`."""
        self.address = address
        self._closed = False
        self.is_forked = False
        """Whether this process was forked by the one that connected."""
        _check_port_answers(address)
        self.client = _start(address)
        try:
            self._check_members()
        except BaseException:
            self.client.shutdown()
            raise
        tell_if_forked(self)

    def map(self, name: str) -> Any:
        """A proxy of Hazelcast's map that takes and returns serialized bytes unchanged. The proxy is the caller's own."""
        self.check_open()
        proxy: Any = copy(self.client.get_map(name))
        proxy._to_object = lambda data: data
        return proxy

    def result(self, begin: Callable[[], HazelcastFuture[T]], label: str, *, writes: bool = False) -> T:
        """The answer of the operation that `begin` starts.

        `label` names the map in errors; `writes` says that the operation changes something. Errors of Hazelcast come as those
        of kvwal (`translate`). Raises `WrongLoop` on the thread that delivers answers, and `StoreClosed`.
        """
        self.check_open()
        if is_reactor():
            raise would_wait()
        try:
            return begin().result()
        except (HazelcastError, OSError) as error:
            raise translate(error, label, writes=writes) from error

    def check_open(self) -> None:
        """Raise `StoreClosed` if the connection is closed, or is that of the process that forked this one."""
        if self.is_forked:
            raise StoreClosed(
                f"{self.address}: the connection was made in another process, and has no threads in this one, which was forked;"
                " nothing was written.",
                hint="Connect in this process.",
            )
        if self._closed:
            raise StoreClosed("the connection to the cluster is closed; nothing was written.", hint="Connect again.")

    def close(self) -> None:
        """Close the connection. Every call that waits for an answer gets an error. Does nothing in a forked child."""
        if self.is_forked:
            return
        self._closed = True
        self.client.shutdown()

    def forked(self) -> None:
        """In a forked child: close its copies of the sockets. The members would not see when the parent closes its own."""
        self.is_forked = True
        for connection in self.client._connection_manager.active_connections.values():
            connection.socket.close()

    def _check_members(self) -> None:
        """Refuse a member that is no node of kvwal, because it would keep writes in memory only."""
        for member in self.client.cluster_service.get_members():
            where = f"{self.address}: the member at {member.address.host}:{member.address.port}"
            namespace = (member.attributes or {}).get(NAMESPACE)
            if namespace is None:
                raise ConfigError(f"{where} is no node of kvwal: nothing would be durable.", hint="Run `kvwal node`.")
            if namespace != self.address.namespace:
                raise ConfigError(
                    f"{where} is of the namespace {namespace!r}, not {self.address.namespace!r}.",
                    hint=f"Connect with namespace={namespace!r}, or to another cluster.",
                )


def is_reactor() -> bool:
    """Whether this thread delivers the answers of a Hazelcast client. Such a thread must not wait for an answer."""
    return hasattr(HazelcastFuture._threading_locals, "is_reactor_thread")


def _check_port_answers(address: ClusterAddress) -> None:
    """Raise `ClusterUnreachable` if no port accepts a connection.

    Hazelcast's client would keep trying, and its error would not name the address.
    """
    errors = []
    for host, port in address.nodes:
        try:
            socket.create_connection((host, port), _CONNECT_SECONDS).close()
        except OSError as error:
            errors.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    raise unreachable(f"no node of the cluster {address.cluster} answers ({'; '.join(errors)}).")


def _start(address: ClusterAddress) -> HazelcastClient:
    """A client that knows the cluster's members.

    It connects on a thread of its own, because a server that is no member may keep the connection open without an answer.
    """
    members_known: Future[None] = Future()

    def joined(member: Any) -> None:
        if not members_known.done():
            members_known.set_result(None)

    client = HazelcastClient(
        cluster_name=address.cluster,
        cluster_members=[f"{host}:{port}" for host, port in address.nodes],
        async_start=True,
        invocation_timeout=address.timeout,
        membership_listeners=[(joined, None)],
        # The owner waits for its backups, and knows at once when a backup is gone; the client would wait for seconds.
        backup_ack_to_client_enabled=False,
        token_provider=None if address.token is None else BasicTokenProvider(address.token.reveal()),
        ssl_enabled=address.authority is not None,
        ssl_cafile=address.authority,
    )
    install(client._invocation_service)
    try:
        members_known.result(_CONNECT_SECONDS)
    except TimeoutError as error:
        client.shutdown()
        raise unreachable(
            f"{address}: the server there is no member of it, wants another token, or refuses clients."
        ) from error
    return client
