"""Opens an engine by its name. Only the module of that engine is loaded: the others may not be installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.peers.engines.base import Engine, Opening


def open_engine(name: str, opening: Opening, archived: bool = False) -> Engine:
    """The engine over its folder or its server. `archived` gives kvwal an archive; the others have none."""
    module = import_module(f"benchmarks.peers.engines.{name}_engine")
    options: dict[str, Any] = {"archived": archived} if name == "kvwal" else {}
    engine: Engine = getattr(module, name.capitalize())(opening, **options)
    return engine
