"""The connection to a cluster: made once, kept up by Hazelcast's client, and every answer of it in words of kvwal."""

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

from kvwal.client.attempts import install
from kvwal.client.connect import ClusterAddress
from kvwal.client.failures import translate, unreachable, would_wait
from kvwal.errors import ConfigError, StoreClosed

T = TypeVar("T")

NAMESPACE = "kvwal.namespace"
"""The attribute by which a member says that it is a node of kvwal, and of which namespace."""
_CONNECT_SECONDS = 5.0


class Link:
    """One connection, which any number of threads use. It comes back by itself when the cluster does."""

    def __init__(self, target: ClusterAddress) -> None:
        """Blocks until a member answers. Raises `ClusterUnreachable` and `ConfigError`."""
        self.target = target
        self._closed = False
        _probe(target)
        self.client = _start(target)
        try:
            self._check_members()
        except BaseException:
            self.client.shutdown()
            raise

    def map(self, name: str) -> Any:
        """Hazelcast's map, as nobody else has it: it takes serialized bytes as they are and gives them so."""
        proxy: Any = copy(self.client.get_map(name))
        proxy._to_object = lambda data: data
        return proxy

    def result(self, begin: Callable[[], HazelcastFuture[T]], what: str, *, writes: bool = False) -> T:
        """What the operation that `begin` begins answers. `WrongLoop` on the thread that brings answers; `StoreClosed`."""
        self.check_open()
        if is_reactor():
            raise would_wait()
        try:
            return begin().result()
        except (HazelcastError, OSError) as error:
            raise translate(error, what, writes=writes) from error

    def check_open(self) -> None:
        """`StoreClosed` if it is."""
        if self._closed:
            raise StoreClosed("the connection to the cluster is closed; nothing was written.", hint="Connect again.")

    def close(self) -> None:
        """End it. Whatever waits for an answer gets an error."""
        self._closed = True
        self.client.shutdown()

    def _check_members(self) -> None:
        """Whatever is written to a member that is no node of kvwal would be memory only."""
        for member in self.client.cluster_service.get_members():
            where = f"{self.target}: the member at {member.address.host}:{member.address.port}"
            namespace = (member.attributes or {}).get(NAMESPACE)
            if namespace is None:
                raise ConfigError(f"{where} is no node of kvwal: nothing would be durable.", hint="Run `kvwal node`.")
            if namespace != self.target.namespace:
                raise ConfigError(
                    f"{where} is of the namespace {namespace!r}, not {self.target.namespace!r}.",
                    hint=f"Connect with namespace={namespace!r}, or to another cluster.",
                )


def is_reactor() -> bool:
    """Whether this is the thread that brings the answers of some client: it must not wait for one."""
    return hasattr(HazelcastFuture._threading_locals, "is_reactor_thread")


def _probe(target: ClusterAddress) -> None:
    """Whether anybody listens at all: Hazelcast's client would go on trying, and then not say where."""
    errors = []
    for host, port in target.addresses:
        try:
            socket.create_connection((host, port), _CONNECT_SECONDS).close()
        except OSError as error:
            errors.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    raise unreachable(f"no node of the cluster {target.cluster} answers ({'; '.join(errors)}).")


def _start(target: ClusterAddress) -> HazelcastClient:
    """A client that has heard of the cluster's members.

    It connects on a thread of its own: what answers at the port may never say what it is.
    """
    heard: Future[None] = Future()

    def joined(member: Any) -> None:
        if not heard.done():
            heard.set_result(None)

    client = HazelcastClient(
        cluster_name=target.cluster,
        cluster_members=[f"{host}:{port}" for host, port in target.addresses],
        async_start=True,
        invocation_timeout=target.timeout,
        membership_listeners=[(joined, None)],
        # The owner waits for the backups, and knows at once when one of them is gone; the client would wait for seconds.
        backup_ack_to_client_enabled=False,
        token_provider=None if target.token is None else BasicTokenProvider(target.token.reveal()),
        ssl_enabled=target.authority is not None,
        ssl_cafile=target.authority,
    )
    install(client._invocation_service)
    try:
        heard.result(_CONNECT_SECONDS)
    except TimeoutError as error:
        client.shutdown()
        raise unreachable(
            f"{target}: what answers there is no member of it, wants another token, or lets no client in."
        ) from error
    return client
