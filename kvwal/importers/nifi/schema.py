"""Records of NiFi that say in the head of their file which fields they have: the schema, and the reader of one record.

The fields of a record become those of an object, under NiFi's own names: "Queue Identifier" is `queue_identifier`.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from kvwal.importers.nifi.cursor import Cursor
from kvwal.importers.source import NotWhole

INLINE, IN_OVERFLOW = 1, 8
"""The byte in front of a record: it follows; or the name of a file follows, which has this record and the next ones."""
_MOST_FIELDS = 1_000
_MOST_LEVELS = 8
_ONE, _OPTIONAL, _MANY = "EXACTLY_ONE", "ZERO_OR_ONE", "ZERO_OR_MORE"


class SchemaField(NamedTuple):
    """A field of a schema: its name, its type and repetition as NiFi writes them, and the fields in it.

    `key` is the name in an object.
    """

    name: str
    key: str
    kind: str
    repetition: str
    fields: tuple[SchemaField, ...]


Schema = tuple[SchemaField, ...]


class Edit(NamedTuple):
    """A change of a FlowFile: NiFi's action (CREATE, UPDATE, DELETE, SWAP_IN, …), its record's number, and all of its fields."""

    action: str
    record: int | None
    values: dict[str, Any]

    @property
    def swap_file(self) -> str:
        """The swap file that the change names, if any."""
        return str(self.values.get("swap_location") or "")


ACTIONS = frozenset(
    {"CREATE", "UPDATE", "DELETE", "CONTENTMISSING", "SWAP_IN", "SWAP_OUT", "SWAP_FILE_DELETED", "SWAP_FILE_RENAMED"}
)
REMOVED = frozenset({"DELETE", "CONTENTMISSING"})
WITHOUT_RECORD = frozenset({"SWAP_FILE_DELETED", "SWAP_FILE_RENAMED"})


def read_schema(cursor: Cursor, levels: int = _MOST_LEVELS) -> Schema:
    """The schema at the cursor. Raises `NotWhole`."""
    count = cursor.number(4)
    if not 0 <= count <= _MOST_FIELDS or not levels:
        raise NotWhole("a schema has too many fields")
    return tuple(_schema_field(cursor, levels - 1) for _ in range(count))


def _schema_field(cursor: Cursor, levels: int) -> SchemaField:
    parts: dict[str, Any] = {"SubFields": ()}
    count = cursor.number(4)
    if not 0 <= count <= _MOST_FIELDS:
        raise NotWhole("a field of a schema has too many parts")
    for _ in range(count):
        name, kind = cursor.text(), cursor.text()
        if kind == "String":
            parts[name] = cursor.text()
        elif kind == "SubFieldList":
            parts[name] = read_schema(cursor, levels)
        elif kind in ("Integer", "Long"):
            parts[name] = cursor.number(4 if kind == "Integer" else 8)
        else:
            raise NotWhole(f"a schema has a part of the unknown type {kind!r:.40}")
    try:
        name = str(parts["Field Name"])
        key = name.lower().replace(" ", "_")
        return SchemaField(name, key, parts["Field Type"], parts["Repetition"], parts["SubFields"])
    except KeyError as error:
        raise NotWhole(f"a field of a schema has no {error}") from error


def read_edit(cursor: Cursor, schema: Schema) -> Edit:
    """The record at the cursor, behind its first byte. Raises `NotWhole`."""
    top = _fields(cursor, schema)
    values = next(iter(top.values()), None)
    if not isinstance(values, dict):
        raise NotWhole("a record has no fields")
    action, record = values.pop("action", None), values.pop("record_id", None)
    if action not in ACTIONS or (type(record) is not int and action not in WITHOUT_RECORD):
        raise NotWhole("a record has no action, or no number")
    return Edit(action, record, values)


def first_bytes(schema: Schema) -> list[bytes]:
    """How a record of this schema may begin: the byte of an inline record, and the name of one of its kinds."""
    return [
        bytes([INLINE]) + len(kind.name.encode()).to_bytes(2, "big") + kind.name.encode()
        for field in schema
        if field.kind == "UNION"
        for kind in field.fields
    ]


def _fields(cursor: Cursor, schema: Schema) -> dict[str, Any]:
    return {field.key: _repeated(cursor, field) for field in schema}


def _repeated(cursor: Cursor, field: SchemaField) -> Any:
    if field.repetition == _ONE:
        return _value(cursor, field)
    if field.repetition == _OPTIONAL:
        return _value(cursor, field) if cursor.flag() else None
    if field.repetition == _MANY:
        return [_value(cursor, field) for _ in range(_count(cursor))]
    raise NotWhole(f"a field has the unknown repetition {field.repetition!r:.40}")


def _count(cursor: Cursor) -> int:
    """A number of values, each of which has a byte or more."""
    count = cursor.number(4)
    if not 0 <= count <= cursor.end - cursor.offset:
        raise NotWhole(f"a record has {count:,} values in a field")
    return count


def _value(cursor: Cursor, field: SchemaField) -> Any:
    if field.kind == "COMPLEX":
        return _fields(cursor, field.fields)
    if field.kind == "UNION":
        name = cursor.text()
        kind = next((each for each in field.fields if each.name == name), None)
        if kind is None:
            raise NotWhole(f"a record is of the unknown kind {name!r:.40}")
        return _repeated(cursor, kind)
    if field.kind == "MAP":
        if len(field.fields) != 2:
            raise NotWhole("a map of a schema has no key or no value")
        key, value = field.fields
        return {str(_repeated(cursor, key)): _repeated(cursor, value) for _ in range(_count(cursor))}
    return _scalar(cursor, field.kind)


def _scalar(cursor: Cursor, kind: str) -> Any:
    if kind == "STRING":
        return cursor.text()
    if kind == "LONG_STRING":
        return cursor.long_text()
    if kind == "BOOLEAN":
        return cursor.flag()
    if kind in ("LONG", "INT"):
        return cursor.number(8 if kind == "LONG" else 4)
    if kind == "BYTE_ARRAY":
        return base64.b64encode(cursor.take(cursor.number(4))).decode()
    raise NotWhole(f"a field has the unknown type {kind!r:.40}")
