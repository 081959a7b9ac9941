"""What a mutant is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """A change that breaks a promise of docs/guarantees.md: in `file`, the text `old`, which stands there once, becomes `new`.

    At least one of the tests in `caught_by` (paths, and node ids, as pytest takes them) must fail then.
    """

    name: str
    promise: int
    file: str
    old: str
    new: str
    caught_by: str

    def applied(self, root: Path) -> str:
        """The mutated text of the file. `ValueError` if `old` does not stand there exactly once."""
        text = (root / self.file).read_text()
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.file}: the text of the mutant {self.name!r} stands there {count} times, not once.")
        return text.replace(self.old, self.new)
