"""The values that a filter of pyarrow leaves for a column: so a reader can leave out the keys of all other rows.

DuckDB gives a dataset its conditions as an expression of pyarrow, which has no methods to look inside. Its serialized form, as
pickle uses it, has the nodes of the expression in the metadata of a batch, and the constants in the columns of the batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

Values = dict[str, frozenset[Any]]
"""By column: a row that the filter accepts has one of these values."""
_LINE = re.compile(r"^(\w+): '([^']*)'$", re.MULTILINE)


class _Node(NamedTuple):
    """A part of an expression: a call with its arguments and options, a column (`field_ref`), or a constant (`literal`)."""

    kind: str
    value: Any
    arguments: list[_Node]
    options: Any = None


def possible_values(filter: Any) -> Values:
    """The columns for which the filter says that they equal one of some values, with these values.

    Other columns, and other conditions, are left out. None, for no filter, has none.
    """
    if filter is None:
        return {}
    import pyarrow as pa

    _, (serialized, *_) = filter.__reduce__()
    with pa.ipc.open_file(serialized) as file:
        batch = file.get_batch(0)
    text = batch.schema.to_string(truncate_metadata=False, show_field_metadata=False)
    tokens = iter(_LINE.findall(text.partition("-- schema metadata --")[2]))
    try:
        return _values(_node(next(tokens), tokens, batch))
    except (StopIteration, KeyError, IndexError, ValueError):
        return {}  # a later version of pyarrow writes another form


def _node(token: tuple[str, str], tokens: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> _Node:
    kind, value = token
    if kind == "literal":
        return _Node(kind, batch.column(int(value))[0].as_py(), [])
    if kind == "field_ref":
        return _Node(kind, value, [])
    if kind == "nested_field_ref":  # a field of a struct: so many names follow
        for _ in range(int(value)):
            next(tokens)
        return _Node(kind, None, [])
    if kind != "call":
        raise ValueError(kind)
    arguments, options = [], None
    while (token := next(tokens))[0] != "end":
        if token[0] == "options":
            options = batch.column(int(token[1]))[0].as_py()
        else:
            arguments.append(_node(token, tokens, batch))
    return _Node(kind, value, arguments, options)


def _values(node: _Node) -> Values:
    if node.kind != "call":
        return {}
    if node.value in ("and", "and_kleene"):
        return _all_hold(*map(_values, node.arguments))
    if node.value in ("or", "or_kleene"):
        return _one_holds(*map(_values, node.arguments))
    if node.value == "if_else":  # DuckDB: if x is there, then it is in the list, else null
        _, then, other = node.arguments
        return _values(then) if other.kind == "literal" and not other.value else {}
    if node.value == "equal":
        sides = {side.kind: side.value for side in node.arguments}
        return {sides["field_ref"]: frozenset([sides["literal"]])} if sides.keys() == {"field_ref", "literal"} else {}
    if node.value == "is_in" and node.arguments[0].kind == "field_ref":
        return {node.arguments[0].value: frozenset(node.options["value_set"])}
    return {}


def _all_hold(left: Values, right: Values) -> Values:
    both = {name: left[name] & right[name] for name in left.keys() & right.keys()}
    return {**left, **right, **both}


def _one_holds(left: Values, right: Values) -> Values:
    return {name: left[name] | right[name] for name in left.keys() & right.keys()}
