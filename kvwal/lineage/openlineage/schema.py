"""The check of an event against OpenLineage's JSON schema, version 2-0-2: the package has a copy (spec/OpenLineage.json).

The copy is that of github.com/OpenLineage/OpenLineage at the commit `8f02abfb`, unchanged; its licence is beside it.
"""

from __future__ import annotations

import json
import pkgutil
import re
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kvwal.errors import ConfigError, Kind, KvwalError

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

SCHEMA_URL = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S*")
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
_FORMATS = {"uuid": "no UUID", "date-time": "no date and time of RFC 3339", "uri": "no URI"}


class InvalidEvent(KvwalError):
    """An event that OpenLineage's schema does not allow. `path` is its JSON path, `reason` says what is wrong there."""

    kind = Kind.CALLER

    def __init__(self, path: str, reason: str, where: str = "the event") -> None:
        super().__init__(
            f"{where} is no valid event of OpenLineage: {path}: {reason}.",
            hint="Nothing of it was stored. Mend the producer, and send it again.",
        )
        self.path = path
        self.reason = reason


def check_event(event: Any, at: str = "$") -> None:
    """Raise `InvalidEvent` unless the event is valid. `at` is the path of the event: `$[3]` in a batch."""
    if not isinstance(event, dict):
        raise InvalidEvent(at, f"an event is an object, and this is {_kind(event)}")
    from jsonschema.exceptions import best_match

    kind = "RunEvent" if "run" in event else "DatasetEvent" if "dataset" in event else "JobEvent"
    if kind == "JobEvent" and "job" not in event:
        raise InvalidEvent(at, "an event has the field 'run', 'job' or 'dataset', and this one has none of them")
    error = best_match(_validator(kind).iter_errors(event))
    while error is not None and error.context:  # each anyOf of the schema has one alternative
        error = error.context[0]
    if error is not None:
        raise InvalidEvent(at + error.json_path[1:], _reason(error))


def check_installed() -> None:
    """Raise `ConfigError` if the library that checks events is missing."""
    if find_spec("jsonschema") is None:
        raise ConfigError(
            "events of OpenLineage are checked with jsonschema, which is not installed.",
            hint="Install it: pip install 'kvwal[console]'.",
        )


@cache
def _validator(kind: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator, FormatChecker
    from referencing import Registry, Resource

    data = pkgutil.get_data("kvwal.lineage.openlineage", "spec/OpenLineage.json")
    schema = json.loads(data or b"")
    registry: Any = Registry().with_resource(SCHEMA_URL, Resource.from_contents(schema))
    checker = FormatChecker(formats=())
    checker.checks("uuid")(lambda value: not isinstance(value, str) or _UUID.fullmatch(value) is not None)
    checker.checks("uri")(lambda value: not isinstance(value, str) or _URI.fullmatch(value) is not None)
    checker.checks("date-time", raises=ValueError)(_is_time)
    return Draft202012Validator({"$ref": f"{SCHEMA_URL}#/$defs/{kind}"}, registry=registry, format_checker=checker)


def _is_time(value: object) -> bool:
    """Whether a text is a date and time. One without a zone is UTC: the examples of OpenLineage's Python client have none."""
    if not isinstance(value, str):
        return True
    return "T" in value.upper() and datetime.fromisoformat(value).year >= 1970


def _reason(error: ValidationError) -> str:
    """What is wrong, without the value: it may be long, or a secret."""
    rule, wanted, value = error.validator, error.validator_value, error.instance
    if rule == "required":
        missing = next((name for name in wanted if name not in value), "")
        return f"the field {missing!r} is missing"
    if rule == "type":
        return f"it must be {_words(wanted)}, and is {_kind(value)}"
    if rule == "enum":
        return f"it must be one of {', '.join(map(str, wanted))}"
    if rule == "format":
        return f"it is {_FORMATS.get(str(wanted), f'no {wanted}')}"
    if rule == "not":
        return "it has fields of two kinds of events"
    return f"it breaks the rule {rule!r} of the schema"


def _words(wanted: object) -> str:
    return {"object": "an object", "array": "an array", "string": "a string"}.get(str(wanted), str(wanted))


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number")
