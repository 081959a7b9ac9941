"""Options of a queue: one entry of the queue's structure, so that log, archive and restore treat it as an entry. No I/O.

The key is `OPTIONS_KEY`, the value a JSON object of the options that are set. Options that this version does not know, of a newer
one, stay when others are changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from kvwal.entry import DataEntry, Entry
from kvwal.errors import ConfigError, NewerVersion
from kvwal.structures.queue.positions import OPTIONS_KEY, options_class, queue_structure
from kvwal.structures.time_to_live import MOST_SECONDS, TimeToLive

JSON = "json"
_MOST = 1 << 53
"""The greatest number of an option: JSON readers of every language keep it."""
T = TypeVar("T")
Changes: TypeAlias = dict[str, Any]
"""The options to change, by name; None clears one."""


class QueueOptions(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """The options of a queue, each None if it is not set.

    `capacity` is the most items, and `capacity_bytes` the most bytes of their encoded values; items in flight and delayed ones
    count. `redelivery_delay` is for how many seconds an item that was given back is not handed out. An item that was given back
    `max_deliveries` times goes to the queue `dead_letters` of the business; its name is empty for the business's own queue.
    `ttl` is the time to live, in seconds, of items that are put without one.
    """

    capacity: int | None = None
    capacity_bytes: int | None = None
    redelivery_delay: float | None = None
    max_deliveries: int | None = None
    dead_letters: str | None = None
    ttl: float | None = None

    @property
    def counts_deliveries(self) -> bool:
        """Whether a give-back of an item is written to the log."""
        return self.redelivery_delay is not None or self.max_deliveries is not None

    @property
    def is_bounded(self) -> bool:
        """Whether the queue has a capacity."""
        return self.capacity is not None or self.capacity_bytes is not None


NO_OPTIONS = QueueOptions()
UNREADABLE = QueueOptions()
"""In place of stored options that this version cannot read. What depends on them is refused: see `check_readable`."""
_decode_options = msgspec.json.Decoder(QueueOptions).decode
_decode_stored = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def options_of(entry: Entry | DataEntry | None) -> QueueOptions:
    """The options that an entry says; `NO_OPTIONS` if it is None or a delete. Raises nothing."""
    if entry is None or entry.deleted:
        return NO_OPTIONS
    try:
        return _decode_options(entry.value)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return UNREADABLE


def check_readable(options: QueueOptions, name: str) -> QueueOptions:
    """`options`, unless this version could not read them: then `NewerVersion`. `name` is that of the queue in messages."""
    if options is not UNREADABLE:
        return options
    raise NewerVersion(
        f"{name}: its stored options are of a form that this version of kvwal cannot read; nothing was done.",
        hint="Upgrade kvwal, or set all its options anew with set_options.",
    )


def changed_options(structure: str, stored: Entry | None, changes: Mapping[str, Any]) -> list[Entry]:
    """The entry to log when options of a queue are changed; none if that changes nothing. Raises `ConfigError`.

    `stored` is the entry of today, and `changes` is what `checked_changes` returned.
    """
    before = _stored_fields(stored)
    after = {name: value for name, value in {**before, **changes}.items() if value is not None}
    if ("max_deliveries" in after) != ("dead_letters" in after):
        given, missing = (
            ("max_deliveries", "dead_letters") if "max_deliveries" in after else ("dead_letters", "max_deliveries")
        )
        raise ConfigError(
            f"{given}={after[given]!r} needs {missing}, too; no option was changed.",
            hint="An item that was given back max_deliveries times goes to the queue dead_letters. Set both, or clear both.",
        )
    if after == before:
        return []
    key_class = options_class(structure)
    if not after:
        return [Entry(OPTIONS_KEY, key_class, b"", "", True, 0)]
    return [Entry(OPTIONS_KEY, key_class, _encode(after), JSON, False, 0)]


def given_changes(**given: Any) -> Changes:
    """The options among these arguments that were given."""
    return {name: value for name, value in given.items() if value is not UNSET}


def checked_changes(structure: str, given: Mapping[str, Any]) -> Changes:
    """The options to change, as they are stored. Raises `ConfigError` for one that is unknown or has a wrong value."""
    changes = {name: _checked(name, value) for name, value in given.items()}
    target = changes.get("dead_letters")
    if target is not None and queue_structure(target) == structure:
        raise ConfigError(
            f"dead_letters={target!r} is the queue itself; no option was changed.",
            hint="Name another queue of the business.",
        )
    return changes


def seconds_of(name: str, value: Any) -> float:
    """A number of seconds above 0 and below a thousand years, or a timedelta, as seconds. Raises `ConfigError`."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, int | float) and type(seconds) is not bool and 0 < seconds <= MOST_SECONDS:
        return max(0.001, float(seconds))
    raise ConfigError(
        f"{name}={value!r} must be a number of seconds above 0 and below a thousand years, or a timedelta of that length;"
        " nothing was done."
    )


def delay_ms_of(delay: TimeToLive | None) -> int:
    """The delay of a put in ms, 0 without one. Raises `ConfigError`."""
    return 0 if delay is None else max(1, round(seconds_of("delay", delay) * 1000))


def _stored_fields(stored: Entry | None) -> dict[str, Any]:
    if stored is None or stored.deleted:
        return {}
    try:
        return dict(_decode_stored(stored.value))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _checked(name: str, value: Any) -> Any:
    check = _CHECKS.get(name)
    if check is None:
        raise ConfigError(
            f"{name!r} is no option of a queue; no option was changed.", hint=f"There are: {', '.join(_CHECKS)}."
        )
    return None if value is None else check(name, value)


def _whole_number(name: str, value: Any) -> int:
    if type(value) is int and 0 < value <= _MOST:
        return value
    raise ConfigError(f"{name}={value!r} must be a whole number above 0, or None for no {name}; no option was changed.")


def _queue_name(name: str, value: Any) -> str:
    if type(value) is not str:
        raise ConfigError(f"{name}={value!r} must be the name of a queue of the business; no option was changed.")
    queue_structure(value)
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "capacity": _whole_number,
    "capacity_bytes": _whole_number,
    "redelivery_delay": seconds_of,
    "max_deliveries": _whole_number,
    "dead_letters": _queue_name,
    "ttl": seconds_of,
}

NumberChange: TypeAlias = int | UnsetType | None
SecondsChange: TypeAlias = TimeToLive | UnsetType | None
NameChange: TypeAlias = str | UnsetType | None


class SettableOptions(Generic[T]):
    """The method `set_options` of every queue. `T` is the options or, of a queue for tasks, what has to be awaited for them."""

    def set_options(
        self,
        *,
        capacity: NumberChange = UNSET,
        capacity_bytes: NumberChange = UNSET,
        redelivery_delay: SecondsChange = UNSET,
        max_deliveries: NumberChange = UNSET,
        dead_letters: NameChange = UNSET,
        ttl: SecondsChange = UNSET,
    ) -> T:
        """Store these options, in one transaction, and return all that are set: see `QueueOptions`. None clears one.

        They hold from this transaction on, for every program that opens the store. Raises `ConfigError`, and changes nothing, if
        one has a wrong value, or if they do not go together.
        """
        return self._set_options(
            given_changes(
                capacity=capacity, capacity_bytes=capacity_bytes, redelivery_delay=redelivery_delay,
                max_deliveries=max_deliveries, dead_letters=dead_letters, ttl=ttl,
            )
        )  # fmt: skip

    def _set_options(self, changes: Changes) -> T:
        """Store the options that were given, and return all."""
        raise NotImplementedError
