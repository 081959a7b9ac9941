"""A root with everything that can stand on a disk, to flip bits in, and what each way of reading makes of it.

Businesses: `jobs` has a snapshot, sealed segments (one that waits for the archive under the snapshot, one after it), an open
last one in a recycled file, a recycled file, and plain objects; `old` has an object with a horizon and those that it
supersedes; `closed` was closed. Large values stand in overflow files.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import kvwal
from kvwal.errors import KvwalError
from kvwal.history.restore.restore import RestorePorts, restore_through
from kvwal.log.files.format import HEAD_BYTES, find_blocks
from kvwal.log.files.names import OVERFLOW, log_folder
from kvwal.log.reader import SegmentReader, SnapshotReader
from kvwal.ports.clock import SYSTEM
from kvwal.scrub.inspect import examine
from kvwal.store.sync import ReadOnlyStore, Store, WritableStore
from kvwal_archive import view
from kvwal_archive.layout import Place, parse_object_key
from kvwal_archive.maintenance import compaction as rewrite
from kvwal_archive.objects import open_objects
from kvwal_archive.reader import live_objects
from kvwal_archive.verify import verify
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import make_options
from tests.support.disk.power import MemoryDisk

SETTINGS = kvwal.Settings(segment_bytes=64 << 10, overflow_bytes=10_000, archive_seconds=1e6, checkpoint_seconds=1e6)
KEYS = 12
ReadAnswers = dict[str, Any]


class Built(NamedTuple):
    """The files of a root as a killed process leaves them, its archive, and the dict that each business should be.

    `cut` is `jobs` without its last group; `moment` a timestamp before that.
    """

    root: Path
    files: dict[Path, bytes]
    archive: Path
    models: dict[str, dict[str, bytes]]
    cut: dict[str, bytes]
    moment: int


class Writing:
    """A business being filled, and the dict that it should be."""

    def __init__(self, store: Store, name: str, seed: int) -> None:
        self.map = store.map(name)
        self.model: dict[str, bytes] = {}
        self._chance = random.Random(f"{name}/{seed}")

    def put(self, count: int, size: int) -> None:
        """Put `count` values of about `size` bytes, and delete a key now and then."""
        for _ in range(count):
            key = f"key-{self._chance.randrange(KEYS)}"
            if self.model and self._chance.random() < 0.1:
                key = self._chance.choice(sorted(self.model))
                del self.map[key], self.model[key]
                continue
            self.map[key] = self.model[key] = self._chance.randbytes(size // 2 + self._chance.randrange(size))


def build(folder: Path, seed: int) -> Built:
    """Make the root, its archive beside it."""
    archive = folder / "archive"
    root = folder / "data"
    store = open_writable(folder / "written", archive, None)
    old, jobs = Writing(store, "old", seed), Writing(store, "jobs", seed)
    for _ in range(3):
        old.put(20, 100)
        jobs.put(8, 9000)
        store.archive()
    rewrite.rewrite(open_objects(str(archive)), place("old"), now_ms=SYSTEM.wall_ms(), history_ms=0, force=True)
    store.checkpoint()
    jobs.put(5, 100)
    store.checkpoint()
    jobs.put(8, 9000)
    jobs.put(6, 100)
    cut, moment = dict(jobs.model), jobs.map.put("last", b"group")
    jobs.model["last"] = b"group"
    shutil.copytree(folder / "written", root)
    store.close(archive=False)
    store = open_writable(folder / "other", archive, None)
    closed = Writing(store, "closed", seed)
    closed.put(20, 100)
    store.close(archive=False)
    shutil.copytree(log_folder(folder / "other", place("closed")), log_folder(root, place("closed")))
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    models = {"old": old.model, "jobs": jobs.model, "closed": closed.model}
    return Built(root, files, archive, models, cut, moment - 1)


class RottenDisk(MemoryDisk):
    """The files of the root, in memory, some bit of them perhaps another."""

    def try_read(self, path: Path) -> None:
        self.read(path)


def place(business: str) -> Place:
    """Where a business of the root stands."""
    return Place("default", "local", business, "local")


def open_writable(root: Path, archive: Path, disk: RottenDisk | None) -> WritableStore:
    """The store, its archiver in this process."""
    options = make_options(root, disk, archive=archive, settings=SETTINGS, start_archiver=lambda: InProcess(""))  # type: ignore[arg-type]
    return WritableStore(options)


def business_of(built: Built, path: Path) -> str:
    """Whose file this is, in the root or in the archive."""
    return path.relative_to(built.archive if built.archive in path.parents else built.root).parts[2]


def kind_of(built: Built, path: Path) -> str:
    """What sort of file this is."""
    if path.name.endswith(".parquet"):
        live = {info.key for info in live_objects(open_objects(str(built.archive)), place(path.parent.parent.name))}
        key = path.relative_to(built.archive).as_posix()
        horizon = parse_object_key(key)[1].horizon  # type: ignore[index]
        return "superseded object" if key not in live else "object with a horizon" if horizon else "object"
    if path.name == "_log":
        return "registration"
    if path.parent.name == OVERFLOW:
        return "overflow file"
    if path.suffix == ".wal":
        last = path == max(p for p in built.files if p.parent == path.parent and p.suffix == ".wal")
        if not last:
            return "sealed segment"
        return "last segment, closed" if "closed" in path.parts else "last segment, open"
    return {".snapshot": "snapshot", ".partial": "recycled file"}.get(path.suffix, "lock file")


def heads(data: bytes, *, snapshot: bool) -> list[range]:
    """The bytes of a segment or snapshot that are a header, the head of a block, or the whole of the last block."""
    reader = (SnapshotReader if snapshot else SegmentReader)(Path("file"), data)
    blocks = list(find_blocks(data, reader.start, reader.header.salt))
    return [
        range(reader.start),
        *(range(block.offset, block.offset + HEAD_BYTES) for block in blocks[:-1]),
        *(range(block.offset, block.end) for block in blocks[-1:]),
    ]


def read_unlocked(built: Built, disk: RottenDisk, business: str) -> tuple[ReadAnswers, str]:
    """All that a reader without the lock says of a business, and what of it it says is torn. The files are those of `disk`."""
    store = ReadOnlyStore(make_options(built.root, disk, archive=built.archive))
    said = store.stats()["businesses"][business]["local"]["torn"]
    return read_map(store, business), said or ""


def read_past(built: Built, disk: RottenDisk, business: str) -> dict[str, bytes]:
    """What a business held at `moment`, from its log and its archive."""
    store = ReadOnlyStore(make_options(built.root, disk, archive=built.archive))
    return dict(store.map(business).at(built.moment).items())


def read_opened(built: Built, disk: RottenDisk, business: str) -> tuple[ReadAnswers, str]:
    """The same of a store that opens the log; what it says it cut it keeps."""
    store = open_writable(built.root, built.archive, disk)
    try:
        answers = read_map(store, business)
        said = store.stats()["businesses"][business]["torn"]
    finally:
        store.close(archive=False)
    kept = [path for path in disk.seen if path.suffix == ".torn"]
    assert bool(said) == any("snapshot" not in path.name for path in kept)
    return answers, said or ""


def read_map(store: Store, business: str) -> ReadAnswers:
    """What a map holds, and what it held."""
    found = store.map(business)
    return {"scan": dict(found.items()), "history": {key: found.history(key) for key in ("key-0", "key-7", "last")}}


def read_archive(built: Built, business: str) -> list[Any]:
    """What the archive alone says of a business: the merge that queries read."""
    merged = view.latest(open_objects(str(built.archive)), "default", "local", business)
    return list(merged.to_pylist())


def restore_all(built: Built) -> ReadAnswers:
    """What a restore of all businesses brings back."""
    disk = RottenDisk()
    restore_through(
        RestorePorts(disk, SYSTEM), built.archive, "/restored", namespace="default", cluster="local", node=None, at=None,
        take_over=False, storage_options=None, progress=None,
    )  # fmt: skip
    store = ReadOnlyStore(make_options(Path("/restored"), disk))
    return {name: dict(store.map(name).items()) for name in store.businesses()}


def verify_log(built: Built, disk: RottenDisk, business: str) -> list[str]:
    """What `kvwal log verify` finds, a torn tail too."""
    found = examine(disk, built.root, place(business))
    return [file.problem or file.state for file in found if file.problem or file.state == "torn"]


def verify_archive(built: Built, business: str) -> list[str]:
    """What `kvwal archive verify` finds of a business."""
    return [finding.text for finding in verify(open_objects(str(built.archive)), place(business)).findings]


def tried(read: Any) -> tuple[str, Any]:
    """What reading gives: ("error", its name) or ("answer", it)."""
    try:
        return "answer", read()
    except KvwalError as error:
        return "error", type(error).__name__
