"""Address of a cluster, and the checks of the arguments of `kvwal.connect`. Hazelcast's client is not loaded here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import NamedTuple

from kvwal.cluster.token import Token, TokenSource, find_authority, find_token
from kvwal.config import check_file, is_seconds
from kvwal.errors import ConfigError, WrongType

SCHEME = "kvwal"
"""What a location of a cluster begins with: `kvwal://host:port`."""
DEFAULT_PORT = 5701
_PORTS = 1 << 16


class ClusterAddress(NamedTuple):
    """Host and port of some nodes, names of cluster and namespace, credentials, and the timeout of a call."""

    nodes: list[tuple[str, int]]
    cluster: str
    namespace: str
    timeout: float
    """Seconds."""
    token: TokenSource | None = None
    """The secret that the nodes ask for; None for nodes that ask for none."""
    authority: str | None = None
    """The PEM file of the authority that signed the nodes' certificates; None for no TLS."""

    @property
    def texts(self) -> list[str]:
        """The nodes as `host:port`."""
        return [f"{host}:{port}" for host, port in self.nodes]

    def __str__(self) -> str:
        return f"cluster {self.cluster} at {', '.join(self.texts)}"


def check_address(
    addresses: str | Sequence[str],
    cluster: str = "local",
    namespace: str = "default",
    timeout: float = 30.0,
    token: str | None = None,
    authority: str | None = None,
) -> ClusterAddress:
    """The arguments of `kvwal.connect`, with its defaults, as a `ClusterAddress`. Raises `ConfigError` and `WrongType`."""
    if find_spec("hazelcast") is None:
        raise ConfigError(
            "connecting to a cluster needs the package hazelcast-python-client.",
            hint="Install what the cluster needs: pip install 'kvwal[cluster]'.",
        )
    if not is_seconds(timeout):
        raise ConfigError(f"timeout={timeout!r} must be a number of seconds, above 0 and finite.")
    if not isinstance(addresses, list | tuple | str) or not all(isinstance(text, str) for text in addresses):
        raise WrongType(f"{addresses!r} are no addresses of nodes.", hint="Write them as host:port, in text or a list.")
    nodes = check_nodes(addresses)
    secret = find_token(None) if token is None else TokenSource((Token(token, "token"),))
    authority = str(check_file("authority", authority)) if authority else find_authority()
    if authority is not None:
        _check_authority(authority)
    return ClusterAddress(nodes, cluster, namespace, timeout, secret, authority)


def _check_authority(file: str) -> None:
    """Raise `ConfigError` unless the file holds certificates: Hazelcast's client would try for ever to connect with it."""
    import ssl

    try:
        ssl.create_default_context(cafile=file)
    except OSError as error:
        why = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(
            f"the file of the authority {file} cannot be used ({why}).",
            hint="Name the PEM file of the authority that signed the nodes' certificates: KVWAL_AUTHORITY.",
        ) from error


def check_nodes(addresses: str | Sequence[str]) -> list[tuple[str, int]]:
    """Host and port of each address, which may be written as a location. Raises `ConfigError` for text that is none."""
    texts = addresses.split(",") if isinstance(addresses, str) else list(addresses)
    nodes = [_parse(text.strip().removeprefix(f"{SCHEME}://")) for text in texts]
    if not nodes:
        raise ConfigError("no address of the cluster was given.", hint="Name one node at least, as host:port.")
    return nodes


def check_no_secret(addresses: str) -> None:
    """Raises `ConfigError`, which does not repeat the secret, if one is written before a host."""
    if "@" in addresses:
        raise ConfigError(
            f"{SCHEME}://…@{addresses.rpartition('@')[2]}: the address of a cluster holds no secret.",
            hint="Put the cluster's token into a file, and name the file in KVWAL_TOKEN_FILE.",
        )


def _parse(text: str) -> tuple[str, int]:
    check_no_secret(text)
    host, colon, port = text.rpartition(":") if ":" in text else (text, ":", str(DEFAULT_PORT))
    if not _is_host(host) or not colon or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < _PORTS:
        hint = "Write it as host:port."
        if "/" in text:
            hint += " A folder of a store is opened with kvwal.open, and an archive with kvwal.restore."
        raise ConfigError(f"{text!r} is no address of a node.", hint=hint)
    return host, int(port)


def _is_host(text: str) -> bool:
    """Whether text may be a host's name or address: what is none makes `socket.getaddrinfo` raise what is no `OSError`."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return bool(text) and not any(letter.isspace() or letter == "/" for letter in text)
