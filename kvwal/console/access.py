"""Who may ask the console: callers that show its token; without a token, programs of this machine, and no page of the web."""

from __future__ import annotations

import hmac
from ipaddress import ip_address

from starlette.requests import Request

from kvwal.cluster.token import TokenSource

_LOCAL_NAMES = ("localhost", "localhost.localdomain")


class Access:
    """The check of a request. Without tokens the server listens on the loopback address only."""

    def __init__(self, tokens: TokenSource | None) -> None:
        self._tokens = tokens

    def refusal(self, request: Request) -> str | None:
        """Why this request is refused; None if it is not."""
        if self._tokens is not None:
            shown = request.headers.get("authorization", "").encode()
            known = [hmac.compare_digest(shown, f"Bearer {each.reveal()}".encode()) for each in self._tokens.tokens]
            return None if any(known) else "Show the token of --token-file as Authorization: Bearer."
        host = request.headers.get("host", "")
        # A page of the web can have its own name stand for this machine, and then ask as a page of it (DNS rebinding).
        if not is_loopback_name(host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host):
            return "Without a token this server answers to localhost, 127.0.0.1 and [::1] only: another name was asked for."
        return None


def is_loopback_name(host: str) -> bool:
    """Whether a host, as it is typed or as a request names it, is this machine's loopback address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in _LOCAL_NAMES
