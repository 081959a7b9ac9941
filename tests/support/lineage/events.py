"""Events of OpenLineage for tests."""

from __future__ import annotations

from typing import Any

RUN = "0199b7b2-7cf1-7c1b-9a2c-0123456789ab"


def event(
    state: str | None = "COMPLETE",
    time: str = "2026-01-01T00:00:00Z",
    *,
    inputs: list[Any] | None = None,
    outputs: list[Any] | None = None,
    name: str = "load",
    run: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """An event of a run. A data set that is a text is a path of this machine."""
    sides = [
        [{"namespace": "file", "name": each} if isinstance(each, str) else each for each in side or []]
        for side in (inputs, outputs)
    ]
    told = {
        "eventTime": time,
        "producer": "https://example.com/producer",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": run or {"runId": RUN},
        "job": {"namespace": "tests", "name": name},
        "inputs": sides[0],
        "outputs": sides[1],
    }
    return told if state is None else {"eventType": state, **told}
