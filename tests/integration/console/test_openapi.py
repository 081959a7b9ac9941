"""The OpenAPI document of kvwal's REST API, and schemathesis, which asks what the document allows and compares the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kvwal.console.ownapi.openapi import document
from kvwal.console.ownapi.operations import PREFIX
from kvwal.console.ownapi.table import operations
from tests.support.console.client import fill, get
from tests.support.lineage.console import console

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("openapi") / "data"
    fill(root)
    with console(root, "--allow-writes", "--node", "console", log=root.parent / "log") as running:
        yield running.url


@pytest.fixture(scope="module")
def schema(url: str) -> Any:
    return schemathesis.openapi.from_url(f"{url}{PREFIX}/openapi.json")


OPERATIONS = [(each.method, each.path) for each in operations() if not each.path.endswith("/watch")]


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@pytest.mark.variants(7)
def test_no_answer_is_outside_of_the_document(schema: Any, method: str, path: str) -> None:
    """Not of a watch, whose answer has no end."""

    @given(case=schema[path][method].as_strategy())
    @settings(
        max_examples=10, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def ask(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    ask()


def test_the_document_names_every_operation_and_is_what_the_console_serves(url: str) -> None:
    table = operations()
    served = get(url, "/openapi.json").json
    assert served == json.loads(json.dumps(document(table)))
    assert served["openapi"].startswith("3.1.")
    named = {(method.upper(), path) for path, methods in served["paths"].items() for method in methods}
    assert named == {(each.method, each.path) for each in table}
    ids = [each["operationId"] for methods in served["paths"].values() for each in methods.values()]
    assert len(ids) == len(set(ids))


def test_answers_are_of_their_schemas(url: str, tmp_path: Path) -> None:
    served = get(url, "/openapi.json").json
    asked: list[tuple[str, dict[str, str]]] = [
        ("/businesses", {}), ("/businesses/{business}/keys", {}), ("/businesses/{business}/key", {"key": "job-001"}),
        ("/businesses/{business}/history", {"key": "job-001"}), ("/queues", {}), ("/health", {}), ("/stats", {}),
        ("/sql", {"sql": "SELECT * FROM jobs"}), ("/datasets", {}), ("/operations", {}),
    ]  # fmt: skip
    for path, query in asked:
        schema = served["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        reply = get(url, path.replace("{business}", "jobs"), query)
        assert reply.status == 200, reply
        Draft202012Validator(schema | {"components": served["components"]}).validate(reply.json)
