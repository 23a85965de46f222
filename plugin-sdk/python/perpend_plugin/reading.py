"""Traces, sessions and runs from the types of the generated bindings. Loaded only inside a component."""

from __future__ import annotations

import json
from typing import Any

from wit_world.imports import types

from .item import Raw, TraceRef
from .run import RunItem
from .trace import Hit, Observation, OutlineEntry, TraceInfo


def raw(payload: Any) -> Raw:
    """The payload of a value."""
    return (isinstance(payload, types.Payload_Json), payload.value)


def parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def within(number: int, bits: int) -> int:
    """The nearest number in the range of the type in the contract."""
    return min(max(int(number), 0), (1 << bits) - 1)


def trace_ref(given: Any) -> TraceRef | None:
    return None if given is None else TraceRef(given.trace_id, given.observation_id)


def trace_info(info: Any) -> TraceInfo:
    return TraceInfo(
        id=info.id,
        name=info.name,
        session_id=info.session_id,
        user_id=info.user_id,
        start=info.start,
        tags=list(info.tags),
        metadata=json.loads(info.metadata) if info.metadata else {},
        observation_count=info.observation_count,
    )


def observation(head: Any) -> Observation:
    return Observation(
        id=head.id,
        kind=head.kind.name.lower(),
        parent_id=head.parent_id,
        name=head.name,
        start=head.start,
        end=head.end,
        severity=head.severity.name.lower(),
        status_message=head.status_message,
        model=head.model,
        input_tokens=head.input_tokens,
        output_tokens=head.output_tokens,
        input_size=head.input_size,
        output_size=head.output_size,
    )


def outline_entry(entry: Any) -> OutlineEntry:
    return OutlineEntry(
        id=entry.id,
        parent_id=entry.parent_id,
        depth=entry.depth,
        kind=entry.kind.name.lower(),
        name=entry.name,
        severity=entry.severity.name.lower(),
        start=entry.start,
        duration=entry.duration_ms,
        input_size=entry.input_size,
        output_size=entry.output_size,
        child_count=entry.child_count,
    )


def hit(found: Any) -> Hit:
    return Hit(found.observation_id, found.part.name.lower(), found.offset, found.excerpt)


def run_item(one: Any) -> RunItem:
    return RunItem(
        id=one.id,
        dataset_item_id=one.dataset_item_id,
        trace=trace_ref(one.trace),
        input=_value(one.input),
        output=_value(one.output),
        expected_output=_value(one.expected_output),
        metadata=parsed(one.metadata),
    )


def _value(payload: Any) -> Any:
    if payload is None:
        return None
    is_json, text = raw(payload)
    return json.loads(text) if is_json else text
