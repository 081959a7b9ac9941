"""What files are called, both ways. Nobody else puts such a name together or takes one apart.

<root>/<namespace>/<cluster>/<business>/<node>/
    LOCK  <first sequence, 20 digits>.wal  <last sequence>.snapshot  <first>-<last>.snapshot  *.partial  *.torn  overflow/
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from archive.layout import Place, check_name
from kvwal.errors import ConfigError
from kvwal.ports.disk import Disk

LOCK = "LOCK"
LOCKS = "_locks"
"""Under the root: the file whose bytes are the locks of all its logs."""
RETIRED = "_retired"
"""Under a cluster: what is left of logs of destroyed maps, in a folder for each node (kvwal/log/files/retired.py)."""
DIGITS = 20

_NUMBERED = re.compile(rf"(?:([0-9]{{{DIGITS}}})-)?([0-9]{{{DIGITS}}})\.(wal|snapshot)")


class FileKind(Enum):
    """What a file in a log's folder is, by its name."""

    SEGMENT = "wal"
    SNAPSHOT = "snapshot"
    PARTIAL = "partial"
    TORN = "torn"
    LOCK = "LOCK"
    OTHER = "other"


class LogFile(NamedTuple):
    """A name taken apart. `number` is a segment's first or a snapshot's last sequence, else 0.

    `first` is the sequence that a snapshot begins with: 1 of a base, more of a delta.
    """

    name: str
    kind: FileKind
    number: int
    first: int = 0


def segment_name(first_sequence: int) -> str:
    """The name of the segment that begins with this sequence."""
    return f"{first_sequence:0{DIGITS}}.wal"


def snapshot_name(last_sequence: int, first_sequence: int = 1) -> str:
    """The name of the snapshot that ends with this sequence: a base, or the delta that begins with `first_sequence`."""
    begins = "" if first_sequence == 1 else f"{first_sequence:0{DIGITS}}-"
    return f"{begins}{last_sequence:0{DIGITS}}.snapshot"


def partial_name(name: str) -> str:
    """What `name` is called until it is finished."""
    return f"{name}.partial"


def torn_name(name: str, epoch: int) -> str:
    """What the evidence of a cut tail is called: the file, and the epoch that found it."""
    return f"{name}.{epoch}.torn"


def parse_name(name: str) -> LogFile:
    """What a name in a log's folder says."""
    if name == LOCK:
        return LogFile(name, FileKind.LOCK, 0)
    if (match := _NUMBERED.fullmatch(name)) and (found := _numbered(name, match)) is not None:
        return found
    for kind in (FileKind.PARTIAL, FileKind.TORN):
        if name.endswith(f".{kind.value}"):
            return LogFile(name, kind, 0)
    return LogFile(name, FileKind.OTHER, 0)


def _numbered(name: str, match: re.Match[str]) -> LogFile | None:
    """A segment or a snapshot; None for a range that no delta has."""
    first, number, kind = int(match[1] or 1), int(match[2]), FileKind(match[3])
    if match[1] is not None and (kind is FileKind.SEGMENT or not 1 < first <= number):
        return None
    return LogFile(name, kind, number, first if kind is FileKind.SNAPSHOT else 0)


def check_place(place: Place) -> Place:
    """`place` if each of its names may stand in a path, else `InvalidName`."""
    for kind, name in zip(place._fields, place, strict=True):
        check_name(kind, name)
    return place


def log_folder(root: Path, place: Place) -> Path:
    """The folder of one log. The names are checked before they become a path."""
    return root.joinpath(*check_place(place))


def find_places(
    disk: Disk, root: Path, namespace: str | None = None, cluster: str | None = None, business: str | None = None
) -> list[Place]:
    """Every log under `root`, or those of one namespace, cluster, business; sorted. Nothing is created.

    What begins with `_` or `.` (the archive, a file of somebody else) is passed over.
    """
    found: list[tuple[str, ...]] = [()]
    for wanted in (namespace, cluster, business, None):
        found = [(*path, name) for path in found for name in _folders(disk, root.joinpath(*path), wanted)]
    return [Place(*path) for path in found]


def _folders(disk: Disk, folder: Path, wanted: str | None) -> list[str]:
    """Those in a folder, or the one that is wanted: then the others, which may be thousands, are not looked at."""
    names = disk.names(folder) if wanted is None else [wanted]
    return [name for name in names if _may_be_one(name) and disk.is_folder(folder / name)]


def _may_be_one(name: str) -> bool:
    return name[:1] not in "_." and "/" not in name  # of the empty name, too, nothing is left


def choose_node(disk: Disk, root: Path, namespace: str, cluster: str, node: str | None) -> str:
    """The node that is meant: the one given, the only one under the root, or `local`; several are a `ConfigError`."""
    if node is not None:
        return check_name("node", node)
    ends = root / check_name("namespace", namespace) / check_name("cluster", cluster) / RETIRED
    retired = {name for name in disk.names(ends) if disk.names(ends / name)}
    nodes = sorted({place.node for place in find_places(disk, root, namespace, cluster)} | retired)
    if len(nodes) > 1:
        raise ConfigError(
            f"{root}: {namespace}/{cluster} has several nodes: {', '.join(nodes)}.",
            hint="Say which one with node=… (--node). Reading (kvwal get, read_only=True) needs none, and merges them.",
        )
    return nodes[0] if nodes else "local"
