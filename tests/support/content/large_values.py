"""Large values that stand beside a log: the claim files of a store, and how a test has them ended and cleaned."""

from __future__ import annotations

from pathlib import Path

from kvwal.content.files import ContentFiles
from kvwal.store.sync import WritableStore


def files_of(store: WritableStore, name: str = "jobs") -> ContentFiles:
    """The claim files of a business that is open."""
    return store._engine.businesses[name].contents.files


def seal(store: WritableStore) -> None:
    """What comes goes into another claim file."""
    files_of(store).seal()


def cleaned(store: WritableStore) -> None:
    """Make as many checkpoints as it takes until a claim file goes that nothing names."""
    for _ in range(3):
        store.checkpoint()


def there(root: Path) -> set[str]:
    """The names of the claim files below a folder."""
    return {path.name for path in root.rglob("content/*/*")}
