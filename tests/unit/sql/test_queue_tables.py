"""Tables of queues in SQL: each item a row with its structure, priority and position, from a store, its files and its archive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kvwal
from kvwal import codecs
from kvwal.structures.queue.positions import LAST_POSITION, key_of, place_of
from tests.support.cli import kvwal as command

PLACED = 'SELECT structure, priority, position, value FROM "work/{}" ORDER BY structure, priority, position'
TYPES = {"structure": "VARCHAR", "priority": "INTEGER", "position": "BIGINT", "value": "JSON", "timestamp": "BIGINT"}


class Filled(NamedTuple):
    """A store with queues, some of whose items are taken; a part of it is archived. `rows` are the items left."""

    root: Path
    archive: Path
    rows: list[tuple[str, int, int, str]]


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    root, archive = tmp_path / "root", tmp_path / "archive"
    with kvwal.open(root, archive=archive) as store:
        work = store.business("work")
        work.map()["a"] = 1
        work.map("queue").put("a key", 2)
        queues = {name: work.queue(name) for name in ("", "todo", "todo2")}
        for priority in (0, -16, 15, -1):
            for name, queue in queues.items():
                queue.put_many([f"{name} {priority}", {"n": priority}], priority=priority)
        store.checkpoint()
        assert queues["todo"].take() == "todo -16"
        store.archive()
        queues["todo"].put("late", priority=-16)
        assert queues["todo2"].take_many(3) == ["todo2 -16", {"n": -16}, "todo2 -1"]
        rows = [
            (
                f"queue/{name}" if name else "queue",
                item.priority,
                item.position,
                json.dumps(item.value, separators=(",", ":")),
            )
            for name, queue in queues.items()
            for item in queue.items()
        ]
        store.archive()
    return Filled(root, archive, sorted(rows))


def answer(location: Path, statement: str) -> list[Any]:
    """The rows of the command's answer, each a list of the values in it."""
    ran = command("query", location, statement, "--format", "json")
    assert ran.code == 0, ran.err
    return [list(json.loads(line).values()) for line in ran.out.splitlines()]


@pytest.fixture(params=["open", "files", "archive"])
def rows(request: pytest.FixtureRequest, filled: Filled) -> Iterator[Any]:
    """A function that gives the rows of a statement."""
    if request.param == "archive":
        yield lambda statement: answer(filled.archive, statement)
        return
    with kvwal.open(filled.root, archive=filled.archive, read_only=request.param == "files") as store:
        yield lambda statement: [list(row.values()) for row in store.sql(statement).to_pylist()]


def plain(found: list[list[Any]]) -> list[tuple[str, int, int, Any]]:
    """Rows of `PLACED`. The command prints a number above 2^53 as text, and a value as JSON."""
    return [
        (structure, int(priority), int(position), value if isinstance(value, str) else json.dumps(value))
        for structure, priority, position, value in found
    ]


def expected(filled: Filled, *structures: str) -> list[tuple[str, int, int, Any]]:
    return [row for row in filled.rows if row[0] in structures]


def same(found: list[Any], wanted: list[Any]) -> bool:
    return [(*row[:3], text(row[3])) for row in found] == [(*row[:3], text(row[3])) for row in wanted]


def text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def test_a_queue_is_a_table_of_its_items(filled: Filled, rows: Any) -> None:
    for structure in ("queue", "queue/todo", "queue/todo2"):
        assert same(plain(rows(PLACED.format(structure))), expected(filled, structure))
    assert same(plain(rows(PLACED.format("queue/*"))), filled.rows)
    assert rows('SELECT count(*) FROM "work/queue/other"') == [[0]]


def test_places_in_a_condition_are_those_of_the_key(filled: Filled, rows: Any) -> None:
    todo = expected(filled, "queue/todo")
    _, _, middle, _ = todo[len(todo) // 2]
    for condition, holds in (
        ("priority < 0", lambda row: row[1] < 0),
        (f"position >= {middle}", lambda row: row[2] >= middle),
        (f"priority = 15 AND position <> {middle}", lambda row: row[1] == 15 and row[2] != middle),
    ):
        found = rows(PLACED.format("queue/todo").replace("ORDER", f"WHERE {condition} ORDER"))
        assert same(plain(found), [row for row in todo if holds(row)]), condition
    keys = rows('SELECT key, priority * 288230376151711744 + position FROM "work/queue/*"')
    assert len(keys) == len(filled.rows)
    assert all(int(key) == int(number) for key, number in keys)


def test_the_history_has_puts_and_takes(filled: Filled, rows: Any) -> None:
    found = rows(
        'SELECT priority, deleted, value FROM "work/queue/todo2_history" ORDER BY priority, position, timestamp'
    )
    assert [(priority, gone) for priority, gone, _ in found] == [
        (-16, False), (-16, True), (-16, False), (-16, True), (-1, False), (-1, True), (-1, False),
        (0, False), (0, False), (15, False), (15, False),
    ]  # fmt: skip
    assert all((value is None) is gone for _, gone, value in found)
    [[together]] = rows('SELECT count(*) FROM "work/queue/*_history"')
    assert together == 8 * 3 + 1 + 1 + 3


def test_the_columns_have_their_types_and_maps_have_none_of_them(filled: Filled) -> None:
    with kvwal.open(filled.root, archive=filled.archive) as store:
        table = store.sql('DESCRIBE "work/queue/todo"').to_pylist()
        found = {row["column_name"]: row["column_type"] for row in table}
        assert TYPES.items() <= found.items()
        assert {"time", "expires", "key", "raw"} <= found.keys()
        for name in ("work", "work/map/queue", "work_history"):
            columns = {row["column_name"] for row in store.sql(f'DESCRIBE "{name}"').to_pylist()}
            assert not columns & {"structure", "priority", "position"}
        with pytest.raises(kvwal.ConfigError, match="work/queue/a:b"):
            store.sql('FROM "work/queue/a:b"')
        with pytest.raises(kvwal.ConfigError, match="work/map/"):
            store.sql('FROM "work/map/*"')


def test_an_item_whose_codec_is_not_here_has_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        queue = store.queue("work")
        with monkeypatch.context() as other:
            codec = codecs.registry.by_name["int"]._replace(name="own")
            other.setitem(codecs.registry.by_type, int, codec)
            queue.put(5, priority=-2)
        found = store.sql('SELECT priority, value, raw, value_class FROM "work/queue"').to_pylist()
        assert found == [{"priority": -2, "value": None, "raw": b"\x81\x05", "value_class": "own"}]


def test_a_place_of_any_size_has_its_priority_and_position() -> None:
    """Positions of a clock near 1970 have fewer bytes, and so have those of negative priorities near the end of time."""
    for priority in (-16, -1, 0, 15):
        for position in (0, 1, 255, 1 << 40, LAST_POSITION - 1, LAST_POSITION):
            assert place_of(codecs.registry.decode_key(key_of(priority, position), "int")) == (priority, position)


def test_an_earlier_moment_has_the_items_of_then(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        queue = store.business("work").queue("todo")
        queue.put("a", priority=2)
        then = queue.put("b", priority=-2)
        assert queue.take() == "b"
        now = queue.put("c")
    statement = "SELECT priority, value->>'$' AS item FROM \"work/queue/*\" ORDER BY priority, position"
    for moment, expected in ((then, [[-2, "b"], [2, "a"]]), (now, [[0, "c"], [2, "a"]])):
        ran = command("query", tmp_path, statement, "--at", moment, "--format", "json")
        assert ran.code == 0, ran.err
        assert [list(json.loads(line).values()) for line in ran.out.splitlines()] == expected


def test_the_items_of_several_nodes_are_read_together(tmp_path: Path) -> None:
    for node in ("n1", "n2"):
        with kvwal.open(tmp_path / "root", node=node, archive=tmp_path / "archive") as store:
            store.queue("work").put_many([f"{node} {number}" for number in range(3)], priority=-1)
            assert store.queue("work").take() == f"{node} 0"
            store.archive()
    expected = [[f"n{node} {number}", -1] for node in (1, 2) for number in (1, 2)]
    statement = "SELECT value->>'$' AS item, priority FROM \"work/queue\" ORDER BY item"
    for location in (tmp_path / "root", tmp_path / "archive"):
        assert answer(location, statement) == expected
