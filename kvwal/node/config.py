"""What a node is told: on the command line who it is, in a file how it shall be. All of it is checked before anything starts."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from kvwal.config import Flush, Interval, Settings
from kvwal.errors import ConfigError
from kvwal.ports.disk import OS_DISK

MOST_BACKUPS = 6
PORTS = 1 << 16


class Address(NamedTuple):
    """Where something listens."""

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
    """`ConfigError` if no IP address belongs to the host of a node's own address."""
    try:
        socket.gethostbyname(address.host)
    except OSError as error:
        raise ConfigError(
            f"--address {address}: no IP address belongs to {address.host} ({error}).",
            hint="Give a name that this machine can look up, or its IP address.",
        ) from error


def parse_flush(text: str) -> Flush:
    """A flush policy from the command line: `sync`, `os`, or the milliseconds of an interval."""
    if text == "sync":
        return "sync"
    if text == "os":
        return "os"
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return Interval(ms=int(text))
    raise ConfigError(f"--flush {text!r} is no flush policy.", hint="Use sync, os, or a number of milliseconds.")


class _Interval(Interval, frozen=True, forbid_unknown_fields=True):
    """An interval as the file has it."""


class _Log(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the logs as the file has them."""


class NodeFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """deploy/node.toml, with the default of each key."""

    heap: str = "1g"
    """Memory of the JVM, as java takes it: the maps and their backups live there."""
    java_options: list[str] = []
    """Further options for the JVM."""
    hazelcast_jar: str | None = None
    """Where the pinned Hazelcast jar is, if not in the cache that set-up fills."""
    backups: int = 1
    """Members that hold a copy of each entry besides its owner, as far as there are so many."""
    majority: bool = True
    """Whether a half of a cut cluster serves only if it has more than half of the members that are expected."""
    flush: dict[str, Literal["sync", "os"] | _Interval] = {}
    """Map name pattern to flush policy; the first that fits counts, --flush where none does."""
    log: _Log = _Log()
    """kvwal.Settings."""

    def __post_init__(self) -> None:
        if not 0 <= self.backups <= MOST_BACKUPS:
            raise ConfigError(f"backups = {self.backups}: Hazelcast keeps 0 to {MOST_BACKUPS}.")

    def policies(self) -> dict[str, Flush]:
        """Flush policies by pattern, in the order of the file."""
        return {
            pattern: Interval(flush.ms, flush.bytes) if isinstance(flush, Interval) else flush
            for pattern, flush in self.flush.items()
        }


def read_file(path: Path | None) -> NodeFile:
    """The file, or the defaults without one. A key that nobody knows is a `ConfigError`, as is a value that cannot be; both name
    the file.
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
    """What a file may say: whoever installed a wheel has no example of one."""
    top = ", ".join(name for name in NodeFile.__struct_fields__ if name not in ("flush", "log"))
    log, interval = (", ".join(struct.__struct_fields__) for struct in (_Log, _Interval))
    flush = f"a policy by map name pattern: sync, os, or a table of {interval}"
    return f"The keys are {top}; under [log] {log}; under [flush] {flush}."


class NodeOptions(NamedTuple):
    """Who this node is, and how it shall be."""

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
    """Members for whose logs not to wait: names or addresses."""


def check(options: NodeOptions) -> NodeOptions:
    """`options`, if the members include the node itself, once each, its own host is known here, and several can be a cluster."""
    check_host(options.address)
    if len(set(options.members)) != len(options.members):
        raise ConfigError("--members names an address twice.", hint="List every member once.")
    if options.address not in options.members:
        raise ConfigError(
            f"--members does not list this node's own address {options.address}.", hint="Give every node the same list."
        )
    if {options.node, str(options.address)} & set(options.without):
        raise ConfigError("--without names this node itself.", hint="Name members that will not come.")
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
