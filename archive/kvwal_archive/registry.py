"""The registry of logs: the log that may write under a node's name.

The first log of a place puts `_log`. A log that takes over puts the next of `_log.2`, `_log.3` …, only if it is absent. The log
with the highest number owns the place, and the earlier log is fenced: an object that it puts after its last sequence counts as
foreign.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kvwal_archive.errors import ArchiveDamaged, ConfigError
from kvwal_archive.layout import Place, check_name, parse_object_key, parse_registration_key, registration_key
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.rows import DAMAGED_HINT, FORMAT, NewerFormat, check_format

BLANK_CRC = b"00000000"


class Earlier(msgspec.Struct, frozen=True):
    """A log that owned the place before, and its last sequence that counts."""

    log_id: str
    last_sequence: int


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """One log of a place, as recorded in `_log` or `_log.N`.

    `place` is the folder of the record, "" in records of earlier versions. `from_sequence` is the first sequence the log writes
    itself, `previous` the logs before it, oldest first. `restored_from` maps each node to the last sequence that a restore took
    from it. `crc` is the crc32c of the record, in hex, computed with zeros in its place: without it a flipped bit in `log_id`
    would hide every object of the log.
    """

    format: int = FORMAT
    log_id: str
    place: str = ""
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
    """The registration of the log that owns `place`, None if none is registered. Raises ArchiveError."""
    parsed_keys = (parse_registration_key(item.key) for item in objects.list(registration_key(place, 1)))
    numbers = [parsed[1] for parsed in parsed_keys if parsed and parsed[0] == place]
    return _read(objects, place, max(numbers)) if numbers else None


def _read(objects: Objects, place: Place, number: int) -> Registration:
    key = registration_key(place, number)
    try:
        return _decoded(objects.read(key), place, number)
    except (ArchiveDamaged, NewerFormat):  # of the answer, perhaps, and not of the object
        return _decoded(objects.read_again(key), place, number)


def _decoded(raw: bytes, place: Place, number: int) -> Registration:
    key = registration_key(place, number)
    try:
        check_format(raw, key)
        registration = msgspec.json.decode(raw, type=Registration)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(key, f"cannot be read: {error}") from error
    if registration.crc and registration.crc != _crc(raw.replace(registration.crc.encode(), BLANK_CRC)):
        raise _damaged(key, "is not what was put: its checksum does not match")
    its_place = registration.place or place.prefix
    if (its_place, registration.number) != (place.prefix, number):
        raise _damaged(key, f"is number {registration.number} of {its_place}, and was copied here")
    return registration


def _damaged(key: str, what: str) -> ArchiveDamaged:
    return ArchiveDamaged(f"{key}: the registration of the log {what}.", hint=DAMAGED_HINT)


def _encode(registration: Registration) -> bytes:
    blank = msgspec.json.encode(msgspec.structs.replace(registration, crc=BLANK_CRC.decode()))
    return msgspec.json.encode(msgspec.structs.replace(registration, crc=_crc(blank)))


def _crc(record: bytes) -> str:
    import google_crc32c

    return f"{google_crc32c.value(record):08x}"


def register(objects: Objects, place: Place, log_id: str, *, restored_from: Mapping[str, int] | None = None) -> None:
    """Register the log `log_id` for `place`, unless it owns the place already.

    Raises ConfigError if another log owns the place, or took over; or if the backend overwrites the registration: see
    `check_conditions`.
    """
    if owner(objects, place) is None:
        key = registration_key(place, 1)
        data = _encode(Registration(log_id=log_id, place=place.prefix, restored_from=dict(restored_from or {})))
        if objects.put_if_absent(key, data):
            _check_refusal(objects, key, data)
            objects.confirm(key, data)
    require_owner(objects, place, log_id)


def check_conditions(objects: Objects, place: Place, log_id: str) -> None:
    """Check that the backend refuses to put an object whose key is taken: a backend without that cannot hold an archive.

    The registration of `place` is put again, with the bytes that it has. That costs one request, so it is asked once by a process
    and archive: an archive may have been copied to another store, or may be behind another gateway, since the log was registered.
    Raises ConfigError if the put is accepted, or if `log_id` does not own the place.
    """
    key = registration_key(place, require_owner(objects, place, log_id).number)
    _check_refusal(objects, key, objects.read(key))


def _check_refusal(objects: Objects, key: str, data: bytes) -> None:
    if objects.put_if_absent(key, data):
        raise ConfigError(
            f"{objects.url} overwrites an object that should be put only if it is absent.",
            hint="Choose a store that honours `If-None-Match: *`; this one could lose what another node wrote.",
        )


def require_owner(objects: Objects, place: Place, log_id: str) -> Registration:
    """The registration of `place`, if it is that of `log_id`. Otherwise raises ConfigError, which tells the reason."""
    registration = owner(objects, place)
    if registration is not None and registration.log_id == log_id:
        return registration
    if registration is None:
        what = f"no log is registered for {place.prefix}"
        hint = "Register the log before it writes."
    elif registration.range_of(log_id):
        began = registration.from_sequence
        what = f"another log took over {place.prefix} from sequence {began} on, and fenced this one"
        hint = "Open the store that took over, or restore this one under another node name."
    else:
        what = f"{place.prefix} belongs to another log, so this one may not write under the same node name"
        hint = "Choose another node name, or continue that log with `kvwal restore --take-over`."
    raise ConfigError(f"{objects.url}: {what}.", hint=hint)


def take_over(objects: Objects, place: Place, log_id: str, from_sequence: int) -> None:
    """Make the log `log_id` the owner of `place`. It begins at `from_sequence`; of the log before it all below counts.

    Raises ConfigError if no log is registered, if another log took over meanwhile, or if the log to take over begins after
    `from_sequence`.
    """
    current = owner(objects, place)
    if current is None:
        raise ConfigError(
            f"{objects.url}: no log is registered for {place.prefix}, so there is nothing to take over.",
            hint="Restore without taking over.",
        )
    if current.log_id == log_id and current.from_sequence == from_sequence:
        return
    if from_sequence < current.from_sequence:
        begins = f"the log to take over begins at sequence {current.from_sequence}"
        raise ConfigError(f"{place.prefix}: {begins}, so none can begin at {from_sequence}.")
    next_number = current.number + 1
    previous = [*current.previous, Earlier(current.log_id, from_sequence - 1)]
    data = _encode(
        Registration(
            log_id=log_id, place=place.prefix, number=next_number, from_sequence=from_sequence, previous=previous
        )
    )
    if objects.put_if_absent(registration_key(place, next_number), data):
        _check_refusal(objects, registration_key(place, next_number), data)
        objects.confirm(registration_key(place, next_number), data)
    require_owner(objects, place, log_id)


def registered(objects: Objects, namespace: str, cluster: str, business: str | None = None) -> list[Place]:
    """The places with a registered log, sorted: of one business, or of all of the cluster. Raises ArchiveError.

    A place that has objects but lost its registration counts too, so that a read of it raises ArchiveDamaged.
    """
    folders = {"namespace": namespace, "cluster": cluster} | ({} if business is None else {"business": business})
    prefix = "".join(check_name(kind, name) + "/" for kind, name in folders.items())
    parsed_keys = (parse_registration_key(item.key) or parse_object_key(item.key) for item in objects.list(prefix))
    return sorted({parsed[0] for parsed in parsed_keys if parsed})
