"""The session under evaluation: `item.session`. Its traces can be read with `trace`, by evaluators with
`needs=("trace", ...)`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from . import host
from .trace import TraceInfo

_PAGE = 100


@dataclass
class SessionInfo:
    """A session without its traces."""

    id: str
    trace_count: int = 0
    #: Start of the first trace, in milliseconds since 1970.
    start: int = 0
    #: Start of the last trace.
    end: int = 0
    #: The users of the session, sorted; the first 100.
    user_ids: list[str] = field(default_factory=list)


def get(session_id: str) -> SessionInfo:
    """The session. Raises `TraceError`."""
    return host.current.get_session(session_id)


def traces(session_id: str) -> Iterator[TraceInfo]:
    """Its traces by start time; further pages are loaded on demand."""
    cursor = None
    while True:
        page, cursor = host.current.list_traces(session_id, cursor=cursor, limit=_PAGE)
        yield from page
        if cursor is None:
            return
