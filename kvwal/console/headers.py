"""Headers of every answer: what a browser may load, run, and show of it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "font-src 'self'",
        "connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
    )
)  # fmt: skip
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


def with_headers(application: ASGIApp) -> ASGIApp:
    """The application, with these headers in each answer. A browser keeps no answer, unless the answer says so."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                added = [each for each in (*_HEADERS, (b"cache-control", b"no-store")) if each[0] not in own]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await application(scope, receive, send_with_headers)

    return answered
