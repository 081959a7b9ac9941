"""Keeping a log: its bytes, of all of its files, become one content with an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kvwal.spark.eventlog.lines import DamagedFile, log_bytes
from kvwal.spark.eventlog.listing import EventLog, EventLogFile, before_gap
from kvwal.spark.eventlog.logs import ApplicationIdentity
from kvwal.spark.kept.contents import Contents, StoredContent, every_kept_log, kept_name
from kvwal.spark.kept.writer import KeptLogWriter


class Keeping(NamedTuple):
    """What became of one log. `name` is that of its content. `is_new` is False if the same log was kept before.

    `problem` says why nothing was kept, or what is missing of the log; empty if all is well.
    """

    name: str
    is_new: bool
    problem: str = ""


def keep_log(
    contents: Contents, log: EventLog, identity: ApplicationIdentity, beat: Callable[[], None] = lambda: None
) -> Keeping:
    """Keep a log as far as it is written, in place of what was kept of its application before.

    A log that is kept already, in the size that it has now, is not read. One of an earlier run than the kept log is left out. The
    bytes of the log are kept; of a file that is damaged those before the damage. `beat` is called while it is read.

    `FileNotFoundError` if the log goes meanwhile: nothing has changed then.
    """
    name = kept_name(identity, in_progress=log.in_progress())
    files, missing = before_gap(log.files(), 0)
    if missing:
        return Keeping(str(name), False, f"it is not kept, because its roll {missing} is missing")
    size = log.size()
    before = {str(kept): contents.stat(str(kept)) for kept in every_kept_log(contents, name.prefix)}
    for kept, stored in before.items():
        if (started := _number(stored, "started")) > identity.started:
            return Keeping(str(name), False, "it is not kept, because the log of a later run is")
        is_finished = name.in_progress and kept != str(name)
        is_same = kept == str(name) and _number(stored, "source_bytes") == size
        if started == identity.started and (is_finished or is_same):
            return Keeping(kept, False)
    attributes = {
        "codec": "zstd",
        "application": identity.app,
        "attempt": identity.attempt,
        "started": str(identity.started),
        "source": str(log.path),
        "source_bytes": str(size),
    }
    with contents.create(str(name), attributes) as out:
        problem = _copy(files, KeptLogWriter(out), beat)
    for kept in before.keys() - {str(name)}:
        contents.delete(kept)
    return Keeping(str(name), True, problem)


def _copy(files: Iterable[EventLogFile], writer: KeptLogWriter, beat: Callable[[], None]) -> str:
    """Write the bytes of all files. Returns which damage ended one of them; empty if there is none."""
    problem = ""
    for file in files:
        writer.end_line()
        try:
            for data in log_bytes(file.path):
                writer.write(data)
                beat()
        except DamagedFile as error:
            problem = f"what follows the damage in {file.path} is not kept: {error}"
    writer.close()
    return problem


def _number(stored: StoredContent, attribute: str) -> int:
    """A number among the attributes of a kept log; 0 if somebody else put the content there."""
    text = stored.attributes.get(attribute, "")
    return int(text) if text.isdecimal() else 0
