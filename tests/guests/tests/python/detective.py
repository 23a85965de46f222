"""An evaluator that looks into traces with a model that calls tools, and into sessions and runs."""

import json
from dataclasses import dataclass
from typing import Literal

import perpend_plugin
from perpend_plugin import Score, model, run, session, trace


@dataclass
class Config:
    look: Literal["trace", "session", "run", "all"]


@dataclass
class Search:
    text: str = perpend_plugin.field(description="What to look for.")


@dataclass
class Read:
    observation: str
    offset: int


SEARCH = model.Tool("search", "Finds a text in the trace.", Search)
READ = model.Tool("read", "Reads on from a place.", Read)


@perpend_plugin.evaluator(
    "detective",
    needs=["output", "trace"],
    slots=[perpend_plugin.slot("judge", "Judges."), perpend_plugin.embedding("vectors", required=False)],
    scores=[
        perpend_plugin.numeric("found", "what was found"),
        perpend_plugin.share("margin", "how sure the model was"),
        perpend_plugin.share("coverage", "how much the shares say"),
    ],
)
def detective(item: perpend_plugin.Item, config: Config):
    if config.look == "trace":
        return investigated(item)
    if config.look == "all":
        return all_else(item.trace.trace_id)
    return of_session(item.session) if config.look == "session" else of_run(item.run)


def investigated(item: perpend_plugin.Item) -> list[Score]:
    trace_id = item.trace.trace_id
    outline = outlined(trace_id)
    messages = [("system", "Did it work? Say yes or no."), ("user", [item.text(), model.Image("m1")])]
    choice = SEARCH
    for _ in range(5):
        completion = model.complete(messages, top_logprobs=5, tools=[SEARCH, READ], tool_choice=choice)
        if not completion.tool_calls:
            return judged(completion, outline)
        messages += [completion.message, ("tool", [carried_out(trace_id, call) for call in completion.tool_calls])]
        choice = "auto"
    raise perpend_plugin.Internal("the model does not come to an end")


def outlined(trace_id: str) -> str:
    entries = list(trace.outline(trace_id))
    [failed] = [one for one in entries if (one.severity, one.kind, one.parent_id) == ("error", "tool", "o1")]
    deep = max(one.depth for one in entries)
    return f"{len(entries)} steps, {deep} deep, error in {failed.name} after {failed.duration} ms"


def carried_out(trace_id: str, call: model.ToolCall) -> model.ToolResult:
    try:
        if call.name == "search":
            hits = trace.search(trace_id, call.read(Search).text, 3)
            return call.result("\n".join(f"{hit.observation_id} {hit.part} {hit.offset} {hit.excerpt}" for hit in hits))
        wanted = call.read(Read)
        found = trace.read_range(trace_id, wanted.observation, "output", wanted.offset, 5)
        assert (found.offset, found.total, found.is_json) == (wanted.offset, 23, False)
        return call.result(found.text)
    except ValueError as error:
        return call.failed(error)


def judged(completion: model.Completion, outline: str) -> list[Score]:
    found = completion.probabilities(["yes", "no"])
    assert completion.probabilities(["yes"], "verdict") is None
    likeliest = max(found.shares, key=lambda choice: found.shares[choice])
    return [
        Score("found", found.shares["no"], f"{outline}\n{likeliest} by {completion.model}"),
        Score("margin", found.margin),
        Score("coverage", found.coverage),
    ]


def of_session(session_id: str) -> Score:
    try:
        info = session.get(session_id)
    except perpend_plugin.TraceError as error:
        raise perpend_plugin.Upstream(error.detail) from error
    lines = [
        f"{one.id} {one.name} [{' '.join(one.tags)}]" if one.name else one.id for one in session.traces(session_id)
    ]
    who = ", ".join(info.user_ids)
    return Score("found", info.trace_count, f"{info.id} of {who} in {info.end - info.start} ms: {', '.join(lines)}")


def of_run(run_id: str) -> Score:
    info, items = run.get(run_id), list(run.items(run_id))
    lines = [
        f"{one.id} {one.dataset_item_id} {one.trace.trace_id}/{one.trace.observation_id}" if one.trace else one.id
        for one in items
    ]
    # Text is not the number that it reads as.
    n_equal = sum(one.output == one.expected_output for one in items)
    return Score("found", n_equal / info.item_count, f"{info.name}, {info.item_count} items: {', '.join(lines)}")


def all_else(trace_id: str) -> Score:
    first = model.Request(
        [model.Message("user", ["first", "and", model.Audio("a1"), model.File("f1")])],
        slot="judge",
        schema={"type": "object"},
        temperature=0.5,
        top_p=0.25,
        max_output_tokens=9,
        seed=7,
        stop=["END", "."],
        cache="bypass",
        extra={"a": 1},
        tool_choice="none",
    )
    answer, refused = model.complete_all([first, model.Request("second")])
    vectors = model.embed(["a", "bc"], slot="vectors")
    info = trace.get(trace_id)
    steps = list(trace.observations(trace_id, parent_id="o1", kinds=["tool", "agent"], name="search"))
    output = trace.read_output(trace_id, "o2")
    lines = [
        compact(answer.structured),
        refused.detail,
        f"{info.name} {info.observation_count}",
        *(f"{step.id} in {step.end - step.start} ms" for step in steps),
        compact(trace.read_input(trace_id, "o2")),
        "none" if output is None else output,
        compact(trace.read_metadata(trace_id, "o2")),
    ]
    return Score("found", sum(map(sum, vectors)), "; ".join(lines))


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
