"""Reading of the recorded execution of an item. It requires `needs=("trace", ...)`. The trace of `item.trace` can be read,
and each trace of `item.session` and `item.run`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import host
from .errors import TraceError
from .item import Raw

KINDS = (
    "span",
    "generation",
    "event",
    "agent",
    "tool",
    "chain",
    "retriever",
    "evaluator",
    "embedding",
    "guardrail",
)
#: Parts of an observation that can be large.
PARTS = ("input", "output", "metadata")
_PAGE = 500
#: The maximum length of a range.
_RANGE = 1 << 20


@dataclass
class TraceInfo:
    """A trace without its observations."""

    id: str
    name: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    #: Milliseconds since 1970.
    start: int = 0
    tags: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    observation_count: int = 0


@dataclass
class Observation:
    """An observation without its large parts."""

    id: str
    #: One of `KINDS`.
    kind: str = "span"
    parent_id: str | None = None
    name: str | None = None
    start: int = 0
    end: int | None = None
    #: `debug`, `standard`, `warning` or `error`.
    severity: str = "standard"
    status_message: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    #: Size in bytes.
    input_size: int = 0
    output_size: int = 0


@dataclass
class OutlineEntry:
    """One line of the outline of a trace."""

    id: str
    parent_id: str | None = None
    #: 0 at the top of the requested tree.
    depth: int = 0
    #: One of `KINDS`.
    kind: str = "span"
    name: str | None = None
    severity: str = "standard"
    start: int = 0
    #: Milliseconds; None for an observation without end.
    duration: int | None = None
    #: Size in bytes.
    input_size: int = 0
    output_size: int = 0
    #: Direct children.
    child_count: int = 0


@dataclass
class Hit:
    """An occurrence of a text."""

    observation_id: str
    #: One of `PARTS`.
    part: str
    #: Byte offset in the part, as for `read_range`.
    offset: int
    #: The occurrence with about 100 bytes on each side.
    excerpt: str


@dataclass
class Slice:
    """A range of one part."""

    text: str
    #: The start in bytes, moved back to the beginning of a character.
    offset: int = 0
    #: The size of the whole part in bytes.
    total: int = 0
    #: True when the whole part is JSON, and not the text of a JSON string.
    is_json: bool = False


def get(trace_id: str) -> TraceInfo:
    """The head of a trace. Raises `TraceError`."""
    return host.current.get_trace(trace_id)


def observations(
    trace_id: str,
    *,
    parent_id: str | None = None,
    kinds: Sequence[str] = (),
    name: str | None = None,
) -> Iterator[Observation]:
    """The observations of a trace by start time; further pages are loaded on demand."""
    for kind in kinds:
        if kind not in KINDS:
            raise TraceError("not-found", f"the kind must be one of {', '.join(KINDS)}; got {kind!r}")
    cursor = None
    while True:
        page, cursor = host.current.list_observations(
            trace_id, parent_id=parent_id, kinds=kinds, name=name, cursor=cursor, limit=_PAGE
        )
        yield from page
        if cursor is None:
            return


def read_input(trace_id: str, observation_id: str) -> Any:
    """The input of an observation; None when it has none."""
    return _value(host.current.read("input", trace_id, observation_id))


def read_output(trace_id: str, observation_id: str) -> Any:
    """The output of an observation; None when it has none."""
    return _value(host.current.read("output", trace_id, observation_id))


def read_metadata(trace_id: str, observation_id: str) -> dict[str, Any]:
    """The metadata of an observation; empty when it has none."""
    return _value(host.current.read("metadata", trace_id, observation_id)) or {}


def outline(trace_id: str, parent_id: str | None = None) -> Iterator[OutlineEntry]:
    """The tree of a trace, or the subtree below one observation: depth first, children by start. Further pages are loaded on
    demand. A trace of more than 50,000 observations has no outline: `TraceError`, `too-large`."""
    cursor = None
    while True:
        page, cursor = host.current.outline(trace_id, parent_id=parent_id, cursor=cursor, limit=_PAGE)
        yield from page
        if cursor is None:
            return


def search(trace_id: str, text: str, limit: int = 100) -> list[Hit]:
    """The occurrences of a text of 1 to 1,000 bytes in the inputs, outputs and metadata of a trace, ignoring case; at most
    100."""
    return host.current.search(trace_id, text, limit)


def read_range(trace_id: str, observation_id: str, part: str, offset: int = 0, length: int = _RANGE) -> Slice | None:
    """`length` bytes, at most 1 MiB, of the input, output or metadata from byte `offset`; both ends move back to the
    beginning of a character. None when the observation has no such part."""
    if part not in PARTS:
        raise TraceError("not-found", f"the part must be one of {', '.join(PARTS)}; got {part!r}")
    return host.current.read_range(trace_id, observation_id, part, offset, min(length, _RANGE))


def _value(raw: Raw | None) -> Any:
    if raw is None:
        return None
    return json.loads(raw[1]) if raw[0] else raw[1]
