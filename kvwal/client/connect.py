"""`kvwal.connect`: checked arguments first, and Hazelcast's client only when it is known to be there."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from kvwal.cluster.token import Token, find_authority, find_token
from kvwal.config import is_seconds
from kvwal.errors import ConfigError, WrongType

if TYPE_CHECKING:
    from kvwal.client.store import ClusterStore

PORT = 5701
_PORTS = 1 << 16


class ClusterAddress(NamedTuple):
    """Which cluster, where, and how patiently."""

    addresses: list[tuple[str, int]]
    cluster: str
    namespace: str
    timeout: float
    token: Token | None = None
    """What the nodes are shown, if they ask for it."""
    authority: str | None = None
    """The file of the authority that the nodes' certificates come from; None for no TLS."""

    def __str__(self) -> str:
        return f"cluster {self.cluster} at {', '.join(f'{host}:{port}' for host, port in self.addresses)}"


def connect(
    addresses: str | Sequence[str],
    *,
    cluster: str = "local",
    namespace: str = "default",
    timeout: float = 30.0,
    token: str | None = None,
    authority: str | None = None,
) -> ClusterStore:
    """A store whose maps are those of a running cluster; `with` closes it.

    `addresses` are some of its nodes, `host:port` (a list, or text with commas); the others are found through them. `timeout`
    is how many seconds a read, a put or a delete goes on trying while no node answers, or while the cluster loads its memory.
    `token` is the cluster's token, if it has one; without it KVWAL_TOKEN_FILE or KVWAL_TOKEN of the environment. `authority` is
    the PEM file that the nodes' certificates are checked with, if they speak TLS; without it KVWAL_AUTHORITY of the environment.

    Raises `ClusterUnreachable`, and `ConfigError` if the cluster is not that of `namespace`, or the package is missing.
    """
    target = make_target(addresses, cluster, namespace, timeout, token, authority)
    from kvwal.client.store import ClusterStore

    return ClusterStore(target)


def make_target(
    addresses: str | Sequence[str],
    cluster: str,
    namespace: str,
    timeout: float,
    token: str | None = None,
    authority: str | None = None,
) -> ClusterAddress:
    """The arguments of `connect`, checked. `ConfigError`."""
    if find_spec("hazelcast") is None:
        raise ConfigError(
            "connecting to a cluster needs the package hazelcast-python-client.",
            hint="Install what the cluster needs: pip install 'kvwal[cluster]'.",
        )
    if not is_seconds(timeout):
        raise ConfigError(f"timeout={timeout!r} must be a number of seconds, above 0 and finite.")
    if not isinstance(addresses, list | tuple | str) or not all(isinstance(text, str) for text in addresses):
        raise WrongType(f"{addresses!r} are no addresses of nodes.", hint="Write them as host:port, in text or a list.")
    texts = addresses.split(",") if isinstance(addresses, str) else list(addresses)
    found = [_parse(text.strip()) for text in texts]
    if not found:
        raise ConfigError("no address of the cluster was given.", hint="Name one node at least, as host:port.")
    secret = find_token(None) if token is None else Token(token, "token")
    return ClusterAddress(found, cluster, namespace, timeout, secret, authority or find_authority())


def _parse(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":") if ":" in text else (text, ":", str(PORT))
    if not host or not colon or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < _PORTS:
        raise ConfigError(f"{text!r} is no address of a node.", hint="Write it as host:port.")
    return host, int(port)
