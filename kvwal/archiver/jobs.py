"""The jobs of the archiver process and its answers, as they cross the pipe: one line of JSON each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from archive.layout import Place
from kvwal.errors import KvwalError
from kvwal.log.segment import SealedSegment


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


class Target(msgspec.Struct):
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
    """Merge these segments into the snapshot of `folder`. Tombstones up to the timestamp `tombstones_before` may go."""

    folder: str
    segments: list[SegmentRef]
    tombstones_before: int


class Archive(msgspec.Struct, tag=True):
    """Put what these segments hold, and what a new archive lacks of the snapshot in `folder`, into the archive.

    `ends` is the last sequence of the log that is sealed: the archive cannot hold more of it.
    """

    target: Target
    folder: str
    segments: list[SegmentRef]
    ends: int


class Upkeep(msgspec.Struct, tag=True):
    """Rewrite what is worth it, and remove what was superseded long enough ago."""

    target: Target
    history_ms: int
    grace_ms: int


Job = Checkpoint | Archive | Upkeep


class Checkpointed(msgspec.Struct, tag=True):
    """A snapshot of `size` bytes stands that ends with `last_sequence` (0: there was nothing to hold)."""

    last_sequence: int
    size: int


class Archived(msgspec.Struct, tag=True):
    """The archive holds the log up to `last_sequence`, whose newest timestamp is `timestamp`.

    `nodes` are those that are registered for the business.
    """

    last_sequence: int
    timestamp: int
    nodes: list[str]


class Kept(msgspec.Struct, tag=True):
    """How many objects were made, and how many removed."""

    written: int
    removed: int


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


Answer = Checkpointed | Archived | Kept | Failed


def _all_errors(kind: type[KvwalError]) -> list[type[KvwalError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _all_errors(child))]


encode = msgspec.json.Encoder().encode
decode_job = msgspec.json.Decoder(Job).decode
decode_answer = msgspec.json.Decoder(Answer).decode
