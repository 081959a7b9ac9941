"""Addresses of pages, built in one place. Every part of one is quoted, so a name with any character stays one part."""

from __future__ import annotations

from urllib.parse import quote, urlencode


def app(prefix: str, *more: object) -> str:
    """The page of an application, by the prefix of its keys; with more parts, a page below it."""
    return "/app/" + "/".join([quote(prefix, safe="/"), *(quote(str(part), safe="") for part in more)])


def job(prefix: str, number: int) -> str:
    """The page of a job."""
    return app(prefix, "job", number)


def stage(prefix: str, number: int, attempt: int) -> str:
    """The page of one attempt of a stage."""
    return app(prefix, "stage", number, attempt)


def execution(prefix: str, number: int) -> str:
    """The page of an SQL execution."""
    return app(prefix, "sql", number)


def stream(prefix: str, query: str) -> str:
    """The page of a streaming query, by its id."""
    return app(prefix, "stream", query)


def runs(name: str) -> str:
    """The page of all runs of a name."""
    return f"/runs?{urlencode({'name': name})}"


def comparison(one: str, other: str) -> str:
    """The page of two applications side by side, by the prefixes of their keys."""
    return f"/compare?{urlencode({'a': one, 'b': other})}"


def lineage(dataset: str) -> str:
    """The page of the lineage of a data set."""
    return f"/lineage?{urlencode({'dataset': dataset})}"
