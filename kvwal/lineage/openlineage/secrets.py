"""Events without secrets: facets have settings, environment variables, addresses and SQL, as producers found them."""

from __future__ import annotations

from typing import Any

from kvwal.spark.redaction import REDACTED, Redaction, is_secret_name

_RULES = Redaction()
_NAMES, _VALUES = ("name", "key"), ("value", "val")


def without_secrets(value: Any) -> Any:
    """The JSON value with each secret replaced, by kvwal's rules for Spark's settings and texts.

    A text is redacted by the field that it stands in (`password`), and by its own form (`://user:…@host`). An object with a name
    and a value, as an environment variable, is redacted by that name.
    """
    if isinstance(value, str):
        return _RULES.text(value)
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    if not isinstance(value, dict):
        return value
    names = [name for field in _NAMES if isinstance(name := value.get(field), str)]
    return {_RULES.text(field): _field(names if field in _VALUES else [field], each) for field, each in value.items()}


def _field(names: list[str], value: Any) -> Any:
    """The value of a field that these are names of."""
    if isinstance(value, str) and any(map(is_secret_name, names)):
        return REDACTED
    return without_secrets(value)
