"""A plug-in that uses all of the SDK, for the tests of the Python guest."""

import enum
import random
import time
import uuid
from dataclasses import dataclass, field

import assay

assay.plugin("acme/all", version="1.2.3", description="Everything once")


class Mode(enum.Enum):
    STRICT = "strict"
    LOOSE = "loose"


@dataclass
class Weights:
    good: float = 1.0
    bad: float = assay.field(0.0, minimum=0, description="Weight of what is bad.")


@dataclass
class Config:
    words: list[str]
    mode: Mode = Mode.LOOSE
    weights: Weights = field(default_factory=Weights)
    limit: int | None = None


def no_repeats(config: Config) -> list[str]:
    return ["a word stands twice"] if len(set(config.words)) < len(config.words) else []


@assay.evaluator(scores=assay.numeric("weight", maximum=10), check=no_repeats)
class Words:
    """The weight of the words found; an evaluator as a class."""

    def __init__(self):
        self.tables = {Mode.STRICT: str, Mode.LOOSE: str.casefold}

    def evaluate(self, item: assay.Item, config: Config):
        fold = self.tables[config.mode]
        text = fold(item.text())
        n_found = sum(fold(word) in text for word in config.words)
        return config.weights.good * n_found - config.weights.bad * (len(config.words) - n_found)


@assay.evaluator("fails", scores=assay.boolean("never"))
def fails(item: assay.Item, config: dict):
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
        "invalid_config": assay.InvalidConfig,
        "invalid_input": assay.InvalidInput,
        "not_applicable": assay.NotApplicable,
        "transient": assay.Transient,
        "internal": assay.Internal,
    }[kind](f"said {kind}")


@assay.evaluator(
    "judge",
    needs=["input", "output"],
    scores=[assay.categorical("verdict", categories=["good", "bad"]), assay.numeric("agreement")],
    slots=[assay.slot("judge", "Says good or bad."), assay.embedding("near", required=False)],
)
def judge(item: assay.Item):
    schema = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}
    messages = [("system", "Be strict."), {"role": "user", "content": item.text()}]
    first = assay.model.complete(messages, slot="judge", schema=schema, temperature=0)
    panel = [assay.model.Request("again", seed=n, schema=schema) for n in range(3)]
    votes = [one for one in assay.model.complete_all(panel) if not isinstance(one, assay.ModelError)]
    agreement = sum(one.structured == first.structured for one in votes)
    comment = f"{first.model}, {first.input_tokens} tokens"
    return [
        assay.Score("verdict", first.structured["verdict"], comment),
        assay.Score("agreement", agreement),
    ]


@assay.evaluator("near", scores=assay.numeric("sum"), slots=[assay.embedding("near")])
def near(item: assay.Item):
    return sum(assay.model.embed([item.text(), "x"])[0])


@assay.evaluator("steps", needs=["trace"], scores=assay.numeric("steps"))
def steps(item: assay.Item):
    if item.trace is None:
        raise assay.NotApplicable("no trace")
    trace = item.trace.trace_id
    tools = list(assay.trace.observations(trace, kinds=["tool"]))
    inputs = [assay.trace.read_input(trace, tool.id) for tool in tools]
    return assay.Score("steps", len(tools), metadata={"inputs": inputs, "name": assay.trace.get(trace).name})


@assay.evaluator("chance", dynamic_scores=True)
def chance(item: assay.Item):
    assay.log.info("drawn", seed=assay.seed())
    print("printed")
    values = {
        "random": random.random(),
        "rng": assay.rng().random(),
        "time": time.time(),
        "run_time": assay.run_time(),
        "uuid": str(uuid.uuid4()),
        "set": " ".join({"a", "b", "c", "d", "e"}),
        "hash": hash("text"),
    }
    return [assay.Score(name, value) for name, value in values.items()]
