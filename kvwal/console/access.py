"""Who may ask the console: callers that show its token; without a token, programs of this machine, and no page of the web."""

from __future__ import annotations

import hashlib
import hmac
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request

from kvwal.cluster.token import Token, TokenSource

SESSION_COOKIE = "kvwal_session"
_LOCAL_NAMES = ("localhost", "localhost.localdomain")
_READS = ("GET", "HEAD", "OPTIONS")
_SHOW_TOKEN = "Show the token of --token-file as Authorization: Bearer, or sign in at /login with it."
_OTHER_NAME = "Without a token this server answers to localhost, 127.0.0.1 and [::1] only: another name was asked for."
_OTHER_SITE = "This request comes from a page of another site: only pages of this console may change anything."


class Refusal(NamedTuple):
    """Why a request is refused: the status of the answer, and the sentence in it."""

    status: int
    sentence: str


class Access:
    """The check of a request. Without tokens the server listens on the loopback address only."""

    def __init__(self, tokens: TokenSource | None) -> None:
        self._tokens = tokens

    @property
    def needs_token(self) -> bool:
        """Whether callers must show a token."""
        return self._tokens is not None

    def refusal(self, request: Request) -> Refusal | None:
        """Why this request is refused; None if it is not."""
        if self._tokens is None:
            host = request.headers.get("host", "")
            # A page of the web can have its own name stand for this machine, and then ask as a page of it (DNS rebinding).
            if not is_loopback_name(host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host):
                return Refusal(401, _OTHER_NAME)
        elif not self._shows_token(request):
            return Refusal(401, _SHOW_TOKEN)
        if request.method not in _READS and is_of_another_site(request):
            return Refusal(403, _OTHER_SITE)
        return None

    def session_of(self, typed: str) -> str | None:
        """The value of the session cookie for a token that was typed in; None if it is not the console's."""
        tokens = () if self._tokens is None else self._tokens.tokens
        shown = typed.strip().encode()
        known = [each for each in tokens if hmac.compare_digest(shown, each.reveal().encode())]
        return _session(known[0]) if known else None

    def _shows_token(self, request: Request) -> bool:
        """Whether a request has the token in its header, or the session of a browser that has signed in with it."""
        tokens = () if self._tokens is None else self._tokens.tokens
        shown = request.headers.get("authorization", "").encode()
        session = request.cookies.get(SESSION_COOKIE, "").encode()
        known = [
            hmac.compare_digest(shown, f"Bearer {each.reveal()}".encode())
            | hmac.compare_digest(session, _session(each).encode())
            for each in tokens
        ]
        return any(known)


def _session(token: Token) -> str:
    """The session of a token: who has it cannot tell the token, and it ends when the token is changed."""
    return hmac.new(token.reveal().encode(), b"kvwal console session", hashlib.sha256).hexdigest()


def is_of_another_site(request: Request) -> bool:
    """Whether a browser says that a page of another site makes this request. A program that is no browser says nothing."""
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host", "")


def is_loopback_name(host: str) -> bool:
    """Whether a host, as it is typed or as a request names it, is this machine's loopback address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in _LOCAL_NAMES
