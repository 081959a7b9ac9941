"""The jobs of the archiver process and its answers. Each crosses a pipe as one line of JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kvwal.errors import KvwalError
from kvwal.log.files.segment import SealedSegment
from kvwal.structures.provenance.state import OFF, ProvenanceOptions
from kvwal_archive.layout import Place


class SegmentRef(msgspec.Struct, array_like=True):
    """A reference to a sealed segment."""

    path: str
    first: int
    last: int
    previous_crc: int
    crc: int
    size: int

    @classmethod
    def of(cls, segment: SealedSegment) -> SegmentRef:
        """The reference to a segment."""
        return cls(str(segment.path), *segment[1:])

    def segment(self) -> SealedSegment:
        """The segment."""
        return SealedSegment(Path(self.path), self.first, self.last, self.previous_crc, self.crc, self.size)


T = TypeVar("T", SegmentRef, SealedSegment)


def up_to_bytes(segments: Sequence[T], most: int) -> list[T]:
    """The first of these segments, of together at most `most` bytes; always one at least."""
    taken, size = list(segments[:1]), sum(segment.size for segment in segments[:1])
    for segment in segments[1:]:
        if (size := size + segment.size) > most:
            break
        taken.append(segment)
    return taken


class ArchiveTarget(msgspec.Struct):
    """An archive, and one log in it. `options` may hold secrets, so they go through the pipe only."""

    url: str
    place: Place
    log_id: str
    options: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"ArchiveTarget(url={self.url!r}, place={self.place!r})"


class Checkpoint(msgspec.Struct, tag=True):
    """Make a snapshot in `folder` that holds all entries up to the end of these segments.

    Deletes up to the timestamp `deletes_before` may be left out. With `shared`, an archive in which other nodes are registered,
    only the deletes that are not needed there may be. Events go into files of their own, which are kept as `keep` says.
    """

    folder: str
    segments: list[SegmentRef]
    deletes_before: int
    shared: ArchiveTarget | None = None
    keep: ProvenanceOptions = OFF


class Archive(msgspec.Struct, tag=True):
    """Archive these segments. An archive that has none of the log's first segments gets the snapshot in `folder` first.

    `ends` is the last sealed sequence of the log, `ends_crc` the crc of its seal. An archive that holds later sequences, or
    another seal there, is of another copy of the log. About `most_bytes` of segments that the archive lacks are archived. Files
    of the job leave `reserve_bytes` of the disk free (None: the default).
    """

    target: ArchiveTarget
    folder: str
    segments: list[SegmentRef]
    ends: int
    ends_crc: int
    most_bytes: int
    reserve_bytes: int | None = None


class Compact(msgspec.Struct, tag=True):
    """Compact the log's objects, and remove those that were superseded more than `grace_ms` ago.

    Copies of objects are made in `folder`, the log's, and leave `reserve_bytes` of its disk free (None: the default). Events go
    into objects of their own, which are kept as `keep` says.
    """

    target: ArchiveTarget
    folder: str
    history_ms: int
    grace_ms: int
    reserve_bytes: int | None = None
    keep: ProvenanceOptions = OFF


class Remove(msgspec.Struct, tag=True):
    """Remove the log of a destroyed map from the archive. It ended with this sequence and timestamp."""

    target: ArchiveTarget
    last_sequence: int
    last_timestamp: int


class Keep(msgspec.Struct, frozen=True):
    """How long claim files stay that only history names: `ms` milliseconds, while no more than `percent` of the disk is taken."""

    ms: int = 0
    percent: int = 100


class Clean(msgspec.Struct, tag=True):
    """Delete those of the claim files `candidates` in the log's folder that no entry of the log names, unless `keep` keeps them.

    `segments` are all sealed segments on the disk. Each entry that may name a candidate is in them or in the snapshot: they were
    sealed after the candidates were listed. The archive `target` is asked only if there is not room for what `keep` keeps.
    """

    folder: str
    candidates: list[str]
    segments: list[SegmentRef]
    keep: Keep = Keep()
    target: ArchiveTarget | None = None


class Several(msgspec.Struct, tag=True):
    """Small jobs of several logs, done in parallel: each mostly waits for a disk or a bucket."""

    jobs: list[Archive]


ArchiverJob = Checkpoint | Archive | Compact | Remove | Clean | Several


class Checkpointed(msgspec.Struct, tag=True):
    """The log has a snapshot, with parts of `size` bytes, that ends with `last_sequence` (0: the log has no entries).

    `is_delta`: the new part is a delta, which keeps all deletes.
    """

    last_sequence: int
    size: int
    is_delta: bool = False


class Archived(msgspec.Struct, tag=True):
    """The archive holds the log up to `last_sequence`, whose newest timestamp is `timestamp`.

    `nodes` are those that are registered for the business. If this job began the archive with the snapshot, `left_out` is the
    greatest timestamp of a delete that may be missing in it; else 0. `requests` is the number of requests to the archive.
    `lost_tails` is the number of lost tails of the business that are on record. `missing` are contents that the archived entries
    name and whose bytes are missing or damaged, the first ones, each as a sentence.
    """

    last_sequence: int
    timestamp: int
    nodes: list[str]
    left_out: int = 0
    requests: int = 0
    lost_tails: int = 0
    missing: list[str] = []


class Compacted(msgspec.Struct, tag=True):
    """The numbers of objects that a compaction wrote and removed, of its requests to the archive, and of the lost tails of the
    business that are still on record."""

    written: int
    removed: int
    requests: int = 0
    lost_tails: int = 0


class Cleaned(msgspec.Struct, tag=True):
    """The claim files that were deleted, and their bytes; those of which little is named any more; and how many are named by
    segments only: they may go when these segments have gone.

    `kept` are named by history only; the oldest of them may go at `due_ms` (unix ms). Of the deleted ones, `for_room` were for
    lack of room, with `room_bytes` bytes; `nowhere` of these are not in the archive.
    """

    removed: int
    freed: int
    sparse: list[str] = []
    waiting: int = 0
    kept: int = 0
    due_ms: int = 0
    for_room: int = 0
    room_bytes: int = 0
    nowhere: int = 0


class Removed(msgspec.Struct, tag=True):
    """The answer to `Remove`. `gone`: the archive holds no object of the log any more."""

    gone: bool


class Failed(msgspec.Struct, tag=True):
    """The answer to a job that failed and can be sent again. `error` is the class name of one of kvwal's errors."""

    error: str
    what: str
    hint: str

    def exception(self) -> KvwalError:
        """The error, as the archiver process raised it."""
        error_class = next((kind for kind in _all_errors(KvwalError) if kind.__name__ == self.error), KvwalError)
        error = error_class.__new__(error_class)
        KvwalError.__init__(error, self.what, hint=self.hint)
        return error


class SeveralAnswers(msgspec.Struct, tag=True):
    """The answers to `Several`, in the order of its jobs."""

    answers: list[Archived | Failed]


Answer = Checkpointed | Archived | Compacted | Removed | Cleaned | Failed | SeveralAnswers


def _all_errors(kind: type[KvwalError]) -> list[type[KvwalError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _all_errors(child))]


encode = msgspec.json.Encoder().encode
decode_job = msgspec.json.Decoder(ArchiverJob).decode
decode_answer = msgspec.json.Decoder(Answer).decode
