"""The options of `spark.read.format("kvwal")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from archive.objects import check_url
from kvwal.errors import ConfigError
from kvwal.spark.datasource.values import DROP, FAIL, MODES, NULL

LATEST, HISTORY = "latest", "history"
_NAMES = ("archive", "namespace", "cluster", "business", "view", "mode")


class ReadOptions(NamedTuple):
    """What to read: the URL of an archive, the names of a business in it, whether all changes are wanted, and what becomes of a
    row whose value does not fit the query's schema."""

    archive: str
    namespace: str
    cluster: str
    business: str
    history: bool
    mode: str

    @property
    def where(self) -> tuple[str, str, str]:
        """Namespace, cluster and business."""
        return self.namespace, self.cluster, self.business


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The options as Spark gives them, checked. Raises ConfigError, which names the option."""
    given = {name.lower(): value for name, value in options.items()}
    known = f'The options of format "kvwal" are {", ".join(_NAMES)}.'
    if unknown := sorted(given.keys() - set(_NAMES)):
        raise ConfigError(f"format kvwal has no option {unknown[0]!r}.", hint=known)
    if missing := [name for name in ("archive", "business") if not given.get(name)]:
        raise ConfigError(f"format kvwal needs the option {missing[0]!r}.", hint=known)
    view = given.get("view", LATEST)
    if view not in (LATEST, HISTORY):
        raise ConfigError(f"the option 'view' is {view!r}.", hint=f"It is {LATEST} (the default) or {HISTORY}.")
    mode = given.get("mode", FAIL)
    if mode not in MODES:
        raise ConfigError(f"the option 'mode' is {mode!r}.", hint=f"It is {FAIL} (the default), {NULL} or {DROP}.")
    check_url(given["archive"])
    return ReadOptions(
        given["archive"],
        given.get("namespace", "default"),
        given.get("cluster", "local"),
        given["business"],
        view == HISTORY,
        mode,
    )
