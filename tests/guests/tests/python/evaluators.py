"""A plug-in that uses all of the SDK, for the tests of the Python guest."""

import enum
import random
import time
import uuid
from dataclasses import dataclass, field

import perpend

perpend.plugin("acme/all", version="1.2.3", description="Everything once")


class Mode(enum.Enum):
    STRICT = "strict"
    LOOSE = "loose"


@dataclass
class Weights:
    good: float = 1.0
    bad: float = perpend.field(0.0, minimum=0, description="Weight of what is bad.")


@dataclass
class Config:
    words: list[str]
    mode: Mode = Mode.LOOSE
    weights: Weights = field(default_factory=Weights)
    limit: int | None = None


def no_repeats(config: Config) -> list[str]:
    return ["a word stands twice"] if len(set(config.words)) < len(config.words) else []


@perpend.evaluator(scores=perpend.numeric("weight", maximum=10), check=no_repeats)
class Words:
    """The weight of the words found; an evaluator as a class."""

    def __init__(self):
        self.tables = {Mode.STRICT: str, Mode.LOOSE: str.casefold}

    def evaluate(self, item: perpend.Item, config: Config):
        fold = self.tables[config.mode]
        text = fold(item.text())
        n_found = sum(fold(word) in text for word in config.words)
        return config.weights.good * n_found - config.weights.bad * (len(config.words) - n_found)


@perpend.evaluator("fails", scores=perpend.boolean("never"))
def fails(item: perpend.Item, config: dict):
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
        "invalid_config": perpend.InvalidConfig,
        "invalid_input": perpend.InvalidInput,
        "not_applicable": perpend.NotApplicable,
        "transient": perpend.Transient,
        "internal": perpend.Internal,
    }[kind](f"said {kind}")


@perpend.evaluator(
    "judge",
    needs=["input", "output"],
    scores=[perpend.categorical("verdict", categories=["good", "bad"]), perpend.numeric("agreement")],
    slots=[perpend.slot("judge", "Says good or bad."), perpend.embedding("near", required=False)],
)
def judge(item: perpend.Item):
    schema = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}
    messages = [("system", "Be strict."), {"role": "user", "content": item.text()}]
    first = perpend.model.complete(messages, slot="judge", schema=schema, temperature=0)
    panel = [perpend.model.Request("again", seed=n, schema=schema) for n in range(3)]
    votes = [one for one in perpend.model.complete_all(panel) if not isinstance(one, perpend.ModelError)]
    agreement = sum(one.structured == first.structured for one in votes)
    comment = f"{first.model}, {first.input_tokens} tokens"
    return [
        perpend.Score("verdict", first.structured["verdict"], comment),
        perpend.Score("agreement", agreement),
    ]


@perpend.evaluator("near", scores=perpend.numeric("sum"), slots=[perpend.embedding("near")])
def near(item: perpend.Item):
    return sum(perpend.model.embed([item.text(), "x"])[0])


@perpend.evaluator("steps", needs=["trace"], scores=perpend.numeric("steps"))
def steps(item: perpend.Item):
    if item.trace is None:
        raise perpend.NotApplicable("no trace")
    trace = item.trace.trace_id
    tools = list(perpend.trace.observations(trace, kinds=["tool"]))
    inputs = [perpend.trace.read_input(trace, tool.id) for tool in tools]
    return perpend.Score("steps", len(tools), metadata={"inputs": inputs, "name": perpend.trace.get(trace).name})


@perpend.evaluator("chance", dynamic_scores=True)
def chance(item: perpend.Item):
    perpend.log.info("drawn", seed=perpend.seed())
    print("printed")
    values = {
        "random": random.random(),
        "rng": perpend.rng().random(),
        "time": time.time(),
        "run_time": perpend.run_time(),
        "uuid": str(uuid.uuid4()),
        "set": " ".join({"a", "b", "c", "d", "e"}),
        "hash": hash("text"),
    }
    return [perpend.Score(name, value) for name, value in values.items()]
