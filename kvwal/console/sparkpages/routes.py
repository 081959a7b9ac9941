"""The paths of the pages about Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from kvwal.console.answers import guarded
from kvwal.console.bodies import Refused
from kvwal.console.pages.rendering import Pages, Shown
from kvwal.console.pages.tables import Link, address
from kvwal.console.parts import Console
from kvwal.console.shared_reader import View
from kvwal.console.sparkpages.application import application_page, failures_page
from kvwal.console.sparkpages.applications import applications_page
from kvwal.console.sparkpages.comparison import comparison_page
from kvwal.console.sparkpages.execution import execution_page, job_page, plan_text
from kvwal.console.sparkpages.lists import NAMES, list_page
from kvwal.console.sparkpages.machines import executors_page, settings_page
from kvwal.console.sparkpages.runs import runs_page
from kvwal.console.sparkpages.stage import stage_page
from kvwal.console.sparkpages.streams import stream_page, streams_of_application, streams_page
from kvwal.console.sparkreads.app_records import SKEWED, application_of
from kvwal.console.sparkreads.digest import Digests
from kvwal.spark.queries import RecordedApplication


class Asked:
    """A request for a page: the parameters of its path and its address, and the links and commands that the page shows."""

    def __init__(self, request: Request, pages: Pages) -> None:
        self.path: Mapping[str, str] = request.path_params
        self.query: Mapping[str, str] = request.query_params
        self.link: Link = partial(address, request)
        self.command = pages.command

    def number(self, name: str = "number") -> int:
        """A number of the path. Raises `Refused` for one that no record has."""
        value = int(self.path[name])
        if value > _MOST_NUMBER:
            raise Refused(404, f"There is no number {value} here.")
        return value


_MOST_NUMBER = 10**10 - 1
Question = Callable[[View, Asked], Shown]
AppQuestion = Callable[[View, Asked, RecordedApplication], Shown]


def routes(console: Console) -> list[BaseRoute]:
    """The routes of the pages about Spark."""
    pages, digests = Pages(console), Digests(SKEWED)

    def route(path: str, question: Question) -> Route:
        async def show(request: Request) -> Response:
            asked = Asked(request, pages)
            return await pages.show(request, lambda view: question(view, asked))

        return Route(path, guarded(console.access, show, pages.error))

    def plan_route(path: str) -> Route:
        async def show(request: Request) -> Response:
            asked = Asked(request, pages)

            def question(view: View) -> Response:
                found = application_of(view, asked.path["app"], asked.path.get("attempt"))
                return plan_text(view.records, found, asked.number())

            return await console.reads.ask(question)

        return Route(path, guarded(console.access, show, pages.error))

    def of_application(path: str, question: AppQuestion) -> list[BaseRoute]:
        """The routes of a page of an application, with and without an attempt."""

        def asked_of(view: View, asked: Asked) -> Shown:
            return question(view, asked, application_of(view, asked.path["app"], asked.path.get("attempt")))

        return [route("/app/{app}" + path, asked_of), route("/app/{app}/{attempt:int}" + path, asked_of)]

    plan = "/sql/{number:int}/plan"
    return [
        route("/", _applications), plan_route("/app/{app}" + plan), plan_route("/app/{app}/{attempt:int}" + plan),
        *of_application("", lambda view, asked, found: application_page(
            view, digests, found, asked.command("jobs", found.prefix))),
        *of_application("/failures", lambda view, asked, found: failures_page(
            view.records, found, asked.command("jobs", found.prefix, "--failed"))),
        *of_application("/sql/{number:int}", lambda view, asked, found: execution_page(
            view.records, found, asked.number(), asked.command("jobs", found.prefix, "--json"))),
        *of_application("/stage/{number:int}/{of:int}", lambda view, asked, found: stage_page(
            view, found, asked.number(), asked.number("of"),
            (asked.command("jobs", found.prefix, "--tasks", f"{asked.number()}.{asked.number('of')}"),
             asked.command("jobs", found.prefix, "--json")))),
        *of_application("/job/{number:int}", lambda view, asked, found: job_page(
            view.records, found, asked.number(), asked.command("jobs", found.prefix, "--json"))),
        *of_application("/executors", lambda view, asked, found: executors_page(
            view.records, found, asked.command("jobs", found.prefix, "--json"))),
        *of_application("/settings", lambda view, asked, found: settings_page(
            view.records, found, asked.command("jobs", found.prefix, "--json"))),
        *of_application("/streams", lambda view, asked, found: streams_of_application(
            view.records, found, asked.command("jobs", found.prefix))),
        *of_application("/stream/{query:path}", lambda view, asked, found: stream_page(
            view.records, found, asked.path["query"], asked.command("jobs", found.prefix))),
        route("/runs", _runs), route("/compare", _compared), route("/streams", _streams),
        *(each for name in NAMES for each in of_application(f"/{name}", partial(_list, name))),
    ]  # fmt: skip


def _applications(view: View, asked: Asked) -> Shown:
    query = asked.query
    failed = ("--failed",) if query.get("status", "").upper() == "FAILED" else ()
    since = ("--since", query["from"]) if query.get("from") else ()
    return applications_page(view, query, asked.link, asked.command("jobs", *failed, *since))


def _runs(view: View, asked: Asked) -> Shown:
    return runs_page(view, asked.query, asked.command("jobs", "--runs", asked.query.get("name", "")))


def _compared(view: View, asked: Asked) -> Shown:
    app = view.records.application(asked.query.get("b", ""))
    return comparison_page(view, asked.query, asked.command("jobs", "--runs", app.name) if app is not None else "")


def _streams(view: View, asked: Asked) -> Shown:
    return streams_page(view, asked.query, asked.link, asked.command("jobs"))


def _list(name: str, view: View, asked: Asked, found: RecordedApplication) -> Shown:
    return list_page(
        view.records, found, name, asked.query, asked.link, asked.command("jobs", found.prefix, "--limit", "0")
    )
