"""People who read pages of a console: each goes from page to page, and its wait for each is measured."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlencode

from benchmarks.console.process import client
from benchmarks.console.store import CHANGED_EVERY, COMPLETE_EVERY, STREAM, Filled, key, name, prefix
from benchmarks.harness import percentile
from benchmarks.questions.spark.lineage import AREA, EXECUTIONS, path
from benchmarks.questions.spark.listing import DAY, NOW
from kvwal.console.pages import addresses
from kvwal.console.storepages import places

STYLE = "/static/console.css"
"""What a page loads that no store is read for."""


class Page(NamedTuple):
    """A page that somebody looked at: its kind, and the milliseconds until the last byte of it was there."""

    kind: str
    ms: float


class Site:
    """The addresses of a console over a store that was filled. Each is drawn by chance from the ones of its kind."""

    def __init__(self, filled: Filled) -> None:
        self._filled = filled
        self.kinds: dict[str, Callable[[random.Random], str]] = {
            "applications": lambda _: "/",
            "a page of the applications": lambda chance: (
                f"/?page={chance.randint(1, max(1, filled.applications // 100))}"
            ),
            "applications by a filter": self._filtered,
            "an application": lambda chance: addresses.app(self._app(chance)),
            "its jobs": lambda chance: self._list(chance, "jobs", ("duration", "run", "read")),
            "its stages": lambda chance: self._list(chance, "stages", ("duration", "skew", "slowest")),
            "its SQL executions": lambda chance: self._list(chance, "sql", ("duration",)),
            "its failures": lambda chance: addresses.app(self._app(chance), "failures"),
            "its executors": lambda chance: addresses.app(self._app(chance), "executors"),
            "its settings": lambda chance: addresses.app(self._app(chance), "settings"),
            "its streams": lambda chance: addresses.app(self._app(chance), "streams"),
            "a stream": lambda chance: addresses.stream(self._app(chance), STREAM),
            "a job": lambda chance: addresses.job(self._app(chance), chance.randrange(filled.jobs)),
            "a stage": lambda chance: addresses.stage(self._app(chance), chance.randrange(filled.jobs), 0),
            "an SQL execution": lambda chance: addresses.execution(self._app(chance), chance.randrange(EXECUTIONS)),
            "a plan": lambda chance: f"{addresses.execution(self._app(chance), chance.randrange(EXECUTIONS))}/plan",
            "runs of a name": lambda chance: addresses.runs(name(self._number(chance))),
            "two runs": self._compared,
            "streams": lambda _: "/streams",
            "data sets": lambda chance: f"/lineage?{urlencode({'q': f'table-{chance.randrange(AREA):04}'})}",
            "lineage": lambda chance: addresses.lineage(self._dataset(chance)),
            "businesses": lambda _: "/store",
            "keys": lambda chance: places.business("items", prefix=self._key(chance, 1)[:-2]),
            "all keys": lambda _: places.business("items"),
            "keys of an earlier time": lambda chance: places.business(
                "items", prefix=self._key(chance, 1)[:-2], at=filled.earlier
            ),
            "a key": lambda chance: self._item(chance),
            "a key of an earlier time": lambda chance: self._item(chance, at=filled.earlier),
            "queues": lambda _: places.part("work", "queues"),
            "a queue": lambda _: places.part("work", "queue"),
            "contents": lambda _: places.part("files", "contents"),
            "operations": lambda _: "/operations",
        }

    def _number(self, chance: random.Random) -> int:
        """A complete application."""
        return chance.randrange(0, self._filled.applications, COMPLETE_EVERY)

    def _app(self, chance: random.Random) -> str:
        return prefix(self._number(chance))

    def _key(self, chance: random.Random, step: int) -> str:
        return key(chance.randrange(0, self._filled.keys, step))

    def _item(self, chance: random.Random, **more: str) -> str:
        """A key that has a history, or none, half of the time."""
        step = chance.choice((1, CHANGED_EVERY))
        return places.key("items", ("str", self._key(chance, step).encode()), **more)

    def _dataset(self, chance: random.Random) -> str:
        area, table = divmod(chance.randrange(self._filled.applications * EXECUTIONS), AREA)
        return path(area, table)

    def _filtered(self, chance: random.Random) -> str:
        day = time.strftime("%Y-%m-%d", time.gmtime((NOW - chance.randint(1, 99) * DAY) / 1_000))
        some: tuple[dict[str, str], ...] = (
            {"status": "FAILED"}, {"name": name(chance.randrange(self._filled.applications))}, {"sort": "-failed"},
            {"q": f"report user-{chance.randrange(9)}"}, {"user": f"user-{chance.randrange(9)}", "sort": "-duration"},
            {"from": day, "sort": "usual"},
        )  # fmt: skip
        return f"/?{urlencode(chance.choice(some))}"

    def _list(self, chance: random.Random, what: str, orders: tuple[str, ...]) -> str:
        most = EXECUTIONS if what == "sql" else self._filled.jobs
        some: tuple[dict[str, object], ...] = (
            {}, {"from": chance.randrange(most)}, {"sort": f"-{chance.choice(orders)}"}, {"status": "FAILED"}, {"q": "report"},
        )  # fmt: skip
        return f"{addresses.app(self._app(chance), what)}?{urlencode(chance.choice(some))}"

    def _compared(self, chance: random.Random) -> str:
        return addresses.comparison(self._app(chance), self._app(chance))


def first_looks(port: int, site: Site) -> list[Page]:
    """One page of each kind, one after the other."""
    chance = random.Random(0)
    with client(port) as asking:
        return [_looked(asking.get, kind, address(chance)) for kind, address in site.kinds.items()]


def reading(port: int, site: Site, people: int, seconds: float, way: int = 0) -> list[Page]:
    """The pages that `people` readers get in `seconds`: all read at the same time, and each goes to its next page at once.

    They go another way for each number `way`.
    """
    ends = time.perf_counter() + seconds

    def one(seed: int) -> list[Page]:
        chance, seen = random.Random(f"{way} {seed}"), list[Page]()
        with client(port) as asking:
            while time.perf_counter() < ends:
                kind = chance.choice(list(site.kinds))
                seen.append(_looked(asking.get, kind, site.kinds[kind](chance)))
        return seen

    with ThreadPoolExecutor(people) as pool:
        return [page for of_one in pool.map(one, range(people)) for page in of_one]


def of_style(port: int, people: int, seconds: float) -> list[Page]:
    """The same people, who ask for the style sheet again and again."""
    site = Site(Filled(COMPLETE_EVERY, 1, 1, ""))
    site.kinds = {"style": lambda _: STYLE}
    return reading(port, site, people, seconds)


def _looked(get: Callable[[str], bytes], kind: str, address: str) -> Page:
    started = time.perf_counter()
    get(address)
    return Page(kind, (time.perf_counter() - started) * 1_000)


def p99(pages: list[Page]) -> float:
    """The milliseconds within which 99 of 100 pages were there."""
    return percentile([page.ms for page in pages], 99)


def slowest_kinds(pages: list[Page], count: int) -> dict[str, float]:
    """The kinds with the highest p99, in milliseconds."""
    kinds: dict[str, list[Page]] = {}
    for page in pages:
        kinds.setdefault(page.kind, []).append(page)
    ranked = sorted(((p99(of_kind), kind) for kind, of_kind in kinds.items()), reverse=True)
    return {f"p99 of {kind}, ms": ms for ms, kind in ranked[:count]}
