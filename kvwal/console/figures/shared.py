"""Figures of the location, made once for all who look at it within a second."""

from __future__ import annotations

from typing import NamedTuple

from kvwal.console.figures.examinations import Beside, Examination, Examinations
from kvwal.console.figures.fsyncs import Fsyncs
from kvwal.console.figures.of_archive import of_archive
from kvwal.console.figures.of_cluster import of_cluster
from kvwal.console.figures.of_files import FileFigures, look_beside
from kvwal.console.figures.rows import Figures
from kvwal.console.shared_reader import SharedReader, View
from kvwal.errors import ConfigError
from kvwal.location.archived import ArchiveReader
from kvwal.location.cluster import ClusterMaps
from kvwal.location.readers import LocationReader
from kvwal.ports.clock import Clock
from kvwal.ports.locks import Lock
from kvwal.store.sync import ReadOnlyStore

_WITHIN_SECONDS = 2.0
"""How long the members of a cluster are waited for: one that stands still is a row with a sentence."""


class Looked(NamedTuple):
    """What one who looks gets: the figures, the last examination (None: see `why_not`), its age in seconds, and the time."""

    figures: Figures
    examination: Examination | None
    age_seconds: float
    why_not: str
    wall_ms: int


class SharedFigures:
    """The figures of a console's location, and its examinations. Any thread may use it."""

    def __init__(self, examinations: Examinations, clock: Clock) -> None:
        self.examinations = examinations
        self._clock = clock
        self._lock = Lock()
        self._fsyncs = Fsyncs()
        self._files = FileFigures()

    def look(self, view: View) -> Looked:
        """The figures now, with the last examination. An archive has none."""
        examination, why_not = None, ""
        try:
            examination = self.examinations.last()
        except ConfigError as error:
            why_not = f"{error.what} {error.hint}".strip()
        beside = Beside(why_not=why_not) if examination is None else examination.beside
        figures = view.made(_Make(self, 0.0 if examination is None else examination.at, beside))
        age = 0.0 if examination is None else self.examinations.age(examination)
        return Looked(figures, examination, age, why_not, self._clock.wall_ms())

    def made(self, reader: LocationReader, beside: Beside) -> Figures:
        """The figures of an open location."""
        with self._lock:
            if isinstance(reader, ClusterMaps):
                told = reader.figures(_WITHIN_SECONDS)
                return of_cluster(told, self._fsyncs, self._clock.elapsed(), self._clock.wall_ms())
            if isinstance(reader, ArchiveReader):
                return of_archive(reader)
            if isinstance(reader, ReadOnlyStore):
                return self._files.look(reader.options, beside)
        raise ConfigError("this location has no figures.", hint="Open a folder, a cluster or an archive as it is now.")


class _Make:
    """The making of the figures that go with one examination. Equal ones are made once: see `View.made`."""

    def __init__(self, shared: SharedFigures, at: float, beside: Beside) -> None:
        self._shared = shared
        self._at = at
        self._beside = beside

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Make) and self._at == other._at

    def __hash__(self) -> int:
        return hash((_Make, self._at))

    def __call__(self, reader: LocationReader) -> Figures:
        return self._shared.made(reader, self._beside)


def beside_of(reads: SharedReader) -> Beside:
    """What an examination looks up beside the findings: nothing but in a folder."""
    with reads.view() as view:
        return look_beside(view.reader.options) if isinstance(view.reader, ReadOnlyStore) else Beside()
