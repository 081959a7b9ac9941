"""The provenance of a business: what happened to the items of its maps and queues, searched, followed and replayed."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kvwal.entry import Entry
from kvwal.errors import ConfigError
from kvwal.log.submission import GroupView
from kvwal.log.waiter import Waiter
from kvwal.structures.business import LocalBusiness
from kvwal.structures.provenance.event import Event
from kvwal.structures.provenance.questions import EventQuestions, identity_of
from kvwal.structures.provenance.record import BY_HAND
from kvwal.structures.provenance.replay import replay
from kvwal.structures.provenance.said import Said, said_note
from kvwal.structures.provenance.state import (
    OPTIONS,
    OPTIONS_KEY,
    ProvenanceOptions,
    ProvenanceState,
    checked_options,
    options_entry,
    options_of,
)
from kvwal.structures.transaction import commit, submission_of


class Provenance(EventQuestions):
    """The events of a business: one for each change of an item of its maps and queues, in the transaction of the change.

    Any number of threads may use it. Events are read from the files of the log.
    """

    def __init__(self, business: LocalBusiness, store: object = None) -> None:
        super().__init__(business)
        self._business = business
        self._store = store

    def __repr__(self) -> str:
        return f"<Provenance of {self._business.name!r}{f' of {self._store!r}' if self._store else ''}>"

    def send(self, key: Any, to: str, *, of: str = "", **details: str) -> int:
        """Say that an item was sent to an address. Returns the timestamp of the event."""
        return self.record("send", key, of=of, to=to, **details)

    def receive(self, key: Any, source: str, *, of: str = "", **details: str) -> int:
        """Say that an item was received from an address. Returns the timestamp of the event."""
        return self.record("receive", key, of=of, source=source, **details)

    def record(self, type: str, key: Any, *, of: str = "", **details: str) -> int:
        """Say what is no change: `send`, `receive` or `fetch`. In a transaction: `t.record(…)`."""
        return commit(self._business, [said_of(self._business, type, key, of, details, 0)])

    def replay(self, event: Event) -> int:
        """Put the item back as it was before the event, or after it if it was new: into its queue, or under its key.

        Returns the timestamp. Raises `ContentGone` if the value is nowhere any more; nothing is put then.
        """
        return replay(self._business, event)

    def options(self) -> ProvenanceOptions:
        """Whether events are made, and how long they are kept."""
        state: ProvenanceState = self._business.state_of("provenance")
        return state.options

    def set_options(
        self,
        *,
        on: bool | UnsetType = UNSET,
        keep_seconds: float | UnsetType | None = UNSET,
        keep_bytes: int | UnsetType | None = UNSET,
    ) -> ProvenanceOptions:
        """Store these options, and return all: see `ProvenanceOptions`. They hold for every program that opens the store.

        Changes that begin after the return have events, or have none any more. Raises `ConfigError`.
        """
        given = {"on": on, "keep_seconds": keep_seconds, "keep_bytes": keep_bytes}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not UNSET}
        checked_options(replace(ProvenanceOptions(), **changes))

        def decide(group: GroupView) -> list[Entry]:
            stored = options_of(group.lookup(OPTIONS, OPTIONS_KEY))
            changed = replace(stored, **changes)
            return [] if changed == stored else [options_entry(changed)]

        waiter = Waiter()
        self._business.submit(submission_of(self._business, [], waiter, decide), waits=True)
        waiter.result()
        return self.options()


def switched_on(provenance: Provenance) -> Provenance:
    """The provenance, switched on."""
    provenance.set_options(on=True)
    return provenance


def said_of(
    business: LocalBusiness, type: str, key: Any, structure: str, details: dict[str, Any], number: int
) -> Entry:
    """The note of an event that a program says. Raises `ConfigError`."""
    if type not in BY_HAND:
        raise ConfigError(
            f"{type!r} is no event that a program says; nothing was written.",
            hint=f"There are: {', '.join(BY_HAND)}. The others come with the changes themselves.",
        )
    wrong = [name for name, value in details.items() if not isinstance(value, str)]
    if wrong:
        raise ConfigError(f"{wrong[0]}={details[wrong[0]]!r} must be text; nothing was written.")
    return said_note(Said(type, *identity_of(business, structure, key), details), number)
