"""The golden logs of other products: what kvwal reads of them, and what their libraries gave back."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvwal.codecs import registry
from kvwal.entry import Entry
from kvwal.importers.flume.folders import log_paths
from kvwal.importers.flume.replay import Replay
from kvwal.importers.nifi.folders import repository
from kvwal.importers.nifi.replay import RepositoryReplay
from kvwal.importers.seatunnel.folders import business_logs
from kvwal.importers.seatunnel.latest import LatestRecords
from kvwal.ports.disk import OS_DISK
from tests.support.java.logs import EXPECTED


@dataclass
class Found:
    """What a reader reported."""

    damaged_places: list[tuple[str, int, int]] = field(default_factory=list)
    torn_places: list[tuple[str, int]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def damaged(self, path: Path, offset: int, end: int, what: str) -> None:
        assert 0 <= offset <= end, what
        self.damaged_places.append((path.name, offset, end))

    def torn(self, path: Path, offset: int, what: str) -> None:
        self.torn_places.append((path.name, offset))

    def left_out(self, path: Path, offset: int, what: str) -> None:
        self.left.append(what)

    @property
    def nothing(self) -> bool:
        return not (self.damaged_places or self.torn_places or self.left)


def expected(folder: Path) -> list[dict[str, Any]]:
    """What the library gave back."""
    return [json.loads(line) for line in (folder / EXPECTED).read_text().splitlines()]


def decoded(entries: list[Entry]) -> dict[Any, Any]:
    """The entries that are no deletes, as a map would have them. The type is a part of the key: 1 equals True."""
    return {
        (type(key := registry.decode_key(each.key, each.key_class)), key): registry.decode(each.value, each.value_class)
        for each in entries
        if not each.deleted
    }


def seatunnel(folder: Path, found: Found) -> dict[Any, Any]:
    """The map of the only business."""
    (log,) = business_logs(OS_DISK, folder)
    return decoded([entry for entry, _, _ in LatestRecords(OS_DISK, log, found).entries()])


def flume(folder: Path, found: Found) -> list[dict[str, Any]]:
    """The events of the queue as the library prints them."""
    return [
        {"headers": each.event.headers, "body": base64.b64encode(each.event.body).decode()}
        for each in Replay(OS_DISK, log_paths(OS_DISK, folder), found)
    ]


def nifi(folder: Path, found: Found) -> dict[Any, Any]:
    """The records of the repository."""
    replay = RepositoryReplay(OS_DISK, repository(OS_DISK, folder), found)
    return decoded([entry for entry, _, _ in replay.entries()])


def java_text(value: object) -> str:
    """A value as Java prints it, for the classes of the golden log."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def nifi_line(record: int, value: dict[str, Any]) -> dict[str, Any]:
    """A record as the library's program prints it."""
    claim = value["content_claim"]
    return {
        "id": record,
        "queue": value["queue_identifier"],
        "attributes": value["attributes"],
        "size": value["flowfile_size"],
        "entry_date": value["entry_date"],
        "claim": claim
        and " ".join(
            [
                claim["resource_claim"]["identifier"],
                str(claim["resource_claim_offset"]),
                str(claim["content_claim_length"]),
                str(claim["content_claim_offset"]),
            ]
        ),
    }
