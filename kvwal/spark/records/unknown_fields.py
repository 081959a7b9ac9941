"""Fields of a stored record that this version does not know, because a newer version wrote them.

A record that is read, changed and stored again keeps them. A part of a record, an error say, keeps its own as long as it is the
same part: equal in all known fields but those that count.
"""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

import msgspec

_COUNTS = {"rows", "bytes", "files", "count", "value"}
"""Fields of a part that change while the part stays the same: what a source gave, how often a failure happened."""


@cache
def _fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Names of the fields of a stored record or part, the tag of its kind included."""
    tag = kind.__struct_config__.tag_field
    return frozenset(kind.__struct_fields__) | ({tag} if tag else frozenset())


@cache
def _parts(kind: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    """The fields that hold a part, or a list of parts, each with the kind of the part."""
    fields = {field.name: get_args(field.type) for field in msgspec.structs.fields(kind)}
    return {
        name: each
        for name, arguments in fields.items()
        for each in arguments
        if isinstance(each, type) and issubclass(each, msgspec.Struct)
    }


def has_unknown_fields(stored: dict[str, Any], kind: type[msgspec.Struct]) -> bool:
    """Whether a stored record, or a part of it, has a field that `kind` does not have."""
    if not stored.keys() <= _fields(kind):
        return True
    return any(
        has_unknown_fields(part, each) for name, each in _parts(kind).items() for part in _listed(stored.get(name))
    )


def with_unknown_fields(value: dict[str, Any], stored: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """`value`, a record of `kind` as it is to be stored, with the unknown fields of `stored`, which was read before."""
    kept = value | {name: field for name, field in stored.items() if name not in _fields(kind)}
    for name, each in _parts(kind).items():
        parts = [_kept_part(part, _listed(stored.get(name)), each) for part in _listed(value.get(name))]
        if parts:
            kept[name] = parts if isinstance(value[name], list) else parts[0]
    return kept


def _listed(parts: Any) -> list[dict[str, Any]]:
    """The parts in a field, which holds one part, several, or none."""
    return parts if isinstance(parts, list) else [parts] if parts is not None else []


def _kept_part(part: dict[str, Any], before: list[dict[str, Any]], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """A part with the unknown fields of the same part among those that were stored before."""
    names = _fields(kind) - _COUNTS
    for stored in before:
        if all(stored.get(name, part.get(name)) == part.get(name) for name in names):
            return with_unknown_fields(part, stored, kind)
    return part
