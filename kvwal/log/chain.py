"""Whether a file stands where it was written for, and follows what stands before it: one answer for recovery, readers, verify.

Pure. The answer is None or a sentence; what kind of error that is decides whoever asked.
"""

from __future__ import annotations

from pathlib import Path

from archive.layout import Place
from kvwal.errors import ConfigError
from kvwal.log.format import Header

BROKEN = "the chain of seals is broken: this segment does not follow the one before it."


def misplaced(header: Header, place: Place) -> str | None:
    """What is wrong with a file of this header in the folder of `place`."""
    written = Place(header.namespace, header.cluster, header.business, header.node)
    return None if written == place else f"it was written as {'/'.join(written)}, and does not belong here."


def check_belongs(header: Header, place: Place, folder: Path) -> None:
    """`ConfigError` if a log that is to be used was written as another one."""
    wrong = misplaced(header, place)
    if wrong is not None:
        raise ConfigError(f"{folder}: {wrong}", hint="A log cannot be renamed by moving its folder: move it back.")


def unlinked(header: Header, wanted: int, crc: int) -> str | None:
    """What is wrong with a segment where one is wanted that begins with the sequence `wanted` and follows the seal `crc`."""
    if header.first_sequence != wanted:
        return missing(header.first_sequence, wanted)
    return None if header.previous_crc == crc else BROKEN


def missing(found: int, wanted: int) -> str:
    """What is said of a log that goes on with another sequence than `wanted`."""
    return f"the log goes on with sequence {found}, and {wanted} is missing."
