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
    return ["a word appears twice"] if len(set(config.words)) < len(config.words) else []


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
    }[kind](f"raised {kind}")


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


ANSWER = perpend_plugin.model.Tool("answer", "Takes the verdict.")


@perpend_plugin.evaluator("choice", scores=perpend_plugin.share("good"), slots=[perpend_plugin.slot("judge")])
def choice(item: perpend_plugin.Item):
    request = {"messages": item.text(), "schema": {"type": "object"}, "tools": [ANSWER]}
    requests = [
        perpend_plugin.model.Request(**request, top_logprobs=3, tool_choice="none"),
        perpend_plugin.model.Request(**request, tool_choice=ANSWER),
    ]
    sure, unsure = perpend_plugin.model.complete_all(requests)
    inside = sure.probabilities(["good", "bad"], "verdict")
    at = sure.probabilities(["good", "bad"], offset=sure.text.index("good"))
    comment = f"{at == inside}, {unsure.probabilities(['good'], 'verdict')}, {sure.structured}"
    return perpend_plugin.Score("good", inside.shares["good"], comment)


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


# Adds an evaluator of its own, after the ones above.
import detective  # noqa: E402, F401
