"""Who may write under a node's name: the registered logs of a place.

The first log of a place puts `_log`; a log that takes over puts the next `_log.2`, `_log.3` …, each only if it is
absent. The highest number owns the place, and from then on the earlier log is fenced: whatever it puts behind its
last sequence counts as foreign.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from archive.errors import ArchiveDamaged, ConfigError
from archive.layout import Place, check_name, parse_object_key, parse_registration_key, registration_key
from archive.objects import Objects
from archive.parquet.rows import DAMAGED_HINT, FORMAT, check_format

BLANK_CRC = b"00000000"


class Earlier(msgspec.Struct, frozen=True):
    """A log that owned the place before, and the last sequence of it that counts."""

    log_id: str
    last_sequence: int


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """One log of a place, as it stands in `_log` or `_log.N`.

    `from_sequence` is the first sequence the log writes itself, `previous` the logs before it, oldest first.
    `restored_from` says up to which sequence of which node the log was filled by a restore. `crc` is the crc32c of the
    record, in hex, with zeros in its place: a flipped bit in `log_id` would else hide every object of the log.
    """

    format: int = FORMAT
    log_id: str
    number: int = 1
    from_sequence: int = 1
    previous: list[Earlier] = []
    restored_from: dict[str, int] = {}
    crc: str = ""

    def range_of(self, log_id: str) -> tuple[int, int | None] | None:
        """The first and last sequence that count of `log_id` (None: no end yet), or None for a foreign log."""
        first = 1
        for earlier in self.previous:
            if earlier.log_id == log_id:
                return first, earlier.last_sequence
            first = earlier.last_sequence + 1
        return (self.from_sequence, None) if log_id == self.log_id else None


def owner(objects: Objects, place: Place) -> Registration | None:
    """The log that owns `place`, or None where none is registered. Raises ArchiveError."""
    listed = (parse_registration_key(item.key) for item in objects.list(registration_key(place, 1)))
    numbers = [found[1] for found in listed if found and found[0] == place]
    return _read(objects, registration_key(place, max(numbers))) if numbers else None


def _read(objects: Objects, key: str) -> Registration:
    raw = objects.read(key)
    try:
        check_format(raw, key)
        found = msgspec.json.decode(raw, type=Registration)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(key, f"cannot be read: {error}") from error
    if found.crc and found.crc != _crc(raw.replace(found.crc.encode(), BLANK_CRC)):
        raise _damaged(key, "is not what was put: its checksum does not match")
    return found


def _damaged(key: str, what: str) -> ArchiveDamaged:
    return ArchiveDamaged(f"{key}: the registration of the log {what}.", hint=DAMAGED_HINT)


def _encode(registration: Registration) -> bytes:
    blank = msgspec.json.encode(msgspec.structs.replace(registration, crc=BLANK_CRC.decode()))
    return msgspec.json.encode(msgspec.structs.replace(registration, crc=_crc(blank)))


def _crc(record: bytes) -> str:
    import google_crc32c

    return f"{google_crc32c.value(record):08x}"


def register(objects: Objects, place: Place, log_id: str, *, restored_from: Mapping[str, int] | None = None) -> None:
    """Returns once `log_id` owns `place`, now or already. Raises ConfigError if another log does, or took over.

    A store that overwrites where it should refuse cannot hold an archive; that is found here, with a second put of
    the same bytes.
    """
    if owner(objects, place) is None:
        key = registration_key(place, 1)
        data = _encode(Registration(log_id=log_id, restored_from=dict(restored_from or {})))
        if objects.put_if_absent(key, data):
            _check_refusal(objects, key, data)
            objects.confirm(key, data)
    require_owner(objects, place, log_id)


def _check_refusal(objects: Objects, key: str, data: bytes) -> None:
    if objects.put_if_absent(key, data):
        raise ConfigError(
            f"{objects.url} overwrites an object that should be put only if it is absent.",
            hint="Choose a store that honours `If-None-Match: *`; this one could lose what another node wrote.",
        )


def require_owner(objects: Objects, place: Place, log_id: str) -> Registration:
    """The registration of `place`, if it is that of `log_id`; otherwise ConfigError says whose it is."""
    found = owner(objects, place)
    if found is not None and found.log_id == log_id:
        return found
    if found is None:
        what = f"no log is registered for {place.prefix}"
        hint = "Register the log before it writes."
    elif found.range_of(log_id):
        what = f"another log took over {place.prefix} from sequence {found.from_sequence} on, and fenced this one"
        hint = "Open the store that took over, or restore this one under another node name."
    else:
        what = f"{place.prefix} belongs to another log, so this one may not write under the same node name"
        hint = "Choose another node name, or continue that log with `kvwal restore --take-over`."
    raise ConfigError(f"{objects.url}: {what}.", hint=hint)


def take_over(objects: Objects, place: Place, log_id: str, from_sequence: int) -> None:
    """Makes `log_id` the owner of `place`; its first own sequence is `from_sequence`, and of the log before it
    everything below counts.

    Raises ConfigError if there is nothing to take over, if another log took over meanwhile, or if what counts of the
    logs before would reach past `from_sequence`.
    """
    found = owner(objects, place)
    if found is None:
        raise ConfigError(
            f"{objects.url}: no log is registered for {place.prefix}, so there is nothing to take over.",
            hint="Restore without taking over.",
        )
    if found.log_id == log_id and found.from_sequence == from_sequence:
        return
    if from_sequence < found.from_sequence:
        begins = f"the log to take over begins at sequence {found.from_sequence}"
        raise ConfigError(f"{place.prefix}: {begins}, so none can begin at {from_sequence}.")
    next_number = found.number + 1
    previous = [*found.previous, Earlier(found.log_id, from_sequence - 1)]
    new = Registration(log_id=log_id, number=next_number, from_sequence=from_sequence, previous=previous)
    data = _encode(new)
    if objects.put_if_absent(registration_key(place, next_number), data):
        objects.confirm(registration_key(place, next_number), data)
    require_owner(objects, place, log_id)


def registered(objects: Objects, namespace: str, cluster: str, business: str | None = None) -> list[Place]:
    """The places with a registered log, sorted: of one business, or of all of the cluster. Raises ArchiveError.

    A place whose registration was lost counts too: whoever reads it is told.
    """
    folders = {"namespace": namespace, "cluster": cluster} | ({"business": business} if business else {})
    prefix = "".join(check_name(kind, name) + "/" for kind, name in folders.items())
    listed = objects.list(prefix)
    found = (parse_registration_key(item.key) or parse_object_key(item.key) for item in listed)
    return sorted({item[0] for item in found if item})
