"""The refusal of contents of a cluster: its members have no claim files yet."""

from __future__ import annotations

from kvwal.errors import ConfigError


def not_served(where: str) -> ConfigError:
    """The refusal of contents of a cluster. `where` names it."""
    return ConfigError(
        f"{where}: contents of a cluster are not served yet; nothing was read or written.",
        hint="Keep them in the folder of a store: kvwal.open(FOLDER).content(NAME), or `kvwal content` with that folder."
        " An archive of such a store can be read, too.",
    )
