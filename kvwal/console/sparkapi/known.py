"""What is known of an application: its state from a kept log, or its records."""

from __future__ import annotations

from kvwal.console.bodies import Refused
from kvwal.console.sparkapi.applications import recorded
from kvwal.console.sparkapi.parameters import not_found
from kvwal.console.sparkapi.serving import Asked
from kvwal.console.sparkstate.state import State


def state_of(asked: Asked) -> State | None:
    """The state of an application; None if its event log is not kept, and only its records answer."""
    prefix, _ = recorded(asked)
    return asked.states.state_of(asked.view, prefix)


def kept_state(asked: Asked, what: str) -> State:
    """The state of an application. Refuses a question that records do not answer, if its event log is not kept."""
    state = state_of(asked)
    if state is None:
        raise nothing_kept(asked, what)
    return state


def nothing_kept(asked: Asked, what: str) -> Refused:
    """The answer to a question that records do not answer."""
    return not_found(
        f"{what} of {asked.key} is not known: records do not have it, and the event log of {asked.key} is not kept here."
        " Keep logs with: kvwal record LOCATION EVENTLOG_OR_DIR… --keep-logs"
    )
