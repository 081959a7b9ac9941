"""The facets of the events that kvwal writes, each with the version of its schema, and ids of runs that are always the same."""

from __future__ import annotations

from hashlib import sha1
from typing import Any

PRODUCER = "urn:kvwal:openlineage"
"""Who made an event, as a URI."""
_FACETS = "https://openlineage.io/spec/facets"
_VERSIONS = {
    "symlinks": "1-0-1/SymlinksDatasetFacet",
    "parent": "1-2-0/ParentRunFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
    "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
}


def facet(kind: str, /, **fields: Any) -> dict[str, Any]:
    """A facet, as the entry of a map of facets."""
    version, _, schema = _VERSIONS[kind].partition("/")
    return {kind: {"_producer": PRODUCER, "_schemaURL": f"{_FACETS}/{version}/{schema}.json#/$defs/{schema}", **fields}}


def run_id(*texts: str) -> str:
    """The UUID of a run (version 5 of RFC 9562): the same for the same texts, so that a second export repeats the first one."""
    digest = bytearray(sha1("\0".join((PRODUCER, *texts)).encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
