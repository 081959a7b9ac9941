"""Preflight checks of a node, before its JVM starts: its root and its addresses."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import NamedTuple

from kvwal.cluster.membership import FOLDER
from kvwal.errors import ConfigError, KvwalError, StartFailed
from kvwal.log.appender import FULL
from kvwal.log.files.names import find_places
from kvwal.node.config import Address, NodeOptions
from kvwal.ports.disk import OS_DISK, Disk
from kvwal.ports.logger import get_logger

ANYWHERE = ("0.0.0.0", "::")
_RECORD = ".json"
_PROBE = "_writable"
_PASSING = (
    errno.EAGAIN, errno.EBUSY, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
    errno.ENOTCONN, errno.ESTALE, errno.ETIMEDOUT,
)  # fmt: skip
"""Errors of a file system that may pass without a change of the configuration: those of a file server, and of a busy machine."""


class Owner(NamedTuple):
    """The identity of a node that has files under a root."""

    namespace: str
    cluster: str
    node: str

    def __str__(self) -> str:
        return f"--namespace {self.namespace} --cluster {self.cluster} --node {self.node}"


def check(options: NodeOptions, disk: Disk = OS_DISK) -> None:
    """`ConfigError` if the root belongs to other nodes or cannot be written, or an address is wrong. `StartFailed` if the node
    cannot listen at its addresses now, or the disk of the root does not answer now."""
    check_root(disk, options.root, Owner(options.namespace, options.cluster, options.node))
    check_free(options.address, "--address")
    if options.http is not None:
        if options.http == options.address:
            raise ConfigError(
                f"--http {options.http} is the address of --address too.", hint="Give one of them another port."
            )
        check_free(options.http, "--http")
    check_writable(disk, options.root)


def warn(options: NodeOptions) -> None:
    """Log a warning for options that are valid, but probably a mistake."""
    if options.http is not None and options.http.host in ANYWHERE:
        get_logger(__name__).warning(
            f"--http {options.http}: everyone who reaches this machine is told health and, without a token, figures and the names"
            " of maps. Give a private address, or protect the port (docs/security.md)."
        )


def check_root(disk: Disk, root: Path, own: Owner) -> None:
    """`ConfigError` if the root holds something of other nodes, and nothing of this one: it would start empty beside their
    logs."""
    owners = find_owners(disk, root)
    if owners and own not in owners:
        others = "; ".join(map(str, owners[:3])) + ("; …" if len(owners) > 3 else "")
        raise ConfigError(
            f"{root} holds nothing of {own}: it belongs to {others}.",
            hint="Start the node under the names of its root; give a new node a root of its own, which is empty.",
        )


def check_writable(disk: Disk, root: Path) -> None:
    """Make the root. `ConfigError` if nothing can be written there, `StartFailed` if that may pass. A full disk is no error here,
    because recovery may go on."""
    probe = root / _PROBE
    try:
        disk.make_folders(probe)
        disk.remove_folder(probe)
    except OSError as error:
        if error.errno in FULL:
            return
        if error.errno in _PASSING:
            raise StartFailed(
                f"{root} cannot be written now ({error.strerror or error}).",
                hint="See whether its disk or file server answers, and start the node again.",
            ) from error
        raise ConfigError(
            f"{root} cannot be written ({error.strerror or error}).",
            hint="Let the node's user write there, mend the disk, or choose another root.",
        ) from error


def find_owners(disk: Disk, root: Path) -> list[Owner]:
    """The nodes that have a log or a record of members under the root, sorted."""
    owners = {Owner(place.namespace, place.cluster, place.node) for place in find_places(disk, root)}
    for namespace in disk.names(root):
        for cluster in disk.names(root / namespace) if namespace[0] not in "_." else ():
            records = disk.names(root / namespace / cluster / FOLDER)
            names = (name.removesuffix(_RECORD) for name in records if name.endswith(_RECORD))
            owners |= {Owner(namespace, cluster, name) for name in names}
    return sorted(owners)


def check_free(address: Address, what: str) -> None:
    """`StartFailed` if nobody can listen at this address now, `ConfigError` if nobody ever can."""
    try:
        socket.create_server(address, family=_family(address)).close()
    except OSError as error:
        raise _refused(address, what, error) from error


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address.host else socket.AF_INET


def _refused(address: Address, what: str, error: OSError) -> KvwalError:
    if error.errno == errno.EADDRINUSE:
        return StartFailed(
            f"{what} {address}: another process listens there.",
            hint="Stop it (it may be this node, started before), or choose another port; then start the node again.",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return StartFailed(
            f"{what} {address}: this machine does not have the address.",
            hint="Give an address of this machine. If its network is not up yet, start the node again.",
        )
    return ConfigError(
        f"{what} {address}: cannot listen there ({error.strerror or error}).", hint="Choose another address."
    )
