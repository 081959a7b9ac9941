"""State that Spark jobs keep in a map: a fenced lease, a ledger of runs, and the progress of incremental processing.

Each is a record of the map, and a commit is one conditional transaction (`Map.commit_if`) of the record and the results. So it is
all there or not there at all, and the store refuses it if another process has changed the record meanwhile.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvwal.spark.state.lease import Lease as Lease
    from kvwal.spark.state.lease import LeaseHeld as LeaseHeld
    from kvwal.spark.state.lease import LeaseLost as LeaseLost
    from kvwal.spark.state.ledger import Ledger as Ledger
    from kvwal.spark.state.progress import PositionMoved as PositionMoved
    from kvwal.spark.state.progress import Progress as Progress

_MODULES = {
    "Lease": "state.lease",
    "LeaseHeld": "state.lease",
    "LeaseLost": "state.lease",
    "Ledger": "state.ledger",
    "PositionMoved": "state.progress",
    "Progress": "state.progress",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kvwal.spark.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
