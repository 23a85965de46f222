"""A plug-in that uses all of the SDK, for the tests of the Python guest."""

import enum
import random
import time
import uuid
from dataclasses import dataclass, field

import perpend_plugin

perpend_plugin.plugin("acme/all", version="1.2.3", description="Everything once")


class Mode(enum.Enum):
    STRICT = "strict"
    LOOSE = "loose"


@dataclass
class Weights:
    good: float = 1.0
    bad: float = perpend_plugin.field(0.0, minimum=0, description="Weight of what is bad.")


@dataclass
class Config:
    words: list[str]
    mode: Mode = Mode.LOOSE
    weights: Weights = field(default_factory=Weights)
    limit: int | None = None


def no_repeats(config: Config) -> list[str]:
    return ["a word stands twice"] if len(set(config.words)) < len(config.words) else []


@perpend_plugin.evaluator(scores=perpend_plugin.numeric("weight", maximum=10), check=no_repeats)
class Words:
    """The weight of the words found; an evaluator as a class."""

    def __init__(self):
        self.tables = {Mode.STRICT: str, Mode.LOOSE: str.casefold}

    def evaluate(self, item: perpend_plugin.Item, config: Config):
        fold = self.tables[config.mode]
        text = fold(item.text())
        n_found = sum(fold(word) in text for word in config.words)
        return config.weights.good * n_found - config.weights.bad * (len(config.words) - n_found)


@perpend_plugin.evaluator("fails", scores=perpend_plugin.boolean("never"))
def fails(item: perpend_plugin.Item, config: dict):
    kind = config["with"]
    if kind == "exit":
        raise SystemExit(3)
    if kind == "plain":
        return {}["missing"]
    if kind == "import":
        import wave  # noqa: F401

        return True
    if kind == "memory":
        return len([bytes(1 << 20) for _ in range(1 << 20)])
    raise {
        "invalid_config": perpend_plugin.InvalidConfig,
        "invalid_input": perpend_plugin.InvalidInput,
        "not_applicable": perpend_plugin.NotApplicable,
        "transient": perpend_plugin.Transient,
        "internal": perpend_plugin.Internal,
    }[kind](f"said {kind}")


@perpend_plugin.evaluator(
    "judge",
    needs=["input", "output"],
    scores=[perpend_plugin.categorical("verdict", categories=["good", "bad"]), perpend_plugin.numeric("agreement")],
    slots=[perpend_plugin.slot("judge", "Says good or bad."), perpend_plugin.embedding("near", required=False)],
)
def judge(item: perpend_plugin.Item):
    schema = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}
    messages = [("system", "Be strict."), {"role": "user", "content": item.text()}]
    first = perpend_plugin.model.complete(messages, slot="judge", schema=schema, temperature=0)
    panel = [perpend_plugin.model.Request("again", seed=n, schema=schema) for n in range(3)]
    votes = [one for one in perpend_plugin.model.complete_all(panel) if not isinstance(one, perpend_plugin.ModelError)]
    agreement = sum(one.structured == first.structured for one in votes)
    comment = f"{first.model}, {first.input_tokens} tokens"
    return [
        perpend_plugin.Score("verdict", first.structured["verdict"], comment),
        perpend_plugin.Score("agreement", agreement),
    ]


@perpend_plugin.evaluator("near", scores=perpend_plugin.numeric("sum"), slots=[perpend_plugin.embedding("near")])
def near(item: perpend_plugin.Item):
    return sum(perpend_plugin.model.embed([item.text(), "x"])[0])


@perpend_plugin.evaluator("steps", needs=["trace"], scores=perpend_plugin.numeric("steps"))
def steps(item: perpend_plugin.Item):
    if item.trace is None:
        raise perpend_plugin.NotApplicable("no trace")
    trace = item.trace.trace_id
    tools = list(perpend_plugin.trace.observations(trace, kinds=["tool"]))
    inputs = [perpend_plugin.trace.read_input(trace, tool.id) for tool in tools]
    return perpend_plugin.Score(
        "steps", len(tools), metadata={"inputs": inputs, "name": perpend_plugin.trace.get(trace).name}
    )


@dataclass
class Where:
    text: str = perpend_plugin.field(description="What to look for.")
    limit: int = 3


LOOK = perpend_plugin.model.Tool("look", "Finds a text in the trace.", Where)


@perpend_plugin.evaluator(
    "agent",
    needs=["output", "trace"],
    scores=[perpend_plugin.categorical("verdict"), perpend_plugin.share("sure")],
    slots=[perpend_plugin.slot("judge")],
)
def agent(item: perpend_plugin.Item):
    """Lets the model look into the trace until it knows."""
    messages = [
        ("system", "Use the tool."),
        perpend_plugin.model.Message("user", [item.text(), perpend_plugin.model.Image("medium-1")]),
    ]
    for _ in range(4):
        said = perpend_plugin.model.complete(messages, tools=[LOOK], tool_choice="auto", top_logprobs=5)
        if not said.tool_calls:
            break
        results = [looked(item.trace.trace_id, call) for call in said.tool_calls]
        messages += [said.message, ("tool", results)]
    found = said.probabilities(["yes", "no"], offset=said.text.index("yes"))
    metadata = {
        "finish": said.finish,
        "margin": round(found.margin, 3),
        "coverage": round(found.coverage, 3),
        "absent": said.probabilities(["maybe"]) is None,
    }
    return [
        perpend_plugin.Score("verdict", said.text, metadata=metadata),
        perpend_plugin.Score("sure", found.shares["yes"]),
    ]


def looked(trace: str, call: perpend_plugin.model.ToolCall) -> perpend_plugin.model.ToolResult:
    try:
        where = call.read(Where)
    except ValueError as error:
        return call.failed(error)
    hits = perpend_plugin.trace.search(trace, where.text, where.limit)
    return call.result([[hit.observation_id, hit.part, hit.offset, hit.excerpt] for hit in hits])


@perpend_plugin.evaluator("choice", scores=perpend_plugin.share("good"), slots=[perpend_plugin.slot("judge")])
def choice(item: perpend_plugin.Item):
    requests = [
        perpend_plugin.model.Request(item.text(), schema={"type": "object"}, top_logprobs=n, tools=[LOOK], tool_choice=who)
        for n, who in ((3, "none"), (None, LOOK))
    ]
    sure, unsure = perpend_plugin.model.complete_all(requests)
    found = sure.probabilities(["good", "bad"], "verdict")
    return perpend_plugin.Score("good", found.shares["good"], str(unsure.probabilities(["good"], "verdict")))


@perpend_plugin.evaluator("tree", needs=["trace"], scores=perpend_plugin.numeric("entries"))
def tree(item: perpend_plugin.Item):
    trace = item.trace.trace_id
    entries = list(perpend_plugin.trace.outline(trace, parent_id="root"))
    first = perpend_plugin.trace.read_range(trace, entries[0].id, "output", offset=4, length=9)
    metadata = {
        "tree": [[one.depth, one.kind, one.id, one.duration, one.child_count] for one in entries],
        "slice": [first.text, first.offset, first.total, first.is_json],
        "none": perpend_plugin.trace.read_range(trace, "empty", "metadata"),
    }
    return perpend_plugin.Score("entries", len(entries), metadata=metadata)


@perpend_plugin.evaluator("whole", needs=["trace"], scores=perpend_plugin.numeric("parts"))
def whole(item: perpend_plugin.Item):
    """Sessions and runs."""
    if item.session:
        info = perpend_plugin.session.get(item.session)
        traces = list(perpend_plugin.session.traces(item.session))
        told = [info.trace_count, info.end - info.start, info.user_ids, [trace.name for trace in traces]]
        return perpend_plugin.Score("parts", len(traces), metadata={"session": told})
    if not item.run:
        raise perpend_plugin.NotApplicable("neither a session nor a run")
    info = perpend_plugin.run.get(item.run)
    items = list(perpend_plugin.run.items(item.run))
    told = [
        [one.id, one.dataset_item_id, one.trace and one.trace.trace_id, one.input, one.output, one.expected_output]
        for one in items
    ]
    metadata = {"run": [info.name, info.dataset_id, info.metadata, info.item_count], "items": told}
    return perpend_plugin.Score("parts", len(items), metadata=metadata)


@perpend_plugin.evaluator("chance", dynamic_scores=True)
def chance(item: perpend_plugin.Item):
    perpend_plugin.log.info("drawn", seed=perpend_plugin.seed())
    print("printed")
    values = {
        "random": random.random(),
        "rng": perpend_plugin.rng().random(),
        "time": time.time(),
        "run_time": perpend_plugin.run_time(),
        "uuid": str(uuid.uuid4()),
        "set": " ".join({"a", "b", "c", "d", "e"}),
        "hash": hash("text"),
    }
    return [perpend_plugin.Score(name, value) for name, value in values.items()]
