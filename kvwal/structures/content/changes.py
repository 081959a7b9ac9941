"""Changes of names as transactions, for the contents of threads and those of tasks."""

from __future__ import annotations

from collections.abc import Callable

from kvwal.content.claim import claim_of
from kvwal.entry import Entry
from kvwal.log.submission import Completion, Decide, GroupView, Submission
from kvwal.structures.business import Business
from kvwal.structures.content.names import MOST_ATTRIBUTES, MOST_NAME, put_entry
from kvwal.structures.transaction import submission_of

Change = Callable[[Entry], Entry]
"""Makes the new entry of a name from an entry that is there."""
_ROOM_BYTES = MOST_NAME + 2 * MOST_ATTRIBUTES
"""More bytes than a change of a name adds to the entry that it changes."""


class NameChanges:
    """Builds the transactions of one structure of contents. `future` gets whether a transaction was written."""

    def __init__(self, business: Business, key_class: str) -> None:
        self._business = business
        self._key_class = key_class

    def logged(self, entry: Entry, future: Completion) -> Submission:
        """A transaction of one entry. It counts as decided in the order of the log: see `Writer._format`."""
        return submission_of(self._business, [entry], future, lambda group: [entry])

    def changed(self, found: Entry, change: Change, made: list[Entry], future: Completion) -> Submission:
        """A change of what is under the name of `found`, in the order of the log. What is written is in `made` then."""

        def decide(group: GroupView) -> list[Entry]:
            entry = group.lookup(self._key_class, found.key)
            made[:] = [] if entry is None else [change(entry)]
            return made

        bound = Entry(found.key, self._key_class, found.value + bytes(_ROOM_BYTES), found.value_class, False, 0)
        return submission_of(self._business, [bound], future, decide)

    def replaced(self, found: Entry, made: Entry, future: Completion) -> Submission:
        """A transaction of `made`, unless the name has another entry than `found` meanwhile."""
        return submission_of(self._business, [made], future, unless_changed(found, made))

    def to_name(self, key: bytes) -> Change:
        """The change that gives the bytes of an entry another name."""
        return lambda entry: put_entry(self._key_class, key, claim_of(entry))

    def with_attributes(self, attributes: dict[str, str]) -> Change:
        """The change that gives an entry other attributes."""

        def change(entry: Entry) -> Entry:
            return put_entry(self._key_class, entry.key, claim_of(entry).told(attributes))

        return change


def unless_changed(found: Entry, made: Entry) -> Decide:
    """The decision to log `made`, unless the name has another entry than `found` meanwhile."""

    def decide(group: GroupView) -> list[Entry]:
        latest = group.lookup(found.key_class, found.key)
        return [made] if latest is not None and latest.value == found.value else []

    return decide
