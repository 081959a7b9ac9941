"""Large values of a transaction, written beside the log before it is submitted: each is a content without a name.

The bytes are durable, and the entry has a claim in their place, before the log writer gets it. So everything below the structures
sees a small entry. Callers keep their entries: if the transaction is not written, they have their values again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from kvwal.content.claim import may_stand_beside
from kvwal.content.files import ContentFiles
from kvwal.entry import CLAIMED, Entry, is_claimed
from kvwal.errors import CommitUnknown
from kvwal.log.submission import Decide, GroupView, LargeValues, Submission

BYTES = "bytes"
"""The codec of the bytes of a file."""


class ValueMover:
    """Writes the large values of submissions beside one log. Any thread may use it."""

    def __init__(self, files: ContentFiles, inline_bytes: int, name: str, moved: Callable[[], None]) -> None:
        """`moved` is called before an entry with a claim is submitted. `name` is that of the business."""
        self._files = files
        self._inline_bytes = inline_bytes
        self._name = name
        self._moved = moved

    def wants(self, submission: Submission) -> bool:
        """Whether `move` has something to do, which may block."""
        if submission.size <= self._inline_bytes:
            return False
        return any(map(self._is_large, submission.entries))

    def move(self, submission: Submission) -> None:
        """Make the large values durable. Then the log writer, or this call, puts their claims into the entries.

        Raises `StorageFull`, `ContentFailed`, `StoreClosed`: then nothing was changed. A submission that is not put into the ring
        afterwards is to be withdrawn.
        """
        large = [entry for entry in submission.entries if self._is_large(entry)]
        if not large:
            return
        values = list({id(entry.value): entry.value for entry in large}.values())
        try:
            claims = self._files.write_values(values)
        except OSError as error:
            raise self._files.failed(f"{self._name}: the value of {large[0].key[:40]!r}", error) from error
        moved = MovedValues(self._files, [claim.file for claim in claims])
        for value, claim in zip(values, claims, strict=True):
            moved.add(value, claim.value())
        submission.size -= sum(len(value) - len(claim.value()) for value, claim in zip(values, claims, strict=True))
        submission.large = moved
        if submission.decide is None:
            moved.place(submission.entries)
        else:
            submission.decide = moved.decided(submission.decide)
        self._moved()

    def of_file(self, path: Path) -> FileValue:
        """The bytes of a file as a value, written beside the log if they are large. Memory holds some megabytes.

        Raises as `move`, and `ConfigError` if the file cannot be read.
        """
        parts = self._files.parts_of(path)
        held: list[bytes] = []
        size = 0
        for part in parts:
            held.append(part)
            size += len(part)
            if size > self._inline_bytes:
                break
        else:
            return FileValue(b"".join(held), BYTES, None)
        writer = self._files.begin(names=False)
        try:
            for part in chain(held, parts):
                writer.write(part)
            claim = writer.finish({})
        except OSError as error:
            raise self._files.failed(f"{self._name}: {path}", error) from error
        except BaseException:
            writer.discard()
            raise
        self._moved()
        return FileValue(claim.value(), CLAIMED + BYTES, MovedValues(self._files, [claim.file]))

    def _is_large(self, entry: Entry) -> bool:
        is_large = len(entry.value) > self._inline_bytes and may_stand_beside(entry.key_class)
        return is_large and not is_claimed(entry.value_class)


class FileValue(NamedTuple):
    """The value of an entry that is the bytes of a file, and its class. `large` is for the submission, if it is a claim."""

    value: bytes
    value_class: str
    large: LargeValues | None


class _Placed(NamedTuple):
    """An entry that has its claim, and what it had before."""

    entry: Entry
    value: bytes
    value_class: str


class MovedValues:
    """The large values of one submission. See `kvwal.log.submission.LargeValues`.

    Their claim files are unsettled until it is known what became of the submission. After `CommitUnknown` they stay so, because
    the entries may be in the log.
    """

    def __init__(self, files: ContentFiles, claimed: list[str]) -> None:
        self._files = files
        self._claimed = claimed
        self._claims: dict[int, tuple[bytes, bytes]] = {}
        self._placed: list[_Placed] = []

    def add(self, value: bytes, claim: bytes) -> None:
        """A value, and the claim on its bytes. The same object is the value in each entry that a decision makes of it."""
        self._claims[id(value)] = value, claim

    def place(self, entries: list[Entry]) -> None:
        """Put the claims into these entries."""
        for entry in entries:
            found = self._claims.get(id(entry.value))
            if found is not None and may_stand_beside(entry.key_class):
                self._placed.append(_Placed(entry, entry.value, entry.value_class))
                entry.value, entry.value_class = found[1], CLAIMED + entry.value_class

    def decided(self, decide: Decide) -> Decide:
        """The same decision, with claims in the entries."""

        def placed(group: GroupView) -> list[Entry]:
            entries = decide(group)
            self.place(entries)
            return entries

        return placed

    def over(self, error: BaseException | None) -> None:
        """See `LargeValues.over`."""
        if error is not None:
            for entry, value, value_class in self._placed:
                entry.value, entry.value_class = value, value_class
        claimed, self._claimed, self._placed = self._claimed, [], []
        if not isinstance(error, CommitUnknown):
            for file in claimed:
                self._files.settled(file)
