"""The same values in the words of the generated bindings. Loaded only inside a component."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from componentize_py_types import Err
from wit_world.imports import context, log, types

from . import errors, host
from .item import Item, TraceRef
from .model import Completion, Request, TokenLogprob
from .registry import Evaluator, Plugin
from .score import Score, Spec
from .trace import Observation, TraceInfo

# A plug-in without slots and traces is built without these imports.
try:
    from wit_world.imports import model
except ImportError:
    model = None
try:
    from wit_world.imports import trace_reader
except ImportError:
    trace_reader = None

_NOT_BUILT = "this plug-in was built without the capability: declare {} in @evaluator and build it again"
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
    """An error as the export raises it."""
    return Err(_ERRORS[error.case](error.message))


def _case(error: Any) -> tuple[str, str]:
    """`ModelError_RateLimited("text")` as ("rate-limited", "text")."""
    name = type(error).__name__.split("_", 1)[1]
    kind = "".join("-" + letter.lower() if letter.isupper() else letter for letter in name)[1:]
    return kind, getattr(error, "value", "")


class Wasm(host.Host):
    """The server, through the imports of the component."""

    def seed(self) -> int:
        return context.seed()

    def run_time(self) -> int:
        return context.run_time()

    def log(self, level: str, message: str, fields: str | None) -> None:
        log.log(_LEVELS[level], message, fields)

    def complete(self, requests: Sequence[Request]) -> list[Completion | errors.ModelError]:
        if model is None:
            raise errors.ModelError("not-granted", _NOT_BUILT.format("slots=[...]"))
        wanted = [_request(request) for request in requests]
        if len(wanted) == 1:
            try:
                return [_completion(model.complete(wanted[0]))]
            except Err as error:
                return [errors.ModelError(*_case(error.value))]
        answers = model.complete_all(wanted)
        return [
            errors.ModelError(*_case(answer.value)) if isinstance(answer, Err) else _completion(answer.value)
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
        info = _trace_call(lambda reader: reader.get_trace(trace_id))
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
        def call(reader: Any) -> Any:
            wanted = [getattr(reader.ObservationKind, kind.upper()) for kind in kinds]
            chosen = reader.ObservationFilter(parent_id=parent_id, kinds=wanted, name=name)
            return reader.list_observations(trace_id, chosen, cursor, limit)

        page = _trace_call(call)
        return [_observation(head) for head in page.observations], page.next_cursor

    def read(self, part: str, trace_id: str, observation_id: str) -> Any:
        read = _trace_call(lambda reader: getattr(reader, f"read_{part}")(trace_id, observation_id))
        if read is None:
            return None
        return (True, read) if part == "metadata" else _raw(read)


def _trace_call(call: Any) -> Any:
    if trace_reader is None:
        raise errors.TraceError("not-granted", _NOT_BUILT.format('needs=["trace"]'))
    try:
        return call(trace_reader)
    except Err as error:
        raise errors.TraceError(*_case(error.value)) from None


def _request(request: Request) -> Any:
    roles = {"system": model.Role.SYSTEM, "user": model.Role.USER, "assistant": model.Role.ASSISTANT}

    def text(value: Any) -> str | None:
        return None if value is None else json.dumps(value, ensure_ascii=False)

    return model.CompletionRequest(
        slot=request.slot,
        messages=[model.Message(role=roles[role], content=content) for role, content in request.pairs()],
        response_schema=text(request.schema),
        temperature=request.temperature,
        top_p=request.top_p,
        max_output_tokens=request.max_output_tokens,
        seed=request.seed,
        stop=list(request.stop),
        top_logprobs=request.top_logprobs,
        cache=getattr(model.CacheMode, request.cache.upper()),
        extra=text(request.extra),
    )


def _completion(answer: Any) -> Completion:
    return Completion(
        text=answer.text,
        structured=None if answer.structured is None else json.loads(answer.structured),
        finish=answer.finish.name.lower().replace("_", "-"),
        input_tokens=answer.usage.input_tokens,
        output_tokens=answer.usage.output_tokens,
        logprobs=[
            TokenLogprob(one.token, one.logprob, [(other.token, other.logprob) for other in one.alternatives])
            for one in answer.logprobs
        ],
        model=answer.model,
        from_cache=answer.from_cache,
    )


def _observation(head: Any) -> Observation:
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


def _raw(payload: Any) -> tuple[bool, str]:
    return (isinstance(payload, types.Payload_Json), payload.value)


def item(given: Any) -> Item:
    """The item as authors see it."""
    parts = {"input": given.input, "output": given.output, "expected_output": given.expected_output}
    raw = {name: _raw(payload) for name, payload in parts.items() if payload is not None}
    trace = given.trace and TraceRef(given.trace.trace_id, given.trace.observation_id)
    return Item(given.id, raw, given.metadata, trace)


def score(given: Score) -> types.Score:
    """A score as the export returns it."""
    value: Any
    if isinstance(given.value, bool):
        value = types.ScoreValue_Boolean(given.value)
    elif isinstance(given.value, str):
        value = types.ScoreValue_Categorical(given.value)
    else:
        value = types.ScoreValue_Numeric(float(given.value))
    return types.Score(given.name, value, given.observation_id, given.comment, given.metadata_json())


def description(plugin: Plugin) -> types.PluginInfo:
    """The plug-in as the export describes it."""
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
