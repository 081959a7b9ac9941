"""The events of a transaction, made by the log writer in the order of the log: after it was decided, before it is written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

from kvwal.entry import Entry
from kvwal.log.submission import GroupView
from kvwal.structures.provenance.kinds import NEW_KEYS, Rule, rule_of
from kvwal.structures.provenance.record import EXPIRE, RECEIVE, REPLAY, Record, entries_of
from kvwal.structures.provenance.said import NOTES, Said, as_stored, take_notes

_class_of = attrgetter("key_class")
_is_delete = attrgetter("deleted")
_MOST_CLASSES = 1_000


class Deriver:
    """Adds the events to each transaction of a business. `node` is that of the log."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._rules: dict[str, Rule | None] = {}

    def __call__(self, entries: list[Entry], view: GroupView) -> list[Entry]:
        """The transaction with its events, and without its notes. See `kvwal.log.submission.Derive`."""
        timestamp = entries[0].timestamp
        if len(entries) == 1 and entries[0].key_class != NOTES:
            records = self._change(entries[0], view)
            return entries + entries_of(records, timestamp, self._node) if records else entries
        if NOTES not in [entry.key_class for entry in entries]:
            records = self._changes(entries, view)
            return entries + entries_of(records, timestamp, self._node) if records else entries
        changes, (component, said) = take_notes(entries)
        replays = any(each.type == REPLAY for each in said)
        records = [] if replays or not changes else self._changes(changes, view)
        records += [_said(each, changes, view) for each in said]
        for record in records:
            record.component = component
        logged = changes + entries_of(records, timestamp, self._node)
        return logged or entries  # a transaction is never empty

    def _change(self, entry: Entry, view: GroupView) -> list[Record]:
        """As `_changes`, of a transaction of one entry: most are."""
        rule = self._rule(entry.key_class)
        return [] if rule is None else rule([view.lookup(entry.key_class, entry.key)], [entry])

    def _changes(self, entries: list[Entry], view: GroupView) -> list[Record]:
        by_rule: dict[Rule, tuple[list[Entry | None], list[Entry]]] = {}
        for key_class, same in groupby(entries, key=_class_of):
            rule = self._rule(key_class)
            if rule is not None:
                run = list(same)
                before, logged = by_rule.setdefault(rule, ([], []))
                is_new = rule in NEW_KEYS and not any(map(_is_delete, run))
                before += [None] * len(run) if is_new else view.latest(run)
                logged += run
        return [record for rule, changes in by_rule.items() for record in rule(*changes)]

    def _rule(self, key_class: str) -> Rule | None:
        try:
            return self._rules[key_class]
        except KeyError:
            if len(self._rules) >= _MOST_CLASSES:
                self._rules.clear()
            rule = self._rules[key_class] = rule_of(key_class)
            return rule


def _said(said: Said, changes: list[Entry], view: GroupView) -> Record:
    """The record of an event that a program says. An item that the transaction puts is there, and one that it takes, too."""
    was = [as_stored(entry) for entry in said.was]
    if said.type == EXPIRE:
        return Record(EXPIRE, True, was, [])
    if said.type == REPLAY:
        return Record(REPLAY, False, was, [entry for entry in changes if not entry.deleted], "", said.details)
    item = next(_of_identity(said, changes), None) or view.lookup(said.key_class, said.key)
    there = [item or Entry(said.key, said.key_class, b"", "", True, 0)]
    return Record(said.type, False, [] if said.type == RECEIVE else there, there, "", said.details)


def _of_identity(said: Said, changes: list[Entry]) -> Iterator[Entry]:
    """The entry that the transaction puts for the item."""
    return (each for each in changes if (each.key, each.key_class) == (said.key, said.key_class) and not each.deleted)
