"""Base of all event types: the integer type, the struct base class, and the field names that Spark writes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Int = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
"""An integer within the range that Spark writes and that a store accepts."""


class EventStruct(msgspec.Struct, gc=False):
    """Base of all events and their parts. A field that some version of Spark does not write has a default."""


def spark_names(**special: str) -> Any:
    """A field renaming for msgspec: `stage_id` becomes `Stage ID`; a field in `special` gets the name given there."""
    return lambda field: special.get(
        field, field.replace("_", " ").title().replace(" Id", " ID").replace(" Of ", " of ")
    )
