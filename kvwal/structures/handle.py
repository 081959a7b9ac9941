"""Base class of stores and maps: objects that stand for threads, files and locks of this process."""

from __future__ import annotations

from typing import Any

from kvwal.errors import WrongType


class Handle:
    """An object that cannot be copied or pickled, because a copy would share its threads and close what the other one uses."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Raise `WrongType`. `copy`, `deepcopy` and `pickle` call it."""
        raise WrongType(
            f"a {type(self).__name__} cannot be copied or pickled: it has threads and files of this process.",
            hint="Threads may share it. Open it again where another process needs it. `dict(map)` copies what a map holds.",
        )
