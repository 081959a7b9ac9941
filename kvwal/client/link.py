"""Connection to a cluster: made once, kept up by Hazelcast's client. It raises errors of kvwal only."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, TypeVar

from hazelcast.client import HazelcastClient
from hazelcast.errors import AuthenticationError, ClientNotAllowedInClusterError, HazelcastError
from hazelcast.future import Future as HazelcastFuture
from hazelcast.protocol.codec import map_delete_codec, map_set_codec
from hazelcast.security import TokenProvider
from hazelcast.util import thread_id, to_millis

from kvwal.client.address import ClusterAddress
from kvwal.client.attempts import install
from kvwal.client.failures import translate, unreachable, would_wait
from kvwal.cluster.token import TokenSource
from kvwal.errors import ClusterRefused, ClusterUnreachable, ConfigError, StoreClosed
from kvwal.log.waiter import program_ends
from kvwal.ports.boundary import OnError, check_threads, contain
from kvwal.ports.locks import interpreter_ends
from kvwal.ports.logger import get_logger
from kvwal.ports.processes import tell_if_forked

T = TypeVar("T")

NAMESPACE = "kvwal.namespace"
"""Attribute of a cluster member that names its namespace. A member without it is no node of kvwal."""
_CONNECT_SECONDS = 5.0
"""How long one address is waited for: until its port answers, and until it lets the client in."""
_read_timestamp = struct.Struct("<q").unpack
# Hazelcast's client has no types for these.
_put: Any = map_set_codec.encode_request
_delete: Any = map_delete_codec.encode_request
_thread: Any = thread_id
_millis: Any = to_millis
_HEARTBEAT_SECONDS = 2.0
_REFUSALS = (AuthenticationError, ClientNotAllowedInClusterError)
"""The answers of a member that does not let a client in."""
_SILENCE = "no answer"
"""Reason of the close of a connection whose login was not answered in time."""
_SILENT_SECONDS = 15.0
"""A call that waits for a member from which nothing was heard for so long goes to another member. The members give up a silent
member after 10 s; Hazelcast's client would wait for a minute."""


class Link:
    """One connection for any number of threads. It reconnects by itself after the cluster was away."""

    def __init__(self, address: ClusterAddress) -> None:
        """Waits some seconds for a member that answers. Raises `ClusterUnreachable` and `ConfigError`."""
        check_threads()
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

    def later(self, seconds: float, call: Callable[[], None], on_error: OnError) -> None:
        """Call `call` after some seconds, on the thread that delivers answers; at once if the connection is closed meanwhile."""
        contained = partial(contain, call, on_error)
        if self.client.lifecycle_service.is_running():
            reactor: Any = self.client._reactor
            reactor.add_timer(seconds, contained)
        else:
            contained()

    def check_open(self) -> None:
        """Raise `StoreClosed` if the connection is closed or of the process that forked this one, or if the program ends."""
        if interpreter_ends():
            raise program_ends()
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
        if self.is_forked or interpreter_ends():
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


def send_put(proxy: Any, key: Any, value: Any, ttl: float | None) -> Any:
    """Begin to put, with serialized key and value and a time to live in seconds. The answer is as `_timestamp` gives it.

    A member of kvwal tells the timestamp in a frame after Hazelcast's answer (TimestampFrame.java), which the proxy passes over.
    """
    return proxy._invoke_on_key(_put(proxy.name, key, value, _thread(), _millis(ttl)), key, _timestamp)


def send_delete(proxy: Any, key: Any) -> Any:
    """Begin to delete a serialized key. The answer is as `_timestamp` gives it."""
    return proxy._invoke_on_key(_delete(proxy.name, key, _thread()), key, _timestamp)


def _timestamp(answer: Any) -> int | None:
    """The timestamp of the change in the log; None if the key's owner, or the member that answers, is of an earlier version."""
    answer.next_frame()
    frame = answer.next_frame()
    return None if frame is None else int(_read_timestamp(frame.buf)[0])


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


class _Client(HazelcastClient):
    """Hazelcast's client, which tells how each try to log in ended, and gives up an address that is silent.

    Hazelcast's own client logs why an address does not let it in, and waits without end for one that does not answer, even if
    other members would.
    """

    def __init__(self, tried: Callable[[str, BaseException], None], **settings: Any) -> None:
        self._tried = tried
        self.login_seconds = _CONNECT_SECONDS
        super().__init__(**settings)

    def _start(self) -> None:
        manager: Any = self._connection_manager
        self._log_in, self._on_answer = manager._authenticate, manager._on_auth
        manager._authenticate, manager._on_auth = self._log_in_within, self._answered
        install(self._invocation_service)
        super()._start()  # type: ignore[no-untyped-call]

    def _log_in_within(self, connection: Any) -> Any:
        answer = self._log_in(connection)

        def give_up() -> None:
            if not answer.done():
                self._tried(_address_of(connection), TimeoutError())
                connection.close_connection(_SILENCE, None)

        reactor: Any = self._reactor
        reactor.add_timer(self.login_seconds, give_up)
        return answer

    def _answered(self, response: Any, connection: Any) -> Any:
        try:
            return self._on_answer(response, connection)
        except Exception as error:
            if connection.close_reason != _SILENCE:
                self._tried(_address_of(connection), error)
            raise


def _address_of(connection: Any) -> str:
    return f"{connection.connected_address.host}:{connection.connected_address.port}"


class _TokenOfFile(TokenProvider):
    """The token for each new connection to a member. The file may hold another one than at the connection before."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    def token(self, address: Any = None) -> bytes:
        """The token that the file holds now. If it cannot be read at this moment, the one before: it may count still."""
        try:
            self._source.refresh()
        except ConfigError as error:
            get_logger(__name__).warning("the token file cannot be used; the earlier token is sent", error=str(error))
        return self._source.shown.reveal().encode()


def _start(address: ClusterAddress) -> HazelcastClient:
    """A client that knows the cluster's members.

    It connects on a thread of its own, because a server that is no member may keep the connection open without an answer.
    """
    members_known: Future[None] = Future()
    failures: dict[str, BaseException] = {}

    def end() -> None:
        if not members_known.done():
            members_known.set_result(None)

    def tried(where: str, error: BaseException) -> None:
        failures[where] = error
        if all(isinstance(failures.get(text), (*_REFUSALS, TimeoutError)) for text in address.texts):
            end()

    client = _Client(
        tried,
        cluster_name=address.cluster,
        cluster_members=address.texts,
        async_start=True,
        invocation_timeout=address.timeout,
        membership_listeners=[(lambda member: end(), None)],
        # The owner waits for its backups, and knows at once when a backup is gone; the client would wait for seconds.
        backup_ack_to_client_enabled=False,
        token_provider=None if address.token is None else _TokenOfFile(address.token),
        heartbeat_interval=_HEARTBEAT_SECONDS,
        heartbeat_timeout=_SILENT_SECONDS,
        ssl_enabled=address.authority is not None,
        ssl_cafile=address.authority,
    )
    with suppress(TimeoutError):
        members_known.result(_CONNECT_SECONDS * len(address.nodes))
    if not client.cluster_service.get_members():
        error = _not_let_in(address, dict(failures))  # the shutdown lets more tries fail
        client.shutdown()
        raise error
    client.login_seconds = _SILENT_SECONDS
    return client


def _not_let_in(address: ClusterAddress, failures: Mapping[str, BaseException]) -> ClusterUnreachable:
    """The error of a client that no address let in. Only an answer that refuses it is called a refusal."""
    refusing = [where for where, error in failures.items() if isinstance(error, _REFUSALS)]
    if refusing:
        return ClusterRefused(
            f"{address}: {', '.join(refusing)} refuses this client: it is of another cluster than {address.cluster}, or it wants"
            " another token.",
            hint="Check the name of the cluster, and the token: KVWAL_TOKEN_FILE or KVWAL_TOKEN.",
        )
    closed = [where for where, error in failures.items() if not isinstance(error, TimeoutError)]
    if closed:
        tls = "speaks TLS" if address.authority is None else "speaks no TLS"
        text = f"{', '.join(closed)} closes the connection without an answer: it {tls}, or it is no node of kvwal"
        return unreachable(f"{address}: {_certificate_refusal(address) or text}.")
    return ClusterUnreachable(
        f"{address}: it accepts a connection, and gave no answer within {_CONNECT_SECONDS:.0f} s: it is slow or stands still, or"
        " it is no node of kvwal.",
        hint="Try again, and see the load of the nodes.",
    )


def _certificate_refusal(address: ClusterAddress) -> str | None:
    """Why a node's certificate is refused here, in OpenSSL's words (it has expired, say); None if none is.

    Hazelcast's client logs the reason only, and tries the next node.
    """
    if address.authority is None:
        return None
    context = ssl.create_default_context(cafile=address.authority)
    context.check_hostname = False
    for host, port in address.nodes:
        try:
            with socket.create_connection((host, port), _CONNECT_SECONDS) as plain, context.wrap_socket(plain):
                continue
        except ssl.SSLCertVerificationError as error:
            return f"the certificate of {host}:{port} is refused: {error.verify_message}"
        except OSError:
            continue  # another kind of error, which the caller names
    return None
