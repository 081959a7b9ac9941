"""kvwal content verify: the bytes of each content, and of each large value of a business, against its checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import typer

from kvwal.cli import show
from kvwal.cli.content.names import ContentsName, WrittenContents
from kvwal.cli.content.selection import ContentsArgument, ContentStore
from kvwal.cli.options import AcceptClock, Json
from kvwal.cli.tables import print_table
from kvwal.cli.text import key_label
from kvwal.content.claim import Claim, claim_of, name_of
from kvwal.counted import counted
from kvwal.errors import ContentDamaged
from kvwal.key_class import structure_of
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.beside.values import DamagedValue, LargeValues
from kvwal.scrub.units import size
from kvwal.store.contents.sources import archived_contents
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
        return _place(self.claim)

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
    """Read the bytes of each content, compare their checksum, and print those that are damaged, by name and place. Of a business
    in a folder, large values of its maps and queues, too, by key.

    Bytes are read where a `get` would read them: beside the log, else in the archive. Without --repair nothing is changed. Exit
    code 4 if one is damaged or missing, and stays so.
    """
    if repair:
        selection.check_repairs()
    verified = Verified()
    with selection.reading(contents) as found, show.progress() as report:
        damaged = list(verified.damaged(found, lambda done, total: report(done, total, f"verifying {contents}")))
    large = _large_values(selection, contents)
    values: list[DamagedValue] = []
    if large is not None:
        with show.progress() as report:
            values = large.damaged(lambda done: report(done, done, f"verifying large values of {contents}"))
    known = len(damaged), len(values)
    if repair and (damaged or values):
        with selection.existing(contents, accept_clock) as target:
            damaged = [one for one in damaged if not _is_repaired(target, one.name)]
            values = values if large is None else large.repair(values)
    mended = known[0] - len(damaged), known[1] - len(values)
    if json:
        show.json_lines(one.as_json() for one in damaged)
        show.json_lines(map(_value_json, values))
        told = {"repaired": sum(mended)} if repair else {}
        own = {} if large is None else {"values": large.values, "value_bytes": large.bytes}
        show.json_line({"content": str(contents)} | verified.figures(len(damaged) + len(values)) | own | told)
    else:
        if damaged or values:
            rows = [(one.name, *one.place(), one.error.what) for one in damaged]
            rows += [(_label(one), *_place(one.claim), one.problem) for one in values]
            print_table(["name", "claim file", "offset", "bytes", "problem"], rows)
        read = f"{counted(verified.contents, 'content')}, {size(verified.bytes)}"
        if large is not None and large.values:
            read += f", {counted(large.values, 'large value')}, {size(large.bytes)}"
        told_mended = f"{counted(mended[0], 'content')} written again, " if mended[0] else ""
        told_mended += f"{counted(mended[1], 'large value')} mended, " if mended[1] else ""
        left = len(damaged) + len(values)
        show.say(f"{contents}: {read}: {told_mended}{f'{left:,} damaged' if left else 'all sound'}.")
    if damaged or values:
        raise typer.Exit(show.DAMAGED)


def _large_values(selection: ContentStore, contents: ContentsName) -> LargeValues | None:
    """The large values of the business, if it was named alone, and is in a folder."""
    folder = selection.folder()
    if contents.name or folder is None:
        return None
    names = (folder.namespace, folder.cluster, contents.business)
    places = folder.places(contents.business)
    return LargeValues(OS_DISK, SYSTEM, folder.root, places, lambda: archived_contents(folder.objects(), *names))


def _label(value: DamagedValue) -> str:
    """A value as a table names it: its key, behind the structure if that is not the business's own map."""
    structure, _, codec = value.key_class.rpartition(":")
    return f"{structure}: {key_label(value.key, codec)}" if structure else key_label(value.key, codec)


def _value_json(value: DamagedValue) -> dict[str, Any]:
    """The fields for a program: `structure` is empty for the business's own map, `offset` that in the claim file."""
    file, offset, length = _place(value.claim)
    key = key_label(value.key, value.key_class.rpartition(":")[2])
    return {
        "structure": structure_of(value.key_class), "key": key, "file": file, "offset": offset, "bytes": length,
        "problem": value.problem,
    }  # fmt: skip


def _place(claim: Claim | None) -> tuple[str | None, int | None, int | None]:
    return (None, None, None) if claim is None else claim.bytes_of


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
