"""Names of the structures of contents as they are typed and printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

import kvwal
from kvwal.location.cluster import ClusterMaps
from kvwal.structures.content.names import content_structure
from kvwal.structures.content.stream import ContentStream
from kvwal_archive.layout import check_name


class WrittenContents(Protocol):
    """Contents that commands change: those of a folder, or of a cluster."""

    def create(self, name: str, attributes: Mapping[str, str] | None = None) -> ContentStream:
        """See `Contents.create`."""
        ...

    def delete(self, name: str) -> int:
        """See `Contents.delete`."""
        ...

    def repair(self, name: str) -> bool:
        """See `Contents.repair`."""
        ...

    def __contains__(self, name: object) -> bool:
        """Whether there is a content of this name."""
        ...


class ContentsName(NamedTuple):
    """Contents as they are typed: `BUSINESS`, the business's own ones, or `BUSINESS/NAME`."""

    business: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.business}/{self.name}" if self.name else self.business

    @property
    def structure(self) -> str:
        """The structure of the contents in the log of their business."""
        return content_structure(self.name)

    def of(self, store: kvwal.Store | ClusterMaps) -> WrittenContents:
        """The contents in an open store."""
        return store.business(self.business).content(self.name)


def contents_name(typed: str | ContentsName) -> ContentsName:
    """The contents that were typed. Raises `InvalidName`."""
    if isinstance(typed, ContentsName):
        return typed
    business, slash, name = typed.partition("/")
    return ContentsName(check_name("business", business), check_name("content", name) if slash else "")


def names_of(business: str, names: Iterable[str]) -> list[str]:
    """The contents with these names as they are typed."""
    return [str(ContentsName(business, name)) for name in names]
