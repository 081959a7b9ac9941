"""The list of all applications as pages need it: newest first, each with the usual duration of its name; made once a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import median
from typing import NamedTuple

from kvwal.console.bodies import Refused
from kvwal.spark.queries import LAST_RUNS, RecordedApplication, applications, lasted_ms
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Application

FEWEST_RUNS = 3
"""Runs that ended well, from which their median is the usual duration of a name."""
SLOW = 1.5
"""Duration over the usual one, from which a page marks a run."""
STATUSES = ("FAILED", "KILLED", "RUNNING", "DETACHED", "SUCCEEDED")


class Listed(NamedTuple):
    """An application in the list: the text that a search looks at, and the usual duration of its name; 0 without one."""

    prefix: str
    app: Application
    text: str
    usual_ms: int

    @property
    def of_usual(self) -> float:
        """The duration over the usual one; 0 if either is not known."""
        return lasted_ms(self.app) / self.usual_ms if self.usual_ms else 0.0


class Listing(NamedTuple):
    """All applications, newest first, how many have each status, and the names and users that they have.

    Users are sorted by how many applications they have.
    """

    every: list[Listed]
    counts: Counter[str]
    by_name: Mapping[str, list[Listed]]
    users: list[str]


class Filter(NamedTuple):
    """What a person asks the list for. Times are Unix milliseconds; 0 for none."""

    words: tuple[str, ...] = ()
    status: str = ""
    name: str = ""
    user: str = ""
    after: int = 0
    before: int = 0

    @property
    def takes_all(self) -> bool:
        """Whether every application is asked for. Its status is not looked at."""
        return self._replace(status="") == Filter()

    def takes(self, listed: Listed) -> bool:
        """Whether an application is asked for. Its status is not looked at."""
        app = listed.app
        return (
            (not self.name or app.name == self.name)
            and (not self.user or app.user == self.user)
            and app.started >= self.after
            and (not self.before or app.started < self.before)
            and all(word in listed.text for word in self.words)
        )


def listing(records: RecordReader) -> Listing:
    """The list. `View.made_of_records` makes it."""
    by_name: dict[str, list[RecordedApplication]] = {}
    users: dict[str, int] = {}
    ordered = applications(records)[::-1]
    for each in ordered:
        by_name.setdefault(each.app.name, []).append(each)
        users[each.app.user] = users.get(each.app.user, 0) + 1
    usual = {name: _usual_ms(runs) for name, runs in by_name.items()}
    every = [
        Listed(prefix, app, f"{app.name}\n{prefix}\n{app.user}".lower(), usual[app.name]) for prefix, app in ordered
    ]
    named: dict[str, list[Listed]] = {}
    for listed in every:
        named.setdefault(listed.app.name, []).append(listed)
    counts = Counter(each.app.status for each in every)
    return Listing(every, counts, named, sorted(users, key=lambda user: (-users[user], user)))


def _usual_ms(newest_first: list[RecordedApplication]) -> int:
    """The median duration of the last runs that ended well; 0 if they are few."""
    ended = [each.app.duration_ms for each in newest_first if each.app.status == "SUCCEEDED" and each.app.duration_ms]
    return round(median(ended[:LAST_RUNS])) if len(ended) >= FEWEST_RUNS else 0


def filter_of(query: Mapping[str, str]) -> Filter:
    """The filter that the parameters of an address name. Raises `Refused` for a time that is none."""
    status = query.get("status", "").upper()
    if status and status not in STATUSES:
        raise Refused(400, f"There is no status {status[:40]!r}: it is one of {', '.join(STATUSES)}.")
    return Filter(
        tuple(query.get("q", "").lower().split()), status, query.get("name", ""), query.get("user", ""),
        _moment(query, "from"), _moment(query, "to"),
    )  # fmt: skip


def _moment(query: Mapping[str, str], name: str) -> int:
    """A time of an address in Unix milliseconds: UTC unless it has a zone; 0 if it is not there."""
    text = query.get(name, "")
    if not text:
        return 0
    try:
        when = datetime.fromisoformat(text)
        return max(1, int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError) as error:
        raise Refused(400, f"{name}={text[:40]!r} is no time: write it as 2026-01-31 or 2026-01-31T12:00.") from error
