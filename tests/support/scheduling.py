"""Which tests of a run share a process: all of a file, and all of a folder whose fixtures cost a cluster or a Spark."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

TOGETHER = (
    "tests/conformance",
    "tests/integration/datasource",
    "tests/integration/network",
    "tests/integration/spark",
)
"""Each of these folders has one fixture that takes many seconds to start."""


def share(nodeid: str) -> str:
    """The name of what a test's process takes as a whole."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder in TOGETHER else file


def is_taken_as_a_whole(nodeid: str) -> bool:
    """Whether a test belongs to a folder that one process takes as a whole."""
    return share(nodeid) in TOGETHER


class FolderScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Files go to the processes in the order of their collection, some folders as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        return share(nodeid)
