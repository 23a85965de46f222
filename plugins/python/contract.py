"""The contract of a pasted evaluator: what `evaluate(ctx)` is given, and what it may return."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import perpend_plugin


@dataclass
class ToolCall:
    """A tool that the observation called. Arguments that are JSON text arrive parsed."""

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
    """The dataset item behind it, in experiments."""

    item_expected_output: Any = None
    item_metadata: Any = None


@dataclass
class EvaluationContext:
    """What `evaluate` is given."""

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
    """What `evaluate` returns."""

    scores: list[Score]


#: Names that an evaluator finds without importing them.
INJECTED = (ToolCall, ObservationContext, ExperimentContext, EvaluationContext, Score, EvaluationResult)

#: Members of an item's metadata that the server adds.
_TOOL_CALLS, _ITEM_METADATA = "perpend.tool_calls", "perpend.item_metadata"
_MAX_TEXT_CHARS = 500
_MAX_CATEGORY_BYTES = 256
_TRUE, _FALSE = {"true", "1"}, {"false", "0"}
_TYPES = ("NUMERIC", "BOOLEAN", "CATEGORICAL", "TEXT")


class InvalidResult(perpend_plugin.Internal):
    """What `evaluate` returned breaks the contract."""

    def __init__(self, text: str) -> None:
        super().__init__(f"INVALID_RESULT: {text}")


def context(item: perpend_plugin.Item) -> EvaluationContext:
    """The item as `evaluate` sees it."""
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
    """The scores in what `evaluate` returned. An empty list means that there is nothing to report."""
    found = _member(result, "scores")
    if found is None:
        kind = "nothing" if result is None else f"a {type(result).__name__}"
        raise InvalidResult(f"evaluate returned {kind}, not EvaluationResult(scores=[...])")
    if isinstance(found, (str, bytes, Mapping)) or not hasattr(found, "__iter__"):
        raise InvalidResult(f"`scores` is a {type(found).__name__}, not a list")
    return [_score(one, f"scores[{index}]") for index, one in enumerate(found)]


def _score(given: Any, at: str) -> perpend_plugin.Score:
    name = _member(given, "name")
    if not isinstance(name, str) or not name.strip():
        raise InvalidResult(f"{at}: a score needs a name, a non-empty text")
    value = _member(given, "value")
    if value is None:
        raise InvalidResult(f"{at}: the score {name!r} has no value")
    kind = _member(given, "data_type", "dataType")
    comment = _member(given, "comment")
    if comment is not None and not isinstance(comment, str):
        raise InvalidResult(f"{at}: the comment of {name!r} is a {type(comment).__name__}, not text")
    metadata = _member(given, "metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidResult(f"{at}: the metadata of {name!r} is a {type(metadata).__name__}, not a dict")
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
        raise InvalidResult(f"{at}: the data type {kind!r} is none of {', '.join(_TYPES)}")
    if kind == "NUMERIC":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InvalidResult(f"{at}: a NUMERIC score is a number, not {_shown(value)}")
        return _finite(value, at)
    if kind == "BOOLEAN":
        text = str(value).lower() if isinstance(value, (bool, int, float, str)) else ""
        text = text.removesuffix(".0") if isinstance(value, float) else text
        if text not in _TRUE | _FALSE:
            raise InvalidResult(f"{at}: a BOOLEAN score is True, False, 1 or 0, not {_shown(value)}")
        return text in _TRUE
    if not isinstance(value, str):
        raise InvalidResult(f"{at}: a {kind} score is text, not {_shown(value)}")
    if kind == "TEXT" and not 1 <= len(value) <= _MAX_TEXT_CHARS:
        raise InvalidResult(f"{at}: a TEXT score has 1 to {_MAX_TEXT_CHARS} characters, not {len(value)}")
    n_bytes = len(value.encode(errors="replace"))
    if _MAX_CATEGORY_BYTES < n_bytes:
        raise InvalidResult(f"{at}: the value has {n_bytes} bytes, at most {_MAX_CATEGORY_BYTES} are kept")
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
    """A member of a mapping, or an attribute: evaluators bring dicts and classes of their own."""
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
