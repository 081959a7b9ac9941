"""The OpenAPI document of kvwal's REST API, made from the table of its operations."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from kvwal.console.ownapi import shapes
from kvwal.console.ownapi.operations import PREFIX, Answer, Operation, Parameter

_EVERY = (400, 401, 403, 500, 503)
"""Statuses that every operation may answer: a parameter that is wrong, no token, another site, an error of the store, a store
that is not there or is busy."""
_REFERENCE = "#/components/schemas/{name}"


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document. JSON can hold it."""
    table = list(operations)
    types = [
        shapes.Error,
        *(answer.shape for each in table for answer in each.answers.values() if answer.shape is not None),
    ]
    types = list({str(kind): kind for kind in types}.values())
    found, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schemas = dict(zip(map(str, types), found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in table:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kvwal",
            "version": "1",
            "description": "What Spark's REST API has no word for. Errors are a sentence each.",
        },
        "servers": [{"url": PREFIX}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token of --token-file."}
            },
        },
    }


def _operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    responses = {str(status): _response(answer, schemas) for status, answer in operation.answers.items()}
    error = {"application/json": {"schema": schemas[str(shapes.Error)]}}
    for status in sorted({*_EVERY, *operation.errors}):
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": error}
    described: dict[str, Any] = {
        "operationId": f"{operation.method.lower()}{operation.path.replace('/{business}', '').replace('/', '_')}",
        "summary": operation.about,
        "tags": [operation.group],
        "responses": responses,
    }
    if operation.parameters:
        described["parameters"] = [_parameter(each) for each in operation.parameters]
    if operation.body is not None:
        content = {kind: {"schema": schema} for kind, schema in operation.body.content.items()}
        described["requestBody"] = {"required": operation.body.required, "content": content}
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    described = {
        "name": parameter.name,
        "in": parameter.where,
        "required": parameter.required,
        "description": parameter.about,
        "schema": parameter.schema,
    }
    return described | ({"example": parameter.example} if parameter.example else {})


def _response(answer: Answer, schemas: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {media: {} for media in answer.media}
    if answer.shape is not None:
        content["application/json"] = {"schema": schemas[str(answer.shape)]}
    described: dict[str, Any] = {"description": answer.about}
    if content:
        described["content"] = content
    if answer.headers:
        described["headers"] = {name: {"schema": {"type": "string"}} for name in answer.headers}
    return described
