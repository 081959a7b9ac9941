"""The content that kept logs are in, and their names.

    event-logs      <application>[/<attempt>]/<file>.zstd                   of an application that has ended
                    <application>[/<attempt>]/<file>.zstd.inprogress        of one that runs, or was killed

The first parts are those of the application's keys (`record_keys.app_prefix`). The file is named as Spark names it, so that a
copy of it in a folder of event logs is one for Spark's History Server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from kvwal.spark.eventlog.listing import IN_PROGRESS
from kvwal.spark.eventlog.logs import ApplicationIdentity
from kvwal.spark.record_keys import app_prefix

KEPT_LOGS = "event-logs"
"""The business of the content."""
SUFFIX = ".zstd"
_NAMES = (SUFFIX, SUFFIX + IN_PROGRESS)


class Output(Protocol):
    """The file of a new content."""

    def write(self, data: bytes, /) -> object:
        """Append bytes."""
        ...


class StoredContent(Protocol):
    """One stored content, without its bytes."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def length(self) -> int:
        """Its bytes."""
        ...

    @property
    def attributes(self) -> Mapping[str, str]:
        """What its writer said about it."""
        ...


class ReadContents(Protocol):
    """The reads of content that kept logs need."""

    def stat(self, name: str, /) -> StoredContent:
        """One content. `KeyError` if there is none."""
        ...

    def open(self, name: str, /) -> BinaryIO:
        """The bytes of one content, seekable. `KeyError` if there is none."""
        ...

    def list(self, prefix: str, /) -> Iterable[StoredContent]:
        """The contents whose names begin so, sorted."""
        ...


class Contents(ReadContents, Protocol):
    """The content that logs are kept in."""

    def create(self, name: str, attributes: Mapping[str, str], /) -> AbstractContextManager[Output]:
        """A file for a block. The content is there whole at the end of the block; nothing is there if the block raises."""
        ...

    def delete(self, name: str, /) -> Any:
        """Delete one content."""
        ...


class ContentStore(Protocol):
    """The method of a store that keeping needs."""

    def content(self, name: str, /) -> Contents:
        """The contents of a business."""
        ...


def contents_of(store: object) -> Contents:
    """The kept logs of an open store, or of a cluster."""
    return cast("ContentStore", store).content(KEPT_LOGS)


class KeptName(NamedTuple):
    """The name of a kept log: the prefix of its application's keys, and the name of its file."""

    prefix: str
    file: str

    def __str__(self) -> str:
        return f"{self.prefix}/{self.file}"

    @property
    def in_progress(self) -> bool:
        """Whether Spark had not marked the log as finished."""
        return self.file.endswith(IN_PROGRESS)


def kept_name(identity: ApplicationIdentity, *, in_progress: bool) -> KeptName:
    """The name of the kept log of an application."""
    parts = [_file_part(part) for part in (identity.app, identity.attempt) if part]
    return KeptName(
        app_prefix(identity.app, identity.attempt), "_".join(parts) + SUFFIX + (IN_PROGRESS if in_progress else "")
    )


def _file_part(text: str) -> str:
    """An id in the name of a file, as Spark writes it. What a folder may not have is left out."""
    spark_name = re.sub(r"[.${}'\"]", "_", re.sub("[ :/]", "-", text)).lower()
    return re.sub(r"[^a-z0-9_%@+-]", "_", spark_name) or "_"


def parse_kept_name(name: str) -> KeptName | None:
    """The parts of a name; None for one that no kept log has."""
    prefix, slash, file = name.rpartition("/")
    return KeptName(prefix, file) if slash and prefix and file.endswith(_NAMES) else None


def kept_logs(contents: ReadContents, prefix: str | None = None) -> Iterator[KeptName]:
    """The kept logs of all applications, or of the one whose keys begin so, without those of its attempts.

    One for each application: the finished log, if a log in progress stands beside it.
    """
    found: dict[str, KeptName] = {}
    for name in every_kept_log(contents, prefix):
        if name.prefix not in found or found[name.prefix].in_progress:
            found[name.prefix] = name
    yield from found.values()


def every_kept_log(contents: ReadContents, prefix: str | None = None) -> Iterator[KeptName]:
    """As `kept_logs`, with both of a finished log and one in progress."""
    for stored in contents.list("" if prefix is None else f"{prefix}/"):
        name = parse_kept_name(stored.name)
        if name is not None and prefix in (None, name.prefix):
            yield name
