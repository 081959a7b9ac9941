"""The names of the tables of SQL, and which of them a statement means.

DuckDB ignores the case of names, and a store does not. A statement reads the table whose name it has exactly. Only tables that it
names are made, so two names that differ in case only are in each other's way only where one statement has both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.history.reads.structure_rows import is_selection
from kvwal.key_class import OWN_MAP, PROVENANCE
from kvwal.sql.rows import HISTORY
from kvwal.sql.typed import TypedTable, typed_tables

MAIN, HISTORIES, TYPED = "main", "history", "typed"
"""Schemas. `history` and `typed` have each history and typed table, also one whose name in `main` is that of a business."""


class TableKind(Enum):
    """What the rows of a table are."""

    LATEST = "latest"
    CHANGES = "changes"
    STRUCTURE = "latest of a structure beside the map"
    TYPED = "typed"
    EVENTS = "events of provenance"


class TableName(NamedTuple):
    """A table as statements name it. `hidden`: its name in the schema `main` is that of a business."""

    schema: str
    name: str
    business: str
    kind: TableKind
    hidden: bool = False
    typed: TypedTable | None = None
    structure: str = OWN_MAP

    @property
    def text(self) -> str:
        """The name as a statement may write it."""
        return f'"{self.name}"' if self.schema == MAIN else f'{self.schema}."{self.name}"'

    def is_mentioned(self, statement: str) -> bool:
        """Whether the statement has this name as whole words, in any case."""
        return self._is_in(statement, re.IGNORECASE)

    def is_mentioned_exactly(self, statement: str) -> bool:
        """Whether the statement has this name as whole words."""
        return self._is_in(statement, re.NOFLAG)

    def _is_in(self, statement: str, flags: re.RegexFlag) -> bool:
        if self.name.lower() not in statement.lower():  # there may be thousands of names
            return False
        schema = "" if self.schema == MAIN else rf"(?i:{self.schema})\"?\s*\.\s*\"?"
        return re.search(rf"(?<!\w){schema}{re.escape(self.name)}(?!\w)", statement, flags) is not None


def table_names(businesses: Sequence[str]) -> list[TableName]:
    """The names of all tables of these businesses. A business hides a history, or a typed table, of the same name."""
    names = [TableName(MAIN, business, business, TableKind.LATEST) for business in businesses]
    for business in businesses:
        names += _both(
            HISTORIES, business, TableName(MAIN, business + HISTORY, business, TableKind.CHANGES), businesses
        )
        for name, table in typed_tables(business).items():
            names += _both(TYPED, name, TableName(MAIN, name, business, TableKind.TYPED, typed=table), businesses)
    return names


def structure_tables(businesses: Sequence[str], written: Iterable[str]) -> list[TableName]:
    """The tables of structures beside the maps, of those names that a statement has: `"<business>/<structure>"`, and with
    `_history` after it. `"<business>/queue/*"` has all queues, and `"<business>/provenance"` the events.
    """
    tables = []
    for name in written:
        business, _, named = name.partition("/")
        structure = named.removesuffix(HISTORY)
        if business in businesses and named == PROVENANCE:
            tables.append(TableName(MAIN, name, business, TableKind.EVENTS))
        if business in businesses and is_selection(structure):
            kind = TableKind.STRUCTURE if structure == named else TableKind.CHANGES
            tables.append(TableName(MAIN, name, business, kind, structure=structure))
    return tables


def _both(schema: str, name: str, short: TableName, businesses: Sequence[str]) -> Iterator[TableName]:
    """The name in the schema of its own, and the short name, unless that is the name of a business."""
    hidden = short.name in businesses
    yield short._replace(schema=schema, name=name, hidden=hidden)
    if not hidden:
        yield short


def wanted(names: Iterable[TableName], statement: str, written: frozenset[str] | None) -> list[TableName]:
    """The tables that a statement reads. `written` has the names of tables in it, if DuckDB could tell them.

    Raises `ConfigError` where a name may be that of two tables.
    """
    groups: dict[tuple[str, str], list[TableName]] = {}
    for table in names:
        if table.is_mentioned(statement):
            groups.setdefault((table.schema, table.name.lower()), []).append(table)
    return [
        table
        for group in groups.values()
        for table in (group if len(group) == 1 else _exact(group, statement, written))
    ]


def _exact(group: Sequence[TableName], statement: str, written: frozenset[str] | None) -> list[TableName]:
    """Of tables whose names differ in case only, the one whose name is written exactly; none if the statement reads none."""
    lower = group[0].name.lower()
    names = sorted(table.name for table in group)
    if written is None:
        exact = [table for table in group if table.is_mentioned_exactly(statement)]
        other = set() if exact else {lower}
    else:
        exact = [table for table in group if table.name in written]
        other = {name for name in written if name.lower() == lower} - set(names)
    if other:
        raise ConfigError(
            f"{other.pop()} may be {' or '.join(names)}: their names differ in case only.",
            hint="Write the one you mean exactly; nothing was run.",
        )
    if len(exact) > 1:
        both = " and ".join(sorted(table.name for table in exact))
        raise ConfigError(
            f"the SQL names {both}, and DuckDB does not tell names apart by their case.",
            hint="Read them by one statement each; nothing was run.",
        )
    return exact


def hidden_by(table: TableName, names: Iterable[TableName]) -> list[str]:
    """A sentence for each table that this business hides."""
    if table.kind is not TableKind.LATEST:
        return []
    return [
        f"{table.name} is the map of that name. The {what} of {other.business} is the table {other.text}."
        for other in names
        for short, what in [
            (other.business + HISTORY, "history") if other.kind is TableKind.CHANGES else (other.name, "typed table")
        ]
        if other.hidden and short == table.name
    ]


def placed(names: Iterable[TableName]) -> list[tuple[str, TableName]]:
    """Names to list, each with the schema in which DuckDB can list it: a schema has one of the names that differ in case only."""
    counts: dict[tuple[str, str], int] = {}
    places = []
    for table in names:
        if table.schema == MAIN or table.hidden:
            key = (table.schema, table.name.lower())
            counts[key] = counts.get(key, 0) + 1
            places.append((table.schema if counts[key] == 1 else f"{table.schema}_{counts[key]}", table))
    return places
