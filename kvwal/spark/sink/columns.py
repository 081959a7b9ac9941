"""The columns of a write: which of them are the key, the value, its fields, and the flag of a delete."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import types

from kvwal.errors import ConfigError
from kvwal.spark.values import value_columns

_INTEGERS = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
_KEYS = (types.StringType, types.BinaryType, types.BooleanType, types.FloatType, types.DoubleType, *_INTEGERS)
_VALUES = (types.StringType, types.BinaryType)
_OF_THE_LOG = ("timestamp", "node", "sequence")
"""Columns of a read that a write leaves out: the store gives each change its own."""
DELETED = "deleted"


class WriteColumns(NamedTuple):
    """The columns of a write. `fields` are fields of the value, if there is no column `value`. `deleted` is empty if no row can
    be a delete."""

    key_class: bool
    value: bool
    value_class: bool
    deleted: str
    fields: tuple[str, ...]


def write_columns(schema: types.StructType, deleted: str) -> WriteColumns:
    """The columns of rows with this schema. `deleted` is the option of that name.

    Raises ConfigError if there is no key, if a column has a type that cannot be stored, or if a column would be lost.
    """
    kinds = {field.name: field.dataType for field in schema}
    if "key" not in kinds:
        raise _error(f"the rows have no column 'key' (there are: {', '.join(kinds) or 'none'})", "Rename the key.")
    flag = deleted or (DELETED if DELETED in kinds else "")
    if flag and flag not in kinds:
        raise _error(
            f"the option 'deleted' names the column {flag!r}, and the rows have none of that name", "Correct it."
        )
    own = {"key", "key_class", "value", "value_class", flag, *_OF_THE_LOG}
    fields = tuple(name for name in kinds if name not in own)
    _check_types(kinds, flag)
    if "value" in kinds and fields:
        raise _error(
            f"the column {fields[0]!r} would be lost, because the rows have a column 'value' too",
            "Leave one of them out: without 'value', the other columns become the fields of a JSON object.",
        )
    if "value" not in kinds and "value_class" in kinds:
        raise _error("the rows have a column 'value_class' and no column 'value'", "Leave it out, or add 'value'.")
    if "value" not in kinds and not fields and not flag:
        raise _error("the rows have a key and nothing else", "Add a column 'value', or columns for its fields.")
    value_columns(types.StructType([field for field in schema if field.name in fields]), types.StructType(), "fail")
    return WriteColumns("key_class" in kinds, "value" in kinds, "value_class" in kinds, flag, fields)


def _check_types(kinds: dict[str, types.DataType], flag: str) -> None:
    key = (types.StringType,) if "key_class" in kinds else _KEYS
    wanted = {"key": key, "value": _VALUES, "key_class": (types.StringType,), "value_class": (types.StringType,)}
    for name, allowed in {**wanted, flag: (types.BooleanType,)}.items():
        kind = kinds.get(name)
        if kind is not None and not isinstance(kind, allowed):
            beside = " beside 'key_class'" if name == "key" and "key_class" in kinds else ""
            names = ", ".join(one.typeName().upper() for one in allowed)
            raise _error(f"the column {name!r}{beside} is {kind.simpleString().upper()}", f"It can be {names}.")


def _error(sentence: str, hint: str) -> ConfigError:
    return ConfigError(f"format kvwal: {sentence}; nothing was written.", hint=hint)
