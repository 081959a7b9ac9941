"""File names of a log: building and parsing. No other module does either.

<root>/<namespace>/<cluster>/<business>/<node>/
    <first sequence, 20 digits>.wal  <last sequence>.snapshot  <first>-<last>.snapshot
    LOCK  FAILURES  *.partial  *.torn  overflow/<first sequence, 20 digits>  content/<section>/<claim file>
    provenance/<first>-<last>.events.parquet  provenance/<first>-<last>.terms

Names that end with `.partial` are unfinished, and nobody reads them after a crash: a segment or snapshot under its name
(`partial_name`), a preallocated segment, a lock file that replaces one, and the folders for files of the archiver's jobs
(`scratch_name`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.ports.disk import Disk
from kvwal_archive.layout import Place, check_name

LOCK = "LOCK"
OVERFLOW = "overflow"
"""Name of the folder for the overflow files of a log."""
CONTENT_FOLDER = "content"
"""Name of the folder for the claim files of a log: the bytes of its contents (see `kvwal.content`)."""
EVENT_FILES = "provenance"
"""Name of the folder for the files of events of a log, which stand in no snapshot."""
FAILURES = "FAILURES"
"""Name of the note of failed maintenance (see `failures`)."""
RETIRED = "_retired"
"""Name, under a cluster, of the folder for retired logs of destroyed maps, with a folder for each node (see `retired`)."""
RECORDS = "spark"
"""The business of the records of Spark applications."""
DIGITS = 20
SCRATCH_MARK = "written"
"""Name of the file in a folder of `scratch_name` that is open, and so `Disk.is_written`, while the job is under way."""
_SCRATCH = "scratch."
_SHOWN = 10
"""Names of nodes that an error lists."""

_EVENTS = re.compile(rf"([0-9]{{{DIGITS}}})-([0-9]{{{DIGITS}}})\.(?:(?:events|terms)\.parquet|terms|aside)")
_NUMBERED = re.compile(rf"(?:([0-9]{{{DIGITS}}})-)?([0-9]{{{DIGITS}}})\.(wal|snapshot)")


class FileKind(Enum):
    """Kinds of files in a log's folder, by name."""

    SEGMENT = "wal"
    SNAPSHOT = "snapshot"
    PARTIAL = "partial"
    TORN = "torn"
    LOCK = "LOCK"
    FAILURES = "FAILURES"
    OTHER = "other"


class LogFile(NamedTuple):
    """A parsed file name. `number` is the first sequence of a segment or the last sequence of a snapshot, else 0.

    `first` is the first sequence of a snapshot: 1 for a base, more for a delta.
    """

    name: str
    kind: FileKind
    number: int
    first: int = 0


def segment_name(first_sequence: int) -> str:
    """Name of the segment that begins with this sequence."""
    return f"{first_sequence:0{DIGITS}}.wal"


def snapshot_name(last_sequence: int, first_sequence: int = 1) -> str:
    """Name of the snapshot that ends with this sequence: a base, or the delta that begins with `first_sequence`."""
    begins = "" if first_sequence == 1 else f"{first_sequence:0{DIGITS}}-"
    return f"{begins}{last_sequence:0{DIGITS}}.snapshot"


def partial_name(name: str) -> str:
    """Name of the file `name` until it is complete."""
    return f"{name}.partial"


def scratch_name(number: int) -> str:
    """Name of a folder for the files of one job of the archiver. The number is random: an orphaned archiver has another one."""
    return partial_name(f"{_SCRATCH}{number:016x}")


def is_scratch(name: str) -> bool:
    """Whether a `scratch_name`."""
    return name.startswith(_SCRATCH)


def torn_name(name: str, epoch: int) -> str:
    """Name of the copy of a damaged file: the file's name, and the epoch of the recovery that found the damage."""
    return f"{name}.{epoch}.torn"


def overflow_name(first_sequence: int) -> str:
    """Name, in the folder `overflow`, of the file of a transaction whose first entry has this sequence."""
    return f"{first_sequence:0{DIGITS}}"


def overflow_number(name: str) -> int | None:
    """The first sequence of an overflow file; None if the name is none of `overflow_name`."""
    return int(name) if re.fullmatch(rf"[0-9]{{{DIGITS}}}", name) else None


class EventFile(NamedTuple):
    """The range of sequences of a log whose events are in a file, both ends included."""

    first: int
    last: int

    @property
    def events(self) -> str:
        """The name of the file with the events, in the folder `EVENT_FILES`."""
        return f"{self.first:0{DIGITS}}-{self.last:0{DIGITS}}.events.parquet"

    @property
    def terms(self) -> str:
        """The name of the file with the terms of the events: an index."""
        return f"{self.first:0{DIGITS}}-{self.last:0{DIGITS}}.terms"

    @property
    def older_terms(self) -> str:
        """The name that the file with the terms had before it had a format of its own."""
        return f"{self.first:0{DIGITS}}-{self.last:0{DIGITS}}.terms.parquet"

    @property
    def all_names(self) -> tuple[str, str, str]:
        """The names of files that the range may have, that of the events first; without what was set aside."""
        return self.events, self.terms, self.older_terms

    @property
    def aside(self) -> str:
        """The name of the file with the entries of events that could not be decoded."""
        return f"{self.first:0{DIGITS}}-{self.last:0{DIGITS}}.aside"


def parse_event_file(name: str) -> EventFile | None:
    """The range in the name of a file of events, of terms, or of what was set aside; None for any other name."""
    match = _EVENTS.fullmatch(name)
    return EventFile(int(match[1]), int(match[2])) if match and 1 <= int(match[1]) <= int(match[2]) else None


def parse_name(name: str) -> LogFile:
    """Parse the name of a file in a log's folder."""
    if name == LOCK:
        return LogFile(name, FileKind.LOCK, 0)
    if name == FAILURES:
        return LogFile(name, FileKind.FAILURES, 0)
    if (match := _NUMBERED.fullmatch(name)) and (numbered := _numbered(name, match)) is not None:
        return numbered
    for kind in (FileKind.PARTIAL, FileKind.TORN):
        if name.endswith(f".{kind.value}"):
            return LogFile(name, kind, 0)
    return LogFile(name, FileKind.OTHER, 0)


def _numbered(name: str, match: re.Match[str]) -> LogFile | None:
    """The segment or snapshot of a matched name; None if no delta can have the range."""
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
    disk: Disk,
    root: Path,
    namespace: str | None = None,
    cluster: str | None = None,
    business: str | None = None,
    closed: set[str] | None = None,
) -> list[Place]:
    """Places of all logs under `root`, or of those of one namespace, cluster or business; sorted. Nothing is created.

    Names that begin with `_` or `.` are skipped: they are the archive, or belong to other programs. The names of businesses whose
    folder this user may not read are added to `closed`; without it, such a business is a `PermissionError`.
    """
    paths: list[tuple[str, ...]] = [()]
    for wanted in (namespace, cluster, business):
        paths = [(*path, name) for path in paths for name in _folders(disk, root.joinpath(*path), wanted)]
    places: list[Place] = []
    for path in paths:
        try:
            places += [Place(*(*path, node)) for node in _folders(disk, root.joinpath(*path), None)]
        except PermissionError:
            if closed is None:
                raise
            closed.add(path[-1])
    return places


def first_place(disk: Disk, root: Path, above: tuple[str, ...] = ()) -> Place | None:
    """The first of the places that `find_places` has, None if there is none. Other folders are not looked at.

    `above` is the part of the path that is found already.
    """
    if len(above) == len(Place._fields):
        return Place(*above)
    for name in disk.names(root.joinpath(*above)):
        if _may_be_one(name) and disk.is_folder(root.joinpath(*above, name)):
            place = first_place(disk, root, (*above, name))
            if place is not None:
                return place
    return None


def enclosing_root(disk: Disk, root: Path) -> Path | None:
    """The root of the store that this folder is a part of: a log is nearer below it than four levels. None for other folders.

    Of each folder the first one in it is looked at. What may not be read is said by others.
    """
    root = folder = root.absolute()
    for level in range(len(Place._fields)):
        try:
            names = disk.names(folder)
            if any(parse_name(name).kind in (FileKind.SEGMENT, FileKind.SNAPSHOT) for name in names):
                return next(iter(root.parents[len(Place._fields) - level - 1 :]), None)
            below = next((name for name in names if _may_be_one(name) and disk.is_folder(folder / name)), None)
        except PermissionError:
            return None
        if below is None:
            return None
        folder /= below
    return None


def word_for(part: str) -> str:
    """The word that sentences have for a part of a place."""
    return "map" if part == "business" else part


def check_not_inside(disk: Disk, root: Path) -> None:
    """Raise `ConfigError` if `root` is the folder of a namespace, cluster, business or node of a store, and no root itself."""
    outer = enclosing_root(disk, root)
    if outer is not None:
        what = word_for(Place._fields[len(root.relative_to(outer).parts) - 1])
        hint = f"Name {outer}, or a folder outside of it."
        raise ConfigError(f"{root} is the folder of a {what} of the store {outer}.", hint=hint)


def _folders(disk: Disk, folder: Path, wanted: str | None) -> list[str]:
    """Names of the folders in `folder`, or only `wanted`: the others, which may be thousands, are not looked at then."""
    names = disk.names(folder) if wanted is None else [wanted]
    return [name for name in names if _may_be_one(name) and disk.is_folder(folder / name)]


def _may_be_one(name: str) -> bool:
    return name[:1] not in "_." and "/" not in name  # "" is in every text, so the empty name is excluded


def choose_node(disk: Disk, root: Path, namespace: str, cluster: str, node: str | None) -> str:
    """The node to open: the given one, the only one under the root, or `local`. Several nodes are a `ConfigError`.

    Of several nodes, those that have records of Spark and no other log do not count: recorders made them, one for each
    application.
    """
    if node is not None:
        return check_name("node", node)
    ends = root / check_name("namespace", namespace) / check_name("cluster", cluster) / RETIRED
    retired = {name for name in disk.names(ends) if disk.names(ends / name)}
    places = find_places(disk, root, namespace, cluster, closed=set())
    nodes = sorted({place.node for place in places} | retired)
    if len(nodes) > 1:
        nodes = sorted({place.node for place in places if place.business != RECORDS} | retired)
    if len(nodes) > 1:
        raise ConfigError(
            f"{root}: {namespace}/{cluster} has several nodes: {some(nodes)}.",
            hint="Say which one with node=… (--node). Reading (kvwal get, read_only=True) needs none, and merges them.",
        )
    return nodes[0] if nodes else "local"


def alike(name: str, names: Sequence[str]) -> list[str]:
    """Those of the names that resemble `name`, the most similar one first."""
    from difflib import get_close_matches  # late: only a sentence of an error needs it

    return get_close_matches(name, names)


def some(names: Sequence[str], like: str = "") -> str:
    """The names for a sentence, those that resemble `like` first; the first of very many, and `none` without any."""
    close = alike(like, names)
    shown = [*close, *(name for name in names if name not in close)]
    return (", ".join(shown[:_SHOWN]) or "none") + (f" and {len(names) - _SHOWN:,} more" if names[_SHOWN:] else "")
