"""A store that is careless with the bytes of large values, on purpose: some seed must notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvwal.content import named
from kvwal.content.claim import is_content
from kvwal.content.files import ContentFiles
from kvwal.entry import Entry, is_claimed
from kvwal.store.aio.queue import Queue
from kvwal.store.contents.care import ContentCare
from kvwal.structures.map.conditions import Expected
from kvwal.values.moved import MovedValues
from tests.simulation.run import is_noticed


def collects_values(patch: pytest.MonkeyPatch) -> None:
    """The cleaner and the archive ask only contents for the files that they name."""
    patch.setattr(named, "has_claim", lambda entry: not entry.deleted and is_content(entry.key_class))


def reads_contents_of_snapshots_only(patch: pytest.MonkeyPatch) -> None:
    """Of a snapshot only the contents are asked for files."""
    patch.setattr(named, "claims_range", lambda format: named.CONTENT_RANGE)


def never_settles(patch: pytest.MonkeyPatch) -> None:
    """A claim file of a large value is in use for ever."""
    patch.setattr(MovedValues, "over", lambda moved, error: None)


def settles_nothing_of_the_refused(patch: pytest.MonkeyPatch) -> None:
    """The bytes of a large value stay in use if its transaction is withdrawn or refused."""
    over = MovedValues.over

    def kept(moved: MovedValues, error: BaseException | None) -> None:
        if error is None:
            over(moved, error)

    patch.setattr(MovedValues, "over", kept)


def takes_what_it_cannot_read(patch: pytest.MonkeyPatch) -> None:
    """A take of an item whose bytes cannot be read has taken it."""

    async def taken(queue: Queue, most: int) -> list[Any]:
        held, _ = await queue._take(most)
        return await queue._values(held.entries)

    patch.setattr(Queue, "_take_values", taken)


def restores_claims_alone(patch: pytest.MonkeyPatch) -> None:
    """A restore brings the claims of large values, and not their bytes."""
    patch.setattr("kvwal.history.restore.restore._fetch_values", lambda *given: None)


def believes_damaged_bytes(patch: pytest.MonkeyPatch) -> None:
    """Bytes that are read are compared with nothing."""

    def told(source: Any, what: str, claim: Any) -> bytes:
        return bytes(source.part(what, claim, 0, claim.length))

    patch.setattr("kvwal.content.source.ContentSource.check", told)


def compares_nothing(patch: pytest.MonkeyPatch) -> None:
    """A condition takes a large value for the one that it wants."""
    is_equal = Expected.is_value_of

    def is_value_of(expected: Expected, entry: Entry | None) -> bool:
        if entry is None or not is_claimed(entry.value_class):
            return is_equal(expected, entry)
        return True

    patch.setattr(Expected, "is_value_of", is_value_of)


def moves_over_changes(patch: pytest.MonkeyPatch) -> None:
    """What is left of a sparse claim file is logged again also where the key has another value meanwhile."""
    patch.setattr("kvwal.store.contents.care.unless_changed", lambda entry, made: lambda group: [made])


def forgets_what_is_kept(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint that lists no claim files cleans all the same."""
    list_them = ContentCare.candidates

    async def candidates(care: ContentCare) -> Any:
        found = await list_them(care)
        return found._replace(files=found.files or [])

    patch.setattr(ContentCare, "candidates", candidates)


def holds_nothing(patch: pytest.MonkeyPatch) -> None:
    """The cleaner does not wait for who reads what was replaced."""
    patch.setattr(ContentFiles, "is_held", lambda files: False)


FIRST = {
    forgets_what_is_kept: 20_430, holds_nothing: 30_200, moves_over_changes: 30_200, settles_nothing_of_the_refused: 30_100,
    takes_what_it_cannot_read: 30_080,
}  # fmt: skip
"""Few seeds do what would show it: these begin close before one that does."""
BROKEN = [
    collects_values, reads_contents_of_snapshots_only, never_settles, settles_nothing_of_the_refused,
    takes_what_it_cannot_read, restores_claims_alone, believes_damaged_bytes, compares_nothing, moves_over_changes,
    forgets_what_is_kept, holds_nothing,
]  # fmt: skip


@pytest.mark.parametrize("breaks", BROKEN, ids=lambda breaks: breaks.__name__)
def test_a_store_that_is_careless_with_large_values_is_noticed(
    breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    assert is_noticed(FIRST.get(breaks, 30_000))
