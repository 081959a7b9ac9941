"""Close of a filesystem's connections to S3 when the filesystem is collected: in the event loop that the connections belong to.

s3fs closes them in the loop that runs in the collecting thread. In a program with asyncio that is often the program's own: the
connections stayed open, and asyncio logged a traceback ("attached to a different loop").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


def close_in_own_loop(filesystem: Any) -> None:
    """Let a filesystem of s3fs close its connections in fsspec's loop. Call it before the first request."""
    filesystem.close_session = _close


def _close(loop: asyncio.AbstractEventLoop | None, creator: Any) -> None:
    """In place of S3FileSystem.close_session: `creator` is the context manager that has made the client of S3."""
    import asyncio  # here, because `kvwal get` imports this module and must be fast

    from s3fs import S3FileSystem

    try:
        here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        here = None
    if loop is None or here is None or here is loop or not loop.is_running():
        S3FileSystem.close_session(loop, creator)
    else:  # the thread that collects must not wait: it may be in the middle of anything
        asyncio.run_coroutine_threadsafe(creator.__aexit__(None, None, None), loop)
