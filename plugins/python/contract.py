"""The contract of evaluators from source: the argument and the result of `evaluate(ctx)`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import perpend_plugin


@dataclass
class ToolCall:
    """A tool call of the observation. Arguments that are JSON text are parsed."""

    id: str = ""
    name: str = ""
    arguments: Any = None
    type: str = ""
    index: int = 0


@dataclass
class ObservationContext:
    """The observation that is scored."""

    input: Any = None
    output: Any = None
    metadata: Any = None
    tool_calls: list[ToolCall] = field(default_factory=list)


@dataclass
class ExperimentContext:
    """The dataset item of the observation, in experiments."""

    item_expected_output: Any = None
    item_metadata: Any = None


@dataclass
class EvaluationContext:
    """The argument of `evaluate`."""

    observation: ObservationContext
    experiment: ExperimentContext | None = None


@dataclass
class Score:
    """One score."""

    name: str
    value: int | float | str | bool
    data_type: str | None = None
    comment: str | None = None
    config_id: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass
class EvaluationResult:
    """The result of `evaluate`."""

    scores: list[Score]


#: Names that an evaluator can use without importing them.
INJECTED = (ToolCall, ObservationContext, ExperimentContext, EvaluationContext, Score, EvaluationResult)

#: Members of an item's metadata that the server adds.
_TOOL_CALLS, _ITEM_METADATA = "perpend.tool_calls", "perpend.item_metadata"
_MAX_TEXT_CHARS = 500
_MAX_CATEGORY_BYTES = 256
_TRUE, _FALSE = {"true", "1"}, {"false", "0"}
_TYPES = ("NUMERIC", "BOOLEAN", "CATEGORICAL", "TEXT")


class InvalidResult(perpend_plugin.Internal):
    """The result of `evaluate` violates the contract."""

    def __init__(self, text: str) -> None:
        super().__init__(f"INVALID_RESULT: {text}")


def context(item: perpend_plugin.Item) -> EvaluationContext:
    """The argument of `evaluate` for an item."""
    metadata = item.metadata
    own = {name: value for name, value in metadata.items() if name not in (_TOOL_CALLS, _ITEM_METADATA)}
    calls = metadata.get(_TOOL_CALLS) or []
    experiment = None
    if item.given("expected_output") or _ITEM_METADATA in metadata:
        experiment = ExperimentContext(item.expected_output, metadata.get(_ITEM_METADATA))
    observation = ObservationContext(
        input=item.input,
        output=item.output,
        metadata=own if item.given("metadata") else None,
        tool_calls=[_tool_call(call, index) for index, call in enumerate(calls)],
    )
    return EvaluationContext(observation, experiment)


def _tool_call(call: Mapping[str, Any], index: int) -> ToolCall:
    return ToolCall(
        id=call.get("id") or "",
        name=call.get("name") or "",
        arguments=call.get("arguments"),
        type=call.get("type") or "",
        index=call.get("index", index),
    )


def scores(result: Any) -> list[perpend_plugin.Score]:
    """The scores in the result of `evaluate`. An empty list means that there is nothing to report."""
    found = _member(result, "scores")
    if found is None:
        kind = "nothing" if result is None else f"a {type(result).__name__}"
        raise InvalidResult(f"evaluate must return EvaluationResult(scores=[...]), got {kind}")
    if isinstance(found, (str, bytes, Mapping)) or not hasattr(found, "__iter__"):
        raise InvalidResult(f"`scores` must be a list, got {type(found).__name__}")
    return [_score(one, f"scores[{index}]") for index, one in enumerate(found)]


def _score(given: Any, at: str) -> perpend_plugin.Score:
    name = _member(given, "name")
    if not isinstance(name, str) or not name.strip():
        raise InvalidResult(f"{at}: the name of a score must be a non-empty text")
    value = _member(given, "value")
    if value is None:
        raise InvalidResult(f"{at}: the score {name!r} must have a value")
    kind = _member(given, "data_type", "dataType")
    comment = _member(given, "comment")
    if comment is not None and not isinstance(comment, str):
        raise InvalidResult(f"{at}: the comment of {name!r} must be text, got {type(comment).__name__}")
    metadata = _member(given, "metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidResult(f"{at}: the metadata of {name!r} must be a dict, got {type(metadata).__name__}")
    metadata = dict(metadata or {})
    config_id = _member(given, "config_id", "configId")
    if config_id is not None:
        metadata["configId"] = str(config_id)
    _check_json(metadata, f"{at}: the metadata of {name!r}")
    return perpend_plugin.Score(name, _value(value, kind, f"{at}: {name!r}"), comment, metadata or None)


def _value(value: Any, kind: Any, at: str) -> bool | float | str:
    if kind is None:
        kind = "BOOLEAN" if isinstance(value, bool) else "CATEGORICAL" if isinstance(value, str) else "NUMERIC"
    if kind not in _TYPES:
        raise InvalidResult(f"{at}: the data type must be one of {', '.join(_TYPES)}; got {kind!r}")
    if kind == "NUMERIC":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidResult(f"{at}: a NUMERIC score must be a number, got {_shown(value)}")
        return _finite(value, at)
    if kind == "BOOLEAN":
        text = str(value).lower() if isinstance(value, (bool, int, float, str)) else ""
        text = text.removesuffix(".0") if isinstance(value, float) else text
        if text not in _TRUE | _FALSE:
            raise InvalidResult(f"{at}: a BOOLEAN score must be True, False, 1 or 0, got {_shown(value)}")
        return text in _TRUE
    if not isinstance(value, str):
        raise InvalidResult(f"{at}: a {kind} score must be text, got {_shown(value)}")
    if kind == "TEXT" and not 1 <= len(value) <= _MAX_TEXT_CHARS:
        raise InvalidResult(f"{at}: a TEXT score must have 1 to {_MAX_TEXT_CHARS} characters, got {len(value)}")
    n_bytes = len(value.encode(errors="replace"))
    if _MAX_CATEGORY_BYTES < n_bytes:
        raise InvalidResult(f"{at}: the value must have at most {_MAX_CATEGORY_BYTES} bytes, got {n_bytes}")
    return value


def _finite(value: int | float, at: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidResult(f"{at}: {_shown(value)} is not a finite number")
    return number


def _member(given: Any, *names: str) -> Any:
    """A member of a mapping, or an attribute: evaluators return dicts or objects."""
    for name in names:
        value = given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)
        if value is not None:
            return value
    return None


def _check_json(metadata: dict[str, Any], at: str) -> None:
    try:
        json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidResult(f"{at} is not JSON: {error}") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
