"""How the changes of a kind of structure become events: one function for each kind.

A function gets the changes of a transaction in all structures of its kind: what each item was before, None if it was absent, and
the entry that is logged of it, which may be a delete. A new kind of structure adds its function to `RULES`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from kvwal.content.claim import same_value, value_mark
from kvwal.entry import Entry
from kvwal.key_class import CONTENT as CONTENTS
from kvwal.key_class import DROPPED, OWN_MAP, QUEUE, kind_of, structure_of
from kvwal.structures.provenance.contents import changes_of_contents
from kvwal.structures.provenance.record import (
    ATTRIBUTES,
    CLONE,
    CONTENT,
    CREATE,
    DROP,
    FORK,
    JOIN,
    ROUTE,
    Record,
)
from kvwal.structures.queue.positions import is_item

Content: TypeAlias = tuple[str, bytes]
"""What an item has: the class and the bytes of its value."""
Rule: TypeAlias = Callable[[Sequence[Entry | None], Sequence[Entry]], list[Record]]


def changes_of_map(before: Sequence[Entry | None], logged: Sequence[Entry]) -> list[Record]:
    """The events of a map: each key is an item of its own."""
    if not any(before):
        created = [entry for entry in logged if not entry.deleted]
        return [Record(CREATE, True, [], created)] if created else []
    by_type: dict[str, Record] = {}
    for old, new in zip(before, logged, strict=True):
        if old is None and new.deleted:
            continue
        if old is None:
            name = CREATE
        elif new.deleted:
            name = DROP
        else:
            name = ATTRIBUTES if same_value(old, new) else CONTENT
        record = by_type.get(name)
        if record is None:
            record = by_type[name] = Record(name, True, [], [])
        if old is not None:
            record.before.append(old)
        if not new.deleted:
            record.after.append(new)
    return list(by_type.values())


def changes_of_queues(before: Sequence[Entry | None], logged: Sequence[Entry]) -> list[Record]:
    """The events of queues: what a transaction took is what became of it in the same transaction.

    An item that is put again as it was is routed, or cloned if it is put several times. Of the others, one that was taken became
    those that were put (fork), and several became the one (join); as many as were taken became these, in their order.
    """
    taken = [old for old, new in zip(before, logged, strict=True) if new.deleted and old is not None]
    put = [entry for entry in logged if not entry.deleted]
    if not taken or not put:
        return [Record(CREATE, True, [], put)] if put else [Record(DROP, True, taken, [])] if taken else []
    records, taken, put = _same_again(taken, put)
    if not taken:
        return records + ([Record(CREATE, True, [], put)] if put else [])
    if not put:
        return [*records, Record(DROP, True, taken, [])]
    if len(taken) == len(put):
        return [*records, Record(CONTENT, True, taken, put)]
    return [*records, Record(FORK if len(put) > len(taken) else JOIN, False, taken, put)]


def _same_again(taken: list[Entry], put: list[Entry]) -> tuple[list[Record], list[Entry], list[Entry]]:
    """The records of items that are put again as they were; and the others, that were taken and put."""
    puts: dict[Content, deque[Entry]] = {}
    for entry in put:
        puts.setdefault(_content(entry), deque()).append(entry)
    left = Counter(map(_content, taken))
    routed: tuple[list[Entry], list[Entry]] = ([], [])
    clones, others = list[Record](), list[Entry]()
    for entry in taken:
        same = puts.get(_content(entry))
        left[_content(entry)] -= 1
        if not same:
            others.append(entry)
        elif left[_content(entry)] or len(same) == 1:
            routed[0].append(entry)
            routed[1].append(same.popleft())
        else:  # the last item of this content became all that are left
            clones.append(Record(CLONE, False, [entry], list(same)))
            same.clear()
    records = ([Record(ROUTE, True, *routed)] if routed[0] else []) + clones
    new = {id(entry) for same in puts.values() for entry in same}
    return records, others, [entry for entry in put if id(entry) in new]


def _content(entry: Entry) -> Content:
    return value_mark(entry)


RULES: dict[str, Rule] = {
    OWN_MAP: changes_of_map, "map": changes_of_map, QUEUE: changes_of_queues, CONTENTS: changes_of_contents,
}  # fmt: skip
"""By kind of structure: how its changes become events. Entries of other kinds are none."""


NEW_KEYS = frozenset({changes_of_queues})
"""The rules of kinds whose puts always have new keys: what was there before is not looked up."""


def rule_of(key_class: str) -> Rule | None:
    """The rule for entries of a class, None if their changes are no events: options, deliveries, and kvwal's own entries."""
    structure = structure_of(key_class)
    kind = kind_of(structure)
    if kind == QUEUE and not is_item(key_class):
        return None
    return None if key_class == DROPPED else RULES.get(kind)
