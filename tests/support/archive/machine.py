"""State machine of a store that archives, in a folder of its own: what such laws share."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis.stateful import RuleBasedStateMachine

import kvwal
from tests.support.archive.archiver import InProcess


class ArchivingMachine(RuleBasedStateMachine):
    """A rule opens `store` at `root`, and its archiver runs in this process. `patch` is undone at the end."""

    store: kvwal.Store

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="kvwal-law-")) / "root"
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("kvwal.archiver.remote.Child", InProcess)

    def teardown(self) -> None:
        """Close the store, if a rule has opened it, and remove the folder."""
        if hasattr(self, "store"):
            self.store.close(archive=False)
        self.patch.undo()
        shutil.rmtree(self.root.parent)
