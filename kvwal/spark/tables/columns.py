"""Columns of Arrow from the fields of a record: their types, and their arrays.

The types follow the annotations in `kvwal.spark.records`, so a field that is added there is a column here. A field that a
stored record does not have is null: it was written by a version that did not know the field. Null is, too, what a record says
with a mark of its own: a moment of 0, an empty text, and -1 in a field whose default is -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, Union, get_args, get_origin

import msgspec

from kvwal.hlc import from_text
from kvwal.spark.records import MOMENTS

if TYPE_CHECKING:
    import pyarrow as pa

RENAMED = {"where": "place", "group": "job_group", "at": "started", "table": "table_name"}
"""Columns that have other names than their fields, because SQL would want quotes around the fields' names."""
UNIT = "ms"


class Moment:
    """The kind of a moment: Unix milliseconds, or text of ISO 8601."""


class Json:
    """The kind of a value without a fixed shape: its JSON, as text."""


class RecordColumn(NamedTuple):
    """A column: its name, the field it comes from, the field's kind, and the number that stands for null (None: no number)."""

    name: str
    field: str
    kind: Any
    null: int | None = None


@cache
def columns_of(record: type[msgspec.Struct]) -> tuple[RecordColumn, ...]:
    """The columns of a record or of a part of one, in the order of the fields."""
    return tuple(_column(field) for field in msgspec.structs.fields(record))


def _column(field: msgspec.structs.FieldInfo) -> RecordColumn:
    kind = Moment if field.name in MOMENTS else _kind(field.type)
    return RecordColumn(RENAMED.get(field.name, field.name), field.name, kind, -1 if field.default == -1 else None)


def _kind(annotation: Any) -> Any:
    """The kind of an annotation: itself without None, if its values have one shape; else `Json`."""
    if get_origin(annotation) in (Union, UnionType):
        rest = [each for each in get_args(annotation) if each is not type(None)]
        return _kind(rest[0]) if len(rest) == 1 else Json
    if get_origin(annotation) in (list, dict):
        return Json if _kind(get_args(annotation)[-1]) is Json else annotation
    is_known = annotation in (int, float, str, bool) or _is_struct(annotation)
    return annotation if is_known else Json


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def data_type(kind: Any) -> pa.DataType:
    """Arrow's type of a kind."""
    import pyarrow as pa

    plain = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string(), Json: pa.string()}
    if kind in plain:
        return plain[kind]
    if kind is Moment:
        return pa.timestamp(UNIT, tz="UTC")
    if _is_struct(kind):
        return pa.struct([(column.name, data_type(column.kind)) for column in columns_of(kind)])
    item = data_type(_kind(get_args(kind)[-1]))
    return pa.list_(item) if get_origin(kind) is list else pa.map_(pa.string(), item)


@cache
def partial(record: type[msgspec.Struct], fields: tuple[str, ...]) -> type[msgspec.Struct]:
    """A Struct with only these fields of a record, each None where a stored record has none. It keeps the record's tag."""
    columns = [column for column in columns_of(record) if column.field in fields]
    config = record.__struct_config__
    optional = [(column.field, _stored(column.kind) | None, None) for column in columns]
    return msgspec.defstruct(record.__name__, optional, tag_field=config.tag_field, tag=config.tag, gc=False)


def _stored(kind: Any) -> Any:
    """The type as which msgspec decodes a kind."""
    if kind is Moment:
        return int | str
    if kind is Json:
        return Any
    if _is_struct(kind):
        return partial(kind, tuple(column.field for column in columns_of(kind)))
    if get_origin(kind) is list:
        return list[_stored(_kind(get_args(kind)[-1]))]  # type: ignore[misc]
    return dict[str, _stored(_kind(get_args(kind)[-1]))] if get_origin(kind) is dict else kind  # type: ignore[misc]


def to_array(column: RecordColumn, values: list[Any]) -> pa.Array:
    """The array of a column from decoded values; None is null."""
    import pyarrow as pa

    kind = column.kind
    if kind is Moment:
        numbers = pa.array(map(_milliseconds, values), pa.int64(), size=len(values))
        return _without(numbers, 0).cast(data_type(Moment))
    if kind is str:
        return _without(pa.array(values, pa.string()), "")
    if kind is Json:
        texts = [None if value is None else msgspec.json.encode(value).decode() for value in values]
        return pa.array(texts, pa.string())
    if _is_struct(kind):
        return _structs(kind, values)
    if get_origin(kind) is list:
        return _lists(column, values)
    if get_origin(kind) is dict:
        return pa.array([None if value is None else list(value.items()) for value in values], data_type(kind))
    array = pa.array(values, data_type(kind))
    return array if column.null is None else _without(array, column.null)


def _without(array: pa.Array, null: Any) -> pa.Array:
    """The array with null where it has the value `null`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.equal(array, null), pa.scalar(None, array.type), array)


def _milliseconds(moment: int | str | None) -> int | None:
    """A moment as Unix milliseconds. None for a text that is empty or no time: Spark's text is recorded as it is."""
    if not isinstance(moment, str):
        return moment
    try:
        time = from_text(moment)
    except ValueError:
        return None
    return round(time.timestamp() * 1000)


def _structs(kind: type[msgspec.Struct], values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    columns = columns_of(kind)
    arrays = [
        to_array(each, [None if value is None else getattr(value, each.field) for value in values]) for each in columns
    ]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(data_type(kind)), mask=mask)


def _lists(column: RecordColumn, values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value or ()))
    items = RecordColumn(column.name, column.field, _kind(get_args(column.kind)[-1]))
    flat = to_array(items, [item for value in values for item in value or ()])
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat, type=data_type(column.kind), mask=mask)
