"""Lines of standard input put into a queue: in transactions of some hundred, with an account of how many were put."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kvwal.cli import show
from kvwal.cli.queue.names import AnyQueue
from kvwal.cli.transfer.puts import BATCH_BYTES, BATCH_ENTRIES
from kvwal.cli.transfer.standard_input import NAME
from kvwal.cli.transfer.values import parsed_value
from kvwal.counted import counted
from kvwal.errors import CommitUnknown, ConfigError, Kind, KvwalError


class PutStopped(KvwalError):
    """The puts of lines ended before the last line. Its kind is that of the error that ended them."""

    def __init__(self, what: str, kind: Kind, hint: str) -> None:
        super().__init__(what, hint=hint)
        self.kind = kind


class Batch(NamedTuple):
    """The items of one transaction, and the numbers of their first and last line."""

    first: int
    last: int
    items: list[Any]


def put_lines(queue: AnyQueue, lines: Iterable[bytes], priority: int, ttl: float | None) -> int:
    """Put an item for each line, and return how many they were. Blank lines are passed over.

    An error, and Ctrl-C, say how many items were put, and which line is the first that was not.
    """
    put, following = 0, 1
    try:
        for batch in batches(lines):
            following = batch.first
            queue.put_many(batch.items, priority=priority, ttl=ttl, timeout=0)
            put, following = put + len(batch.items), batch.last + 1
    except KvwalError as error:
        what = error.what.replace("; nothing was written", "").replace(
            "; nothing was put", ""
        )  # that is of one transaction
        doubt = " or its outcome is not known" if isinstance(error, CommitUnknown) else ""
        account = f"{_put(put)}; line {following:,} is the first that was not{doubt}"
        raise PutStopped(f"{NAME}: {account}: {what}", error.kind, error.hint) from error
    except KeyboardInterrupt:
        show.note(
            f"kvwal: {NAME}: {_put(put)}; line {following:,} is the first that was not, or its outcome is not known."
        )
        raise
    return put


def batches(lines: Iterable[bytes]) -> Iterator[Batch]:
    """Lines in batches of at most `BATCH_ENTRIES` items, or about `BATCH_BYTES`.

    Raises `ConfigError` for a line that is no text, after the lines before it.
    """
    items: list[Any] = []
    size, first, last = 0, 1, 0
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            if items:
                yield Batch(first, last, items)
            raise ConfigError(
                f"it is no UTF-8 text: its byte {error.start:,} is 0x{line[error.start]:02x}.",
                hint="An item of bytes is put by a program.",
            ) from error
        if not text.strip():
            continue
        if items and (len(items) >= BATCH_ENTRIES or size + len(line) > BATCH_BYTES):
            yield Batch(first, last, items)
            items, size = [], 0
        if not items:
            first = number
        items.append(parsed_value(text, f"line {number:,}"))
        size, last = size + len(line), number
    if items:
        yield Batch(first, last, items)


def _put(number: int) -> str:
    return counted(number, "item was put", "items were put")
