"""Runs evaluators in plain Python, for unit tests: no component, no server.

    from perpend_plugin.testing import calling, evaluate, host

    def test_a_short_answer_passes():
        [score] = evaluate("max-length", output="hello", config={"max_chars": 10})
        assert score.value is True

    def test_the_judge_reads_the_choice():
        with host(answers=[{"choice": "yes"}]) as scripted:
            [score] = evaluate("tone", output="hello")
        assert "hello" in scripted.requests[0].pairs()[-1][1]

    def test_the_judge_looks_the_customer_up():
        with host(answers=[calling("look_up", id="c1"), "It did."]) as scripted:
            evaluate("agent", output="hello")
        assert scripted.requests[1].conversation()[-1].parts[0].content == "Ann"
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import host as _host
from . import registry
from .errors import InvalidConfig, ModelError, TraceError, explained
from .item import Item, Raw, TraceRef, to_raw
from .model import Completion, Distribution, Request, ToolCall
from .run import RunInfo, RunItem
from .score import Score
from .session import SessionInfo
from .trace import PARTS, Hit, Observation, OutlineEntry, Slice, TraceInfo

#: An answer of the scripted model: text, the structured value, a whole completion, or an error.
Answer = str | Mapping[str, Any] | Completion | ModelError

#: A trace of a test: each observation with its `input`, `output` and `metadata`.
Trace = Sequence[tuple[Observation, Mapping[str, Any]]]


def calling(name: str, **arguments: Any) -> Completion:
    """An answer with a call of a tool."""
    call = ToolCall(f"call-{name}", name, json.dumps(arguments, ensure_ascii=False))
    return Completion("", finish="tool-calls", model="test", tool_calls=[call])


def likely(shares: Mapping[str, float], answer: str | Mapping[str, Any] | None = None) -> Completion:
    """An answer with the probabilities of choices; its text is by default the most probable one. A server computes them from
    the log-probabilities of the tokens."""

    def measure(choices: Sequence[str], member: str | None, byte: int | None) -> Distribution | None:
        masses = [float(shares.get(choice, 0)) for choice in choices]
        seen = sum(masses)
        if seen <= 0:
            return None
        first, second, *_ = sorted((mass / seen for mass in masses), reverse=True) + [0.0, 0.0]
        of_each = {choice: mass / seen for choice, mass in zip(choices, masses)}
        return Distribution(of_each, first - second, min(seen, 1.0))

    completion = _completion(answer if answer is not None else max(shares, key=lambda choice: shares[choice]))
    completion.measure = measure
    return completion


def _completion(answer: str | Mapping[str, Any]) -> Completion:
    if isinstance(answer, str):
        return Completion(answer, model="test")
    return Completion(json.dumps(answer), structured=answer, model="test")


def evaluate(
    evaluator: str,
    *,
    config: Mapping[str, Any] | None = None,
    item: Item | None = None,
    metadata: Mapping[str, Any] | None = None,
    trace: TraceRef | None = None,
    session: str | None = None,
    run: str | None = None,
    **parts: Any,
) -> list[Score]:
    """The scores of an evaluator for an item with `input`, `output`, `expected_output`.

    Raises the error that the server reports, always an `EvalError`. Defaults of the configuration are filled
    in; that it satisfies its schema is checked by `perpend plugin test`, in the host itself.
    """
    one = registry.find(evaluator)
    subject = item or Item.of(parts, metadata=metadata, trace=trace, session=session, run=run)
    given = dict(config or {})
    properties = one.config_schema.get("properties", {})
    for name, schema in properties.items():
        if name not in given and "default" in schema:
            given[name] = json.loads(json.dumps(schema["default"]))
    unknown = [name for name in given if properties and name not in properties]
    if unknown and one.config_schema.get("additionalProperties") is False:
        raise InvalidConfig(f"config: unknown member {unknown[0]!r}; the members are {', '.join(properties)}")
    for problem in one.problems(given):
        raise InvalidConfig(problem.message)
    try:
        return one.evaluate(subject, given)
    except Exception as error:
        raise explained(error) from error


class TestHost(_host.Host):
    """A scripted host, which records the requests."""

    __test__ = False

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[Request], Answer] = (),
        vectors: Mapping[str, Sequence[float]] | None = None,
        traces: Mapping[str, Trace] | None = None,
        seed: int = 0,
        run_time: int = 0,
        sessions: Mapping[str, Sequence[str]] | None = None,
        runs: Mapping[str, Sequence[RunItem]] | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.lines: list[tuple[str, str, dict[str, Any]]] = []
        self._answers = answers if callable(answers) else iter(answers)
        self._vectors = vectors or {}
        self._traces = traces or {}
        self._sessions = sessions or {}
        self._runs = runs or {}
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
        return _completion(answer)

    def embed(self, slot: str | None, texts: Sequence[str]) -> list[list[float]]:
        unknown = [text for text in texts if text not in self._vectors]
        if unknown:
            raise ModelError("unavailable", f"the test has no vector for {unknown[0]!r}")
        return [list(self._vectors[text]) for text in texts]

    def get_trace(self, trace_id: str) -> TraceInfo:
        heads = [head for head, _ in self._of(trace_id)]
        session = next((id for id, traces in self._sessions.items() if trace_id in traces), None)
        start = min((head.start for head in heads), default=0)
        return TraceInfo(trace_id, session_id=session, start=start, observation_count=len(heads))

    def list_observations(self, trace_id: str, **filters: Any) -> tuple[list[Observation], str | None]:
        heads = [head for head, _ in self._of(trace_id)]
        if filters["parent_id"] is not None:
            heads = [head for head in heads if head.parent_id == filters["parent_id"]]
        if filters["kinds"]:
            heads = [head for head in heads if head.kind in filters["kinds"]]
        if filters["name"] is not None:
            heads = [head for head in heads if head.name == filters["name"]]
        return heads, None

    def read(self, part: str, trace_id: str, observation_id: str) -> Any:
        for head, values in self._of(trace_id):
            if head.id == observation_id:
                return to_raw(values[part]) if part in values else None
        raise TraceError("not-found", observation_id)

    def outline(
        self, trace_id: str, *, parent_id: str | None, cursor: str | None, limit: int
    ) -> tuple[list[OutlineEntry], str | None]:
        return _outlined([head for head, _ in self._of(trace_id)], parent_id), None

    def search(self, trace_id: str, text: str, limit: int) -> list[Hit]:
        if not 1 <= len(text.encode(errors="replace")) <= 1000:
            raise TraceError("too-large", "a text of 1 to 1,000 bytes can be searched for")
        found: list[Hit] = []
        for head, values in self._of(trace_id):
            for part in (part for part in PARTS if part in values):
                found += _hits(head.id, part, to_raw(values[part])[1], text)
        return found[: max(1, min(limit, 100))]

    def read_range(self, trace_id: str, observation_id: str, part: str, offset: int, length: int) -> Slice | None:
        raw = self.read(part, trace_id, observation_id)
        return None if raw is None else _slice(raw, offset, length)

    def get_session(self, session_id: str) -> SessionInfo:
        traces = self._traces_of(session_id)
        starts = [info.start for info in traces] or [0]
        return SessionInfo(session_id, len(traces), min(starts), max(starts))

    def list_traces(self, session_id: str, *, cursor: str | None, limit: int) -> tuple[list[TraceInfo], str | None]:
        return sorted(self._traces_of(session_id), key=lambda info: (info.start, info.id)), None

    def _traces_of(self, session_id: str) -> list[TraceInfo]:
        if session_id not in self._sessions:
            raise TraceError("not-granted", session_id)
        return [self.get_trace(trace) for trace in self._sessions[session_id]]

    def get_run(self, run_id: str) -> RunInfo:
        return RunInfo(run_id, item_count=len(self._items_of(run_id)))

    def list_items(self, run_id: str, *, cursor: str | None, limit: int) -> tuple[list[RunItem], str | None]:
        return list(self._items_of(run_id)), None

    def _items_of(self, run_id: str) -> Sequence[RunItem]:
        if run_id not in self._runs:
            raise TraceError("not-granted", run_id)
        return self._runs[run_id]

    def _of(self, trace_id: str) -> Trace:
        if trace_id not in self._traces:
            raise TraceError("not-granted", trace_id)
        return self._traces[trace_id]


def _outlined(heads: Sequence[Observation], parent_id: str | None) -> list[OutlineEntry]:
    """The tree, depth first; children by start, then by id."""
    ids = {head.id for head in heads}
    children: dict[str | None, list[Observation]] = {}
    for head in sorted(heads, key=lambda head: (head.start, head.id), reverse=True):
        children.setdefault(head.parent_id if head.parent_id in ids else None, []).append(head)
    entries: list[OutlineEntry] = []
    # Visited observations are removed, so that a cycle of parents ends.
    waiting = [(head, 0) for head in children.pop(parent_id, [])]
    while waiting:
        head, depth = waiting.pop()
        below = children.pop(head.id, [])
        entries.append(_entry(head, depth, len(below)))
        waiting += [(child, depth + 1) for child in below]
    return entries


def _entry(head: Observation, depth: int, n_children: int) -> OutlineEntry:
    return OutlineEntry(
        id=head.id,
        parent_id=head.parent_id,
        depth=depth,
        kind=head.kind,
        name=head.name,
        severity=head.severity,
        start=head.start,
        duration=None if head.end is None else head.end - head.start,
        input_size=head.input_size,
        output_size=head.output_size,
        child_count=n_children,
    )


def _hits(observation_id: str, part: str, text: str, query: str) -> Iterator[Hit]:
    for found in re.finditer(re.escape(query), text, re.IGNORECASE):
        excerpt = text[max(0, found.start() - 100) : found.end() + 100]
        yield Hit(observation_id, part, len(text[: found.start()].encode(errors="replace")), excerpt)


def _slice(raw: Raw, offset: int, length: int) -> Slice:
    is_json, text = raw
    whole = text.encode(errors="replace")

    def boundary(byte: int) -> int:
        byte = max(0, min(byte, len(whole)))
        while 0 < byte < len(whole) and whole[byte] & 0xC0 == 0x80:
            byte -= 1
        return byte

    begin, end = boundary(offset), boundary(offset + length)
    return Slice(whole[begin:end].decode(), begin, len(whole), is_json)


@contextlib.contextmanager
def host(
    answers: Iterable[Answer] | Callable[[Request], Answer] = (),
    *,
    vectors: Mapping[str, Sequence[float]] | None = None,
    traces: Mapping[str, Trace] | None = None,
    seed: int = 0,
    run_time: int = 0,
    sessions: Mapping[str, Sequence[str]] | None = None,
    runs: Mapping[str, Sequence[RunItem]] | None = None,
) -> Iterator[TestHost]:
    """Puts a `TestHost` in place of the server. `sessions` names the traces of each, `runs` the items."""
    before = _host.current
    scripted = TestHost(answers, vectors, traces, seed, run_time, sessions, runs)
    _host.current = scripted
    try:
        yield scripted
    finally:
        _host.current = before
