"""The jobs of the archiver process and its answers, as they cross the pipe: one line of JSON each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from archive.layout import Place
from kvwal.errors import KvwalError
from kvwal.log.files.segment import SealedSegment


class SegmentRef(msgspec.Struct, array_like=True):
    """A sealed segment."""

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
        """The segment that is meant."""
        return SealedSegment(Path(self.path), self.first, self.last, self.previous_crc, self.crc, self.size)


class ArchiveTarget(msgspec.Struct):
    """An archive, and the log in it that is meant. `options` may hold secrets: they cross the pipe and nothing else."""

    url: str
    place: tuple[str, str, str, str]
    log_id: str
    options: dict[str, Any] = {}

    def where(self) -> Place:
        """The place as the archive knows it."""
        return Place(*self.place)

    def __repr__(self) -> str:
        return f"Target(url={self.url!r}, place={self.place!r})"


class Checkpoint(msgspec.Struct, tag=True):
    """Bring the snapshot of `folder` up to the end of these segments. Deletes up to the timestamp `deletes_before` may go.

    With `shared`, an archive in which other nodes are registered, only those that are not needed there.
    """

    folder: str
    segments: list[SegmentRef]
    deletes_before: int
    shared: ArchiveTarget | None = None


class Archive(msgspec.Struct, tag=True):
    """Put what these segments hold, and what a new archive lacks of the snapshot in `folder`, into the archive.

    `ends` is the last sequence of the log that is sealed, `ends_crc` the crc of that seal: the archive cannot hold more of it,
    nor another seal there.
    """

    target: ArchiveTarget
    folder: str
    segments: list[SegmentRef]
    ends: int
    ends_crc: int


class Compact(msgspec.Struct, tag=True):
    """Rewrite what is worth it, and remove what was superseded long enough ago."""

    target: ArchiveTarget
    history_ms: int
    grace_ms: int


class Forget(msgspec.Struct, tag=True):
    """Remove a log whose map was destroyed, and which ended there."""

    target: ArchiveTarget
    last_sequence: int
    last_timestamp: int


class Several(msgspec.Struct, tag=True):
    """Small jobs of several logs, done side by side: each mostly waits for a disk or a bucket."""

    jobs: list[Archive]


Job = Checkpoint | Archive | Compact | Forget | Several


class Checkpointed(msgspec.Struct, tag=True):
    """A snapshot stands whose parts have `size` bytes, and that ends with `last_sequence` (0: there was nothing to hold).

    `is_delta`: what was made is a delta, out of which no delete may go.
    """

    last_sequence: int
    size: int
    is_delta: bool = False


class Archived(msgspec.Struct, tag=True):
    """The archive holds the log up to `last_sequence`, whose newest timestamp is `timestamp`.

    `nodes` are those that are registered for the business. `left_out` is, of an archive that this job began with the snapshot,
    the greatest timestamp of a delete that may not be in it; else 0.
    """

    last_sequence: int
    timestamp: int
    nodes: list[str]
    left_out: int = 0


class Kept(msgspec.Struct, tag=True):
    """How many objects were made, and how many removed."""

    written: int
    removed: int


class Forgotten(msgspec.Struct, tag=True):
    """Whether nothing of the log is left in the archive."""

    gone: bool


class Failed(msgspec.Struct, tag=True):
    """The job failed; it can simply be asked again. `error` is the name of one of kvwal's errors."""

    error: str
    what: str
    hint: str

    def exception(self) -> KvwalError:
        """The error, as it was raised there."""
        found = next((kind for kind in _all_errors(KvwalError) if kind.__name__ == self.error), KvwalError)
        error = found.__new__(found)
        KvwalError.__init__(error, self.what, hint=self.hint)
        return error


class Answers(msgspec.Struct, tag=True):
    """Those of `Several`, in their order."""

    answers: list[Archived | Failed]


Answer = Checkpointed | Archived | Kept | Forgotten | Failed | Answers


def _all_errors(kind: type[KvwalError]) -> list[type[KvwalError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _all_errors(child))]


encode = msgspec.json.Encoder().encode
decode_job = msgspec.json.Decoder(Job).decode
decode_answer = msgspec.json.Decoder(Answer).decode
