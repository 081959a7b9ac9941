"""Provenance of one business in memory: whether it is switched on, and how long its events are kept. No event is kept here."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.entry import DataEntry, Entry
from kvwal.errors import ConfigError
from kvwal.key_class import PROVENANCE
from kvwal.key_codecs import decode_int, encode_int
from kvwal.structures.guards import Guards
from kvwal.structures.time_to_live import MOST_SECONDS

OPTIONS = f"{PROVENANCE}:_options"
"""The class of the only entry of the options."""
OPTIONS_KEY = b"options"
SWEPT = f"{PROVENANCE}:_swept"
"""The class of the only entry that says up to which moment (unix ms) events have told what expired."""
SWEPT_KEY = b"swept"
_JSON = "json"


class ProvenanceOptions(msgspec.Struct, frozen=True):
    """Whether events are made, and how long they are kept in the log's folder.

    Files whose events are all older than `keep_seconds` go, and the oldest ones while all files together have more than
    `keep_bytes` bytes. None keeps them.
    """

    on: bool = False
    keep_seconds: float | None = 30 * 86400.0
    keep_bytes: int | None = 10 << 30


OFF = ProvenanceOptions()
_decode = msgspec.json.Decoder(ProvenanceOptions).decode
_encode = msgspec.json.Encoder().encode


def options_of(entry: Entry | DataEntry | None) -> ProvenanceOptions:
    """The options that an entry says; `OFF` if it is None, a delete, or of a form that this version cannot read."""
    if entry is None or entry.deleted:
        return OFF
    try:
        return _decode(entry.value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return OFF


def options_entry(options: ProvenanceOptions) -> Entry:
    """The entry of these options."""
    return Entry(OPTIONS_KEY, OPTIONS, _encode(options), _JSON, False, 0)


def not_in_cluster(business: str) -> ConfigError:
    """The refusal of the provenance of a business of a cluster."""
    return ConfigError(
        f"{business}: a cluster has no provenance: its changes leave no events.",
        hint="Provenance is of a store in a folder: kvwal.open(…).provenance(…).",
    )


def swept_entry(until_ms: int) -> Entry:
    """The entry that says that events have told of all that expired until this moment."""
    return Entry(SWEPT_KEY, SWEPT, encode_int(until_ms), "int", False, 0)


def checked_options(options: ProvenanceOptions) -> ProvenanceOptions:
    """The options, if their numbers are above 0. Raises `ConfigError`."""
    seconds, size = options.keep_seconds, options.keep_bytes
    if not _is_number(seconds, (int, float)) or (seconds is not None and seconds > MOST_SECONDS):
        raise ConfigError(
            f"keep_seconds={seconds!r} must be a number of seconds above 0, or None; nothing was changed."
        )
    if not _is_number(size, (int,)):
        raise ConfigError(f"keep_bytes={size!r} must be a whole number above 0, or None; nothing was changed.")
    return options


def _is_number(value: Any, kinds: tuple[type, ...]) -> bool:
    return value is None or (type(value) in kinds and value > 0)


class ProvenanceState:
    """See `kvwal.structures.memory.StructureState`."""

    def __init__(self, guards: Guards) -> None:
        self._recovers = guards.recovers
        self._entry: Entry | None = None
        self.options = OFF
        self.swept = 0
        """What expired up to then (unix ms) was told of before the log was opened."""

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """See `StructureState.lookup`. Events are not in memory."""
        return self._entry if (key_class, key) == (OPTIONS, OPTIONS_KEY) else None

    def apply(self, entries: list[Entry]) -> None:
        """See `StructureState.apply`."""
        for entry in entries:
            if entry.key_class == OPTIONS:
                self._entry = None if entry.deleted else entry
                self.options = options_of(self._entry)
            elif entry.key_class == SWEPT and self._recovers():
                self.swept = decode_int(entry.value)

    def clear(self) -> None:
        """See `StructureState.clear`."""
        self._entry, self.options, self.swept = None, OFF, 0

    def drop_until(self, timestamp: int) -> None:
        """See `StructureState.drop_until`."""
        if self._entry is not None and self._entry.timestamp <= timestamp:
            self.clear()

    def drop_expired(self, most: int) -> int:
        """See `StructureState.drop_expired`. Nothing expires."""
        return 0

    def holds_nothing(self) -> bool:
        """See `StructureState.holds_nothing`."""
        return self._entry is None
