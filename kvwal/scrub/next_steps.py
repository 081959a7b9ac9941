"""Lines that `kvwal doctor` tells people to type: whole, quoted for a shell, with the folder and the names of the log. Pure."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from kvwal_archive.layout import Place
from kvwal_archive.objects import without_credentials

_BARE = re.compile(r"`kvwal ((?:log|archive) [a-z]+)`")
_OF_A_BUSINESS = {"log verify", "log repair"}
"""The commands that take a business as an argument."""


class NextSteps(NamedTuple):
    """The folder that was examined, and its archive as it was typed; None for the default one."""

    root: Path
    archive: str | None = None

    def line(self, command: str, place: Place | None = None, *more: str) -> str:
        """`kvwal COMMAND ROOT`, for the log of `place` if one is meant. A secret in the archive's URL is left out."""
        words = ["kvwal", *command.split(), str(self.root)]
        if place is not None:
            words += [place.business] * (command in _OF_A_BUSINESS)
            usual = Place("default", "local", place.business, "local")
            for name in ("namespace", "cluster", "node"):
                if (given := getattr(place, name)) != getattr(usual, name):
                    words += [f"--{name}", given]
        if self.archive is not None and "--archive" not in more:
            words += ["--archive", without_credentials(self.archive) if "://" in self.archive else self.archive]
        return shlex.join([*words, *more])

    def whole(self, hint: str, place: Place) -> str:
        """The hint of an error, in which a command without its arguments becomes a whole line."""
        return _BARE.sub(lambda found: f"`{self.line(found[1], place)}`", hint)
