"""The check of events against OpenLineage's published schemas: that of an event, and that of each facet by its `_schemaURL`.

It shares nothing with the check that kvwal makes of events it takes. The schemas of facets are in `facets/`: those of
github.com/OpenLineage/OpenLineage at the commit `8f02abfb`, unchanged, with their licence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

from tests.repository.source import ROOT

_EVENT = json.loads((ROOT / "kvwal/lineage/openlineage/spec/OpenLineage.json").read_text())
_FACETS = [json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "facets").glob("*.json"))]
_REGISTRY: Any = Registry().with_resources([(each["$id"], Resource.from_contents(each)) for each in [_EVENT, *_FACETS]])
_BY_URL = {f"{each['$id']}#/$defs/{name}": shape for each in _FACETS for name, shape in each["$defs"].items()}
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_FORMATS = FormatChecker(formats=("uuid",))
_FORMATS.checks("date-time")(lambda value: not isinstance(value, str) or _RFC_3339.fullmatch(value) is not None)
_FORMATS.checks("uri")(
    lambda value: not isinstance(value, str) or re.fullmatch(r"[a-z][a-z0-9+.-]*:\S+", value) is not None
)


def faults(event: dict[str, Any]) -> list[str]:
    """What the published schemas do not allow in an event, with the place of each."""
    found = [f"{error.json_path}: {error.message}" for error in _validator({"$ref": _EVENT["$id"]}).iter_errors(event)]
    for place, facet in facets(event):
        url = facet.get("_schemaURL")
        if url not in _BY_URL:
            found.append(f"{place}: no schema is known for {url}")
            continue
        found += [
            f"{place}{error.json_path[1:]}: {error.message}" for error in _validator({"$ref": url}).iter_errors(facet)
        ]
        known = {name for part in _BY_URL[url]["allOf"] for name in part.get("properties", ())} | {
            "_producer",
            "_schemaURL",
        }
        found += [f"{place}: the schema has no field {name!r}" for name in facet if name not in known]
    return found


def facets(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The facets of an event, each with its place."""
    holders = [("$.run", event.get("run", {})), ("$.job", event.get("job", {}))]
    for side in ("inputs", "outputs"):
        holders += [(f"$.{side}[{number}]", dataset) for number, dataset in enumerate(event.get(side, []))]
    for place, holder in holders:
        for field in ("facets", "inputFacets", "outputFacets"):
            for name, facet in holder.get(field, {}).items():
                yield f"{place}.{field}.{name}", facet


def _validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator(schema, registry=_REGISTRY, format_checker=_FORMATS)
