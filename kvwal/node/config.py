"""Configuration of a node: its identity from the command line, its settings from a file. It is checked before anything starts."""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import msgspec

from kvwal.cluster.token import TokenSource
from kvwal.config import Flush, Interval, Settings, parse_duration
from kvwal.errors import ConfigError, StartFailed
from kvwal.ports.disk import OS_DISK

MOST_BACKUPS = 6
PORTS = 1 << 16
LEAST_HEAP = 32 << 20
_HEAP = re.compile(r"([1-9][0-9]{0,17})([kmgt]?)", re.ASCII | re.IGNORECASE)


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(text: str, what: str) -> Address:
    """`HOST:PORT`, or a `ConfigError` that says what it is for."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < PORTS:
        raise ConfigError(f"{what} {text!r} is no address.", hint="Write it as HOST:PORT.")
    return Address(host, int(port))


def check_host(address: Address) -> None:
    """`StartFailed` if the host of a node's own address resolves to no IP address, `ConfigError` if it is the wildcard."""
    try:
        ip = socket.gethostbyname(address.host)
    except OSError as error:
        raise StartFailed(
            f"--address {address}: no IP address belongs to {address.host} ({error}).",
            hint="Give a name that this machine can look up, or its IP address. If the name service is down, start it again.",
        ) from error
    if ip_address(ip).is_unspecified:
        raise ConfigError(
            f"--address {address}: {address.host} stands for every address of this machine, and members and clients need one by"
            " which they reach it.",
            hint="Give the private address of this machine that they use. Without a token nothing asks for a password there:"
            " docs/security.md says how to protect it.",
        )


def heap_bytes(text: str) -> int:
    """The bytes of a heap as java takes it (`512m`, `2g`). `ConfigError` if it is none, or below what a member needs."""
    match = _HEAP.fullmatch(text)
    if match is None:
        raise ConfigError(f"heap = {text!r} is no size.", hint='Write it as java takes it: "512m", "2g".')
    size = int(match[1]) << 10 * " kmgt".index(match[2].lower() or " ")
    if size < LEAST_HEAP:
        raise ConfigError(f"heap = {text!r} is below {LEAST_HEAP >> 20} MiB, and a member needs more than that.")
    return size


def parse_flush(text: str) -> Flush:
    """A flush policy from the command line: `sync`, `os`, or an interval, as a duration or in milliseconds."""
    if text == "sync":
        return "sync"
    if text == "os":
        return "os"
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return Interval(ms=int(text))
    if seconds := parse_duration(text):
        return Interval(ms=max(1, round(seconds * 1000)))
    raise ConfigError(f"--flush {text!r} is no flush policy.", hint="Use sync, os, or a duration: 100ms, 1s.")


class _Interval(Interval, frozen=True, forbid_unknown_fields=True):
    """An interval as the file has it."""


class _Log(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the logs as the file has them."""


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files of TLS, as PEM."""

    certificate: str
    """This node's, with those between it and the authority."""
    key: str
    """Its key: PKCS#8, without a password."""
    authority: str
    """The authority that must have signed the other members' certificates."""


VolatileService = Literal[
    "queue", "list", "set", "multi-map", "replicated-map", "ringbuffer", "reliable-topic", "pn-counter",
    "cardinality-estimator", "executor", "durable-executor", "scheduled-executor", "cache", "xa",
]  # fmt: skip
"""Services of Hazelcast that keep what they are given in memory only."""


class NodeFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """deploy/node.toml, with the default of each key."""

    heap: str = "1g"
    """Memory of the JVM, as java takes it: the maps and their backups live there."""
    java_options: list[str] = []
    """Further options for the JVM."""
    hazelcast_jar: str | None = None
    """Where the pinned Hazelcast jar is, if not in the cache that set-up fills."""
    backups: int = 1
    """Copies of each entry besides the owner's, each at another member; fewer if there are fewer members."""
    majority: bool = True
    """Whether one side of a partitioned cluster serves only if it has more than half of the expected members."""
    token_file: str | None = None
    """The file that holds the token of the cluster, or two while it is changed; without it KVWAL_TOKEN_FILE or KVWAL_TOKEN of the
    environment, or none. The node reads the file again each second."""
    http_token_file: str | None = None
    """The file of the token that readers of /metrics on other machines must present, if the cluster has a token."""
    tls: Tls | None = None
    """With it members and clients speak TLS, and nothing else; it needs a token."""
    volatile: list[VolatileService] = []
    """Services without a log that clients may use all the same; every other one is refused."""
    flush: dict[str, Literal["sync", "os"] | _Interval] = {}
    """Map name pattern to flush policy; the first that fits counts, --flush where none does."""
    log: _Log = _Log()
    """kvwal.Settings."""

    def __post_init__(self) -> None:
        if not 0 <= self.backups <= MOST_BACKUPS:
            raise ConfigError(f"backups = {self.backups}: Hazelcast keeps 0 to {MOST_BACKUPS}.")
        if len(set(self.volatile)) != len(self.volatile):
            raise ConfigError("volatile names a service twice.", hint="Name each service once.")
        heap_bytes(self.heap)

    def policies(self) -> dict[str, Flush]:
        """Flush policies by pattern, in the order of the file."""
        return {
            pattern: Interval(flush.ms, flush.bytes) if isinstance(flush, Interval) else flush
            for pattern, flush in self.flush.items()
        }


def read_file(path: Path | None) -> NodeFile:
    """Read the node's file; without a path, return the defaults. `ConfigError`, which names the file, for an unknown key or an
    invalid value.
    """
    if path is None:
        return NodeFile()
    try:
        return msgspec.toml.decode(OS_DISK.read(path), type=NodeFile)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from error
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.what}", hint=error.hint) from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}.", hint=_known_keys()) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}.", hint="The file is to be TOML, in UTF-8.") from error


def _known_keys() -> str:
    """The keys of the file, for error messages: an installed wheel has no example file."""
    top = ", ".join(name for name in NodeFile.__struct_fields__ if name not in ("flush", "log", "tls"))
    log, interval = (", ".join(struct.__struct_fields__) for struct in (_Log, _Interval))
    flush = f"a policy by map name pattern: sync, os, or a table of {interval}"
    services = ", ".join(get_args(VolatileService))
    tls = ", ".join(Tls.__struct_fields__)
    return f"The keys are {top}; under [log] {log}; under [flush] {flush}; under [tls] {tls}; volatile lists some of {services}."


class NodeOptions(NamedTuple):
    """The identity and the settings of a node."""

    root: Path
    namespace: str
    cluster: str
    node: str
    address: Address
    members: list[Address]
    archive: str | None
    """As typed: None for the folder _archive under the root, 'none' for no archive."""
    http: Address | None
    flush: Flush
    file: NodeFile
    without: tuple[str, ...] = ()
    """Names or addresses of members: the start does not wait for their logs."""
    token: TokenSource | None = None
    """What members and clients must show: one of these tokens. None lets everyone in."""
    http_token: TokenSource | None = None
    """What readers of /metrics must show."""


def check(options: NodeOptions) -> NodeOptions:
    """Return `options` if they are consistent, else raise `ConfigError`. Checks host, list of members, --without and TLS."""
    check_host(options.address)
    if len(set(options.members)) != len(options.members):
        raise ConfigError("--members names an address twice.", hint="List every member once.")
    if options.address not in options.members:
        raise ConfigError(
            f"--members does not list this node's own address {options.address}.", hint="Give every node the same list."
        )
    if {options.node, str(options.address)} & set(options.without):
        raise ConfigError("--without names this node itself.", hint="Name members that will not come.")
    if options.file.tls is not None and options.token is None:
        raise ConfigError("[tls] without a token.", hint="Set token_file too: TLS alone lets every client in.")
    if len(options.members) > 1:
        _check_several(options)
    return options


def _check_several(options: NodeOptions) -> None:
    if options.archive in (None, "none"):
        raise ConfigError(
            "several members need an archive that all of them reach: after a total loss memory is filled from there.",
            hint="Give every node the same --archive: a URL (s3://bucket/prefix), or a folder that all of them share.",
        )
    if options.file.backups < 1:
        raise ConfigError(
            "backups = 0 and several members: what a killed member held would be absent until it is back.",
            hint="Set backups to 1 or more in the node's file.",
        )
