"""The paths of Spark's REST API."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from starlette.routing import Route

from kvwal.console.parts import Console
from kvwal.console.sparkapi import applications, environment, executors, jobs, sql, stages, tasks
from kvwal.console.sparkapi.logs import log_routes
from kvwal.console.sparkapi.parameters import not_found
from kvwal.console.sparkapi.serving import ROOT, Asked, Question, handler_of, routes_of, routes_of_application
from kvwal.console.sparkstate.recent import Recent
from kvwal.ports.clock import SYSTEM

_STAGE, _ATTEMPT = "/stages/{stage:int}", "/stages/{stage:int}/{stage_attempt:int}"
_OF_APPLICATION: list[tuple[str, Question]] = [
    ("/jobs", jobs.list_jobs),
    ("/jobs/{job:int}", jobs.one_job),
    ("/stages", stages.list_stages),
    (_STAGE, stages.one_stage),
    (_ATTEMPT, stages.one_attempt),
    (f"{_ATTEMPT}/taskSummary", tasks.task_summary),
    (f"{_ATTEMPT}/taskList", tasks.list_tasks),
    ("/executors", executors.list_active),
    ("/executors/{executor}/threads", executors.threads),
    ("/allexecutors", executors.list_all),
    ("/allmiscellaneousprocess", executors.list_processes),
    ("/environment", environment.environment),
    ("/storage/rdd", environment.list_rdds),
    ("/storage/rdd/{rdd:int}", environment.one_rdd),
    ("/sql", sql.list_executions),
    ("/sql/{execution:int}", sql.one_execution),
    ("/streaming/{what:path}", environment.streaming),
]
"""The paths below an application, or below an attempt of it."""


def routes(console: Console) -> list[Route]:
    """The routes under /api/v1 that Spark's History Server has."""
    states = console.states
    recent = Recent(console.reads, SYSTEM, applications.listing)
    asking = partial(handler_of, console, states)
    nothing = asking(_nothing)
    return [
        *routes_of("/applications", asking(partial(applications.list_applications, recent))),
        *routes_of("/version", asking(applications.version)),
        *log_routes(console, states),
        *(route for path, question in _OF_APPLICATION for route in routes_of_application(path, asking(question))),
        *routes_of("/applications/{app}", asking(partial(applications.one_application, recent))),
        *routes_of("/applications/{app}/{attempt}", asking(partial(applications.one_attempt, recent))),
        Route(ROOT, nothing),  # else the router would send it to the next one, as 307
        Route(f"{ROOT}/{{path:path}}", nothing),
    ]


def _nothing(asked: Asked) -> NoReturn:
    raise not_found("/".join((ROOT, *asked.path.values())))
