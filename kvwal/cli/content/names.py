"""Names of the structures of contents as they are typed and printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import kvwal
from kvwal.structures.content.names import content_structure
from kvwal_archive.layout import check_name


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

    def of(self, store: kvwal.Store) -> kvwal.Contents:
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
