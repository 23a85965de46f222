"""Reads the recorded execution behind an item, piece by piece. The evaluator asks for it with
`needs=("trace", ...)`; `item.trace` says what may be read."""

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
_PAGE = 500


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
    """An observation without its bulky parts."""

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
    #: Bytes that reading it would take.
    input_size: int = 0
    output_size: int = 0


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
    """The observations of a trace by start time; further pages are loaded when they are reached."""
    for kind in kinds:
        if kind not in KINDS:
            raise TraceError("not-found", f"no kind {kind!r}: {', '.join(KINDS)}")
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


def _value(raw: Raw | None) -> Any:
    if raw is None:
        return None
    return json.loads(raw[1]) if raw[0] else raw[1]
