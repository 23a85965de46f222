"""Runs evaluators in plain Python, for unit tests: no component, no server.

    from perpend_plugin.testing import evaluate, host

    def test_a_short_answer_passes():
        [score] = evaluate("max-length", output="hello", config={"max_chars": 10})
        assert score.value is True

    def test_the_judge_reads_the_choice():
        with host(answers=[{"choice": "yes"}]) as told:
            [score] = evaluate("tone", output="hello")
        assert "hello" in told.requests[0].pairs()[-1][1]
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import host as _host
from . import registry
from .errors import InvalidConfig, ModelError, TraceError, explained
from .item import Item, TraceRef, to_raw
from .model import Completion, Request
from .score import Score
from .trace import Observation, TraceInfo

#: An answer of the stand-in model: text, the structured value, a whole completion, or an error.
Answer = str | Mapping[str, Any] | Completion | ModelError


def evaluate(
    evaluator: str,
    *,
    config: Mapping[str, Any] | None = None,
    item: Item | None = None,
    metadata: Mapping[str, Any] | None = None,
    trace: TraceRef | None = None,
    **parts: Any,
) -> list[Score]:
    """The scores that an evaluator gives for an item made of `input`, `output`, `expected_output`.

    Raises what the server would report: always an `EvalError`. Defaults of the configuration are filled
    in; that it satisfies its schema is checked by `perpend plugin test`, in the host itself.
    """
    one = registry.find(evaluator)
    subject = item or Item.of(parts, metadata=metadata, trace=trace)
    given = dict(config or {})
    properties = one.config_schema.get("properties", {})
    for name, schema in properties.items():
        if name not in given and "default" in schema:
            given[name] = json.loads(json.dumps(schema["default"]))
    unknown = [name for name in given if properties and name not in properties]
    if unknown and one.config_schema.get("additionalProperties") is False:
        raise InvalidConfig(f"config: unknown member {unknown[0]!r}; there are {', '.join(properties)}")
    for problem in one.problems(given):
        raise InvalidConfig(problem.message)
    try:
        return one.evaluate(subject, given)
    except Exception as error:
        raise explained(error) from error


class TestHost(_host.Host):
    """Answers as it was told and remembers what it was asked."""

    __test__ = False

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[Request], Answer] = (),
        vectors: Mapping[str, Sequence[float]] | None = None,
        traces: Mapping[str, Sequence[tuple[Observation, Mapping[str, Any]]]] | None = None,
        seed: int = 0,
        run_time: int = 0,
    ) -> None:
        self.requests: list[Request] = []
        self.lines: list[tuple[str, str, dict[str, Any]]] = []
        self._answers = answers if callable(answers) else iter(answers)
        self._vectors = vectors or {}
        self._traces = traces or {}
        self._seed, self._run_time = seed, run_time

    def seed(self) -> int:
        return self._seed

    def run_time(self) -> int:
        return self._run_time

    def log(self, level: str, message: str, fields: str | None) -> None:
        self.lines.append((level, message, json.loads(fields) if fields else {}))

    def complete(self, requests: Sequence[Request]) -> list[Completion | ModelError]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Completion | ModelError:
        self.requests.append(request)
        if callable(self._answers):
            answer = self._answers(request)
        else:
            answer = next(self._answers, ModelError("unavailable", "the test has no further answer"))
        if isinstance(answer, (Completion, ModelError)):
            return answer
        if isinstance(answer, str):
            return Completion(answer, model="test")
        return Completion(json.dumps(answer), structured=answer, model="test")

    def embed(self, slot: str | None, texts: Sequence[str]) -> list[list[float]]:
        unknown = [text for text in texts if text not in self._vectors]
        if unknown:
            raise ModelError("unavailable", f"the test has no vector for {unknown[0]!r}")
        return [list(self._vectors[text]) for text in texts]

    def get_trace(self, trace_id: str) -> TraceInfo:
        return TraceInfo(trace_id, observation_count=len(self._of(trace_id)))

    def list_observations(self, trace_id: str, **wanted: Any) -> tuple[list[Observation], str | None]:
        heads = [head for head, _ in self._of(trace_id)]
        if wanted["parent_id"] is not None:
            heads = [head for head in heads if head.parent_id == wanted["parent_id"]]
        if wanted["kinds"]:
            heads = [head for head in heads if head.kind in wanted["kinds"]]
        if wanted["name"] is not None:
            heads = [head for head in heads if head.name == wanted["name"]]
        return heads, None

    def read(self, part: str, trace_id: str, observation_id: str) -> Any:
        for head, values in self._of(trace_id):
            if head.id == observation_id:
                return to_raw(values[part]) if part in values else None
        raise TraceError("not-found", observation_id)

    def _of(self, trace_id: str) -> Sequence[tuple[Observation, Mapping[str, Any]]]:
        if trace_id not in self._traces:
            raise TraceError("not-granted", trace_id)
        return self._traces[trace_id]


@contextlib.contextmanager
def host(
    answers: Iterable[Answer] | Callable[[Request], Answer] = (),
    *,
    vectors: Mapping[str, Sequence[float]] | None = None,
    traces: Mapping[str, Sequence[tuple[Observation, Mapping[str, Any]]]] | None = None,
    seed: int = 0,
    run_time: int = 0,
) -> Iterator[TestHost]:
    """Puts a `TestHost` in place of the server."""
    before, told = _host.current, TestHost(answers, vectors, traces, seed, run_time)
    _host.current = told
    try:
        yield told
    finally:
        _host.current = before
