"""Conversions to and from the types of the generated bindings. Loaded only inside a component."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from componentize_py_types import Err
from wit_world.imports import context, log, types

from . import completions, errors, host, reading
from .item import Item
from .model import Completion, Request
from .registry import Evaluator, Plugin
from .run import RunInfo, RunItem
from .score import Score, Spec
from .session import SessionInfo
from .trace import Hit, Observation, OutlineEntry, Slice, TraceInfo

# A plug-in without slots or traces is built without these imports.
try:
    from wit_world.imports import model
except ImportError:
    model = None
try:
    from wit_world.imports import run_reader, session_reader, trace_reader
except ImportError:
    run_reader = session_reader = trace_reader = None

_NOT_BUILT = "the plug-in was built without the capability: declare {} in @evaluator and rebuild it"
#: The maximum number of concurrent requests.
_MAX_AT_ONCE = 64
_ERRORS = {
    "invalid-config": types.EvalError_InvalidConfig,
    "invalid-input": types.EvalError_InvalidInput,
    "not-applicable": types.EvalError_NotApplicable,
    "upstream": types.EvalError_Upstream,
    "transient": types.EvalError_Transient,
    "internal": types.EvalError_Internal,
}
_LEVELS = {name: getattr(log.Level, name.upper()) for name in ("debug", "info", "warn", "error")}


def raised(error: errors.EvalError) -> Err:
    """The error for the export."""
    return Err(_ERRORS[error.case](error.message))


def _case(error: Any) -> tuple[str, str]:
    """`ModelError_RateLimited("text")` as ("rate-limited", "text")."""
    name = type(error).__name__.split("_", 1)[1]
    kind = "".join("-" + letter.lower() if letter.isupper() else letter for letter in name)[1:]
    return kind, getattr(error, "value", "")


class Wasm(host.Host):
    """The host, through the imports of the component."""

    def seed(self) -> int:
        return context.seed()

    def run_time(self) -> int:
        return context.run_time()

    def log(self, level: str, message: str, fields: str | None) -> None:
        log.log(_LEVELS[level], message, fields)

    def complete(self, requests: Sequence[Request]) -> list[Completion | errors.ModelError]:
        if model is None:
            raise errors.ModelError("not-granted", _NOT_BUILT.format("slots=[...]"))
        if _MAX_AT_ONCE < len(requests):
            # Each is a handle, and the host ends a call with too many handles.
            message = f"complete_all must have at most {_MAX_AT_ONCE} requests, got {len(requests)}"
            return [errors.ModelError("invalid-request", message) for _ in requests]
        resources = [completions.request(model, request) for request in requests]
        if len(resources) == 1:
            try:
                return [completions.completion(model, model.complete(resources[0]))]
            except Err as error:
                return [errors.ModelError(*_case(error.value))]
        answers = model.complete_all(resources)
        return [
            errors.ModelError(*_case(answer.value))
            if isinstance(answer, Err)
            else completions.completion(model, answer.value)
            for answer in answers
        ]

    def embed(self, slot: str | None, texts: Sequence[str]) -> list[list[float]]:
        if model is None:
            raise errors.ModelError("not-granted", _NOT_BUILT.format("slots=[...]"))
        try:
            return model.embed(slot, list(texts))
        except Err as error:
            raise errors.ModelError(*_case(error.value)) from None

    def get_trace(self, trace_id: str) -> TraceInfo:
        return reading.trace_info(_read(trace_reader, lambda: trace_reader.get_trace(trace_id)))

    def list_observations(
        self,
        trace_id: str,
        *,
        parent_id: str | None,
        kinds: Sequence[str],
        name: str | None,
        cursor: str | None,
        limit: int,
    ) -> tuple[list[Observation], str | None]:
        def call() -> Any:
            kind_values = [getattr(trace_reader.ObservationKind, kind.upper()) for kind in kinds]
            chosen = trace_reader.ObservationFilter(parent_id=parent_id, kinds=kind_values, name=name)
            return trace_reader.list_observations(trace_id, chosen, cursor, limit)

        page = _read(trace_reader, call)
        return [reading.observation(head) for head in page.observations], page.next_cursor

    def read(self, part: str, trace_id: str, observation_id: str) -> Any:
        read = _read(trace_reader, lambda: getattr(trace_reader, f"read_{part}")(trace_id, observation_id))
        if read is None:
            return None
        return (True, read) if part == "metadata" else reading.raw(read)

    def outline(
        self, trace_id: str, *, parent_id: str | None, cursor: str | None, limit: int
    ) -> tuple[list[OutlineEntry], str | None]:
        page = _read(trace_reader, lambda: trace_reader.outline(trace_id, parent_id, cursor, limit))
        return [reading.outline_entry(entry) for entry in page.entries], page.next_cursor

    def search(self, trace_id: str, text: str, limit: int) -> list[Hit]:
        limit = reading.within(limit, 32)
        hits = _read(trace_reader, lambda: trace_reader.search(trace_id, text, limit))
        return [reading.hit(one) for one in hits]

    def read_range(self, trace_id: str, observation_id: str, part: str, offset: int, length: int) -> Slice | None:
        offset, length = reading.within(offset, 64), reading.within(length, 32)

        def call() -> Any:
            named = getattr(trace_reader.ObservationPart, part.upper())
            return trace_reader.read_range(trace_id, observation_id, named, offset, length)

        found = _read(trace_reader, call)
        return None if found is None else Slice(found.text, found.offset, found.total, found.is_json)

    def get_session(self, session_id: str) -> SessionInfo:
        info = _read(session_reader, lambda: session_reader.get_session(session_id))
        return SessionInfo(info.id, info.trace_count, info.start, info.end, list(info.user_ids))

    def list_traces(self, session_id: str, *, cursor: str | None, limit: int) -> tuple[list[TraceInfo], str | None]:
        page = _read(session_reader, lambda: session_reader.list_traces(session_id, cursor, limit))
        return [reading.trace_info(info) for info in page.traces], page.next_cursor

    def get_run(self, run_id: str) -> RunInfo:
        info = _read(run_reader, lambda: run_reader.get_run(run_id))
        return RunInfo(info.id, info.name, info.dataset_id, reading.parsed(info.metadata), info.item_count)

    def list_items(self, run_id: str, *, cursor: str | None, limit: int) -> tuple[list[RunItem], str | None]:
        page = _read(run_reader, lambda: run_reader.list_items(run_id, cursor, limit))
        return [reading.run_item(one) for one in page.items], page.next_cursor


def _read(reader: Any, call: Callable[[], Any]) -> Any:
    if reader is None:
        raise errors.TraceError("not-granted", _NOT_BUILT.format('needs=["trace"]'))
    try:
        return call()
    except Err as error:
        raise errors.TraceError(*_case(error.value)) from None


def item(given: Any) -> Item:
    """The item of the SDK."""
    parts = {"input": given.input, "output": given.output, "expected_output": given.expected_output}
    raw = {name: reading.raw(payload) for name, payload in parts.items() if payload is not None}
    return Item(given.id, raw, given.metadata, reading.trace_ref(given.trace), given.session, given.run)


def score(given: Score) -> types.Score:
    """The score for the export."""
    value: Any
    if isinstance(given.value, bool):
        value = types.ScoreValue_Boolean(given.value)
    elif isinstance(given.value, str):
        value = types.ScoreValue_Categorical(given.value)
    else:
        value = types.ScoreValue_Numeric(float(given.value))
    return types.Score(given.name, value, given.observation_id, given.comment, given.metadata_json())


def description(plugin: Plugin) -> types.PluginInfo:
    """The description of the plug-in for the export."""
    evaluators = [_evaluator_info(one) for one in plugin.evaluators.values()]
    return types.PluginInfo(plugin.name, plugin.version, plugin.description, evaluators)


def _evaluator_info(one: Evaluator) -> types.EvaluatorInfo:
    needs = types.ItemParts(0)
    for part in one.needs:
        needs |= getattr(types.ItemParts, part.upper())
    slots = [
        types.ModelSlot(slot.name, slot.description, getattr(types.SlotKind, slot.kind.upper()), slot.required)
        for slot in one.slots
    ]
    return types.EvaluatorInfo(
        id=one.id,
        title=one.title,
        description=one.description,
        config_schema=json.dumps(one.config_schema, ensure_ascii=False),
        needs=needs,
        slots=slots,
        scores=[types.ScoreSpec(spec.name, spec.description, _domain(spec)) for spec in one.scores],
        dynamic_scores=one.dynamic_scores,
        deterministic=one.deterministic,
    )


def _domain(spec: Spec) -> Any:
    if spec.kind == "boolean":
        return types.ScoreDomain_Boolean()
    if spec.kind == "categorical":
        return types.ScoreDomain_Categorical(list(spec.categories))
    minimum = None if spec.minimum is None else float(spec.minimum)
    maximum = None if spec.maximum is None else float(spec.maximum)
    return types.ScoreDomain_Numeric(types.NumericRange(minimum, maximum, spec.higher_is_better))
