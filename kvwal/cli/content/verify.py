"""kvwal content verify: the bytes of each content against its checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import typer

from kvwal.cli import show
from kvwal.cli.content.names import WrittenContents
from kvwal.cli.content.selection import ContentsArgument, ContentStore
from kvwal.cli.options import AcceptClock, Json
from kvwal.cli.tables import print_table
from kvwal.content.claim import Claim, claim_of, name_of
from kvwal.counted import counted
from kvwal.errors import ContentDamaged
from kvwal.scrub.units import size
from kvwal.store.contents.stored import StoredContents

_STEP = 1 << 20


class Damaged(NamedTuple):
    """A content whose bytes are not those that were written, and why."""

    name: str
    claim: Claim | None
    """None if the value of the entry is no claim that this version knows."""
    error: ContentDamaged

    def place(self) -> tuple[str | None, int | None, int | None]:
        """The claim file, the offset in it, and the number of bytes."""
        return (None, None, None) if self.claim is None else self.claim.bytes_of

    def as_json(self) -> dict[str, Any]:
        """The fields for a program: `offset` is that in the claim file."""
        file, offset, length = self.place()
        return {
            "name": self.name, "file": file, "offset": offset, "bytes": length, "problem": str(self.error),
        }  # fmt: skip


def content_verify(
    selection: ContentStore,
    contents: ContentsArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Write damaged contents again, with their bytes in the archive.")
    ] = False,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Read the bytes of each content, compare their checksum, and print those that are damaged, by name and place.

    Bytes are read where a `get` would read them: beside the log, else in the archive. Without --repair nothing is changed. Exit
    code 4 if one is damaged or missing, and stays so.
    """
    if repair:
        selection.check_repairs()
    verified = Verified()
    with selection.reading(contents) as found, show.progress() as report:
        damaged = list(verified.damaged(found, lambda done, total: report(done, total, f"verifying {contents}")))
    repaired = 0
    if repair and damaged:
        with selection.existing(contents, accept_clock) as target:
            left = [one for one in damaged if not _is_repaired(target, one.name)]
        repaired, damaged = len(damaged) - len(left), left
    if json:
        show.json_lines(one.as_json() for one in damaged)
        told = {"repaired": repaired} if repair else {}
        show.json_line({"content": str(contents)} | verified.figures(len(damaged)) | told)
    else:
        if damaged:
            rows = [(one.name, *one.place(), one.error.what) for one in damaged]
            print_table(["name", "claim file", "offset", "bytes", "problem"], rows)
        sound = f"{counted(verified.contents, 'content')}, {size(verified.bytes)}: "
        mended = f"{counted(repaired, 'content')} written again, " if repaired else ""
        show.say(f"{contents}: {sound}{mended}{f'{len(damaged):,} damaged' if damaged else 'all sound'}.")
    if damaged:
        raise typer.Exit(show.DAMAGED)


def _is_repaired(contents: WrittenContents, name: str) -> bool:
    """Repair a content. Returns whether its bytes are sound now."""
    try:
        contents.repair(name)
    except ContentDamaged:
        return False
    return True


class Verified:
    """A check of contents, and how many of them it has read."""

    def __init__(self) -> None:
        self.contents = 0
        self.bytes = 0

    def damaged(self, contents: StoredContents, report: Callable[[int, int], None]) -> Iterator[Damaged]:
        """The contents that are damaged, in the order of their names. Bytes with several names are read once."""
        total = sum(claim.length for claim in contents.claims())
        known: dict[tuple[str, int, int], ContentDamaged | None] = {}
        for entry in contents.entries():
            self.contents += 1
            name = name_of(entry)
            try:
                claim = claim_of(entry)
            except ContentDamaged as error:
                yield Damaged(name, None, error)
                continue
            if claim.bytes_of not in known:
                known[claim.bytes_of] = self._problem(contents, name, claim, lambda: report(self.bytes, total))
            if (problem := known[claim.bytes_of]) is not None:
                yield Damaged(name, claim, problem)

    def figures(self, damaged: int) -> dict[str, int]:
        """What was read, for a program."""
        return {"contents": self.contents, "bytes": self.bytes, "damaged": damaged}

    def _problem(
        self, contents: StoredContents, name: str, claim: Claim, report: Callable[[], None]
    ) -> ContentDamaged | None:
        try:
            with contents.source.open(contents.what(name), claim, 0, None) as file:
                while part := file.read(_STEP):
                    self.bytes += len(part)
                    report()
        except ContentDamaged as error:
            return error
        return None
