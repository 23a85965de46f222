"""The plug-in `perpend/autoevals-py`: the scorers of the package autoevals, under their own names.

The package is taken as it is published. Compiled packages and the client that it uses are replaced
(`polyleven.py`, `numpy.py`, `scipy/`, `openai.py`); what is written here is what each scorer is given, and how its
answer becomes a score.
"""

from __future__ import annotations

import functools
import json
import math
import os.path
from typing import Any

import autoevals
import autoevals.llm
import openai
import yaml
from autoevals.version import VERSION

import perpend_plugin
from scorers import CHAT, JUDGE, JUDGES, PURE, RAG, Scorer

perpend_plugin.plugin(
    "perpend/autoevals-py",
    version=VERSION,
    description=(
        f"The scorers of the Python package autoevals {VERSION}, under their own names. Moderation is not included:"
        " the host offers no moderation."
    ),
)
# Any name but those that begin with gpt-5 asks for chat completions; the host knows the model.
autoevals.init(openai.OpenAI(), default_model={"completion": "slot", "embedding": "slot"})

_SLOTS = {
    CHAT: perpend_plugin.slot("judge", "Judges the answer."),
    "embedding": perpend_plugin.embedding("embedding", "Computes the vectors of texts."),
}


def _specification(name: str) -> autoevals.llm.ModelGradedSpec:
    """The prompt of a judge in the library, read at build time because there are no files at run time."""
    file = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)[1:]
    with open(os.path.join(autoevals.llm.SCRIPT_DIR, "templates", f"{file}.yaml")) as text:
        return autoevals.llm.ModelGradedSpec(**yaml.safe_load(text))


_SPECIFICATIONS = {judge.name: _specification(judge.name) for judge in JUDGES}


class _Levenshtein(autoevals.Levenshtein):
    """Compares each pair of texts once: ListContains treats a text as a list of letters, with few different ones."""

    def _run_eval_sync(self, output: Any, expected: Any = None, **kwargs: Any) -> autoevals.Score:
        if type(output) is str and type(expected) is str:
            return self._of_texts(output, expected)
        return super()._run_eval_sync(output, expected, **kwargs)

    @functools.lru_cache(maxsize=1 << 15)
    def _of_texts(self, one: str, other: str) -> autoevals.Score:
        return super()._run_eval_sync(one, other)


_PAIRWISE = {"Levenshtein": _Levenshtein, "EmbeddingSimilarity": autoevals.EmbeddingSimilarity}


def _constructed(scorer: Scorer, settings: dict[str, Any]) -> autoevals.Scorer:
    if scorer.name in _SPECIFICATIONS:
        return autoevals.LLMClassifier.from_spec(scorer.name, _SPECIFICATIONS[scorer.name], **settings)
    if "pairwise_scorer" in settings:
        settings["pairwise_scorer"] = _PAIRWISE[settings["pairwise_scorer"]]
    return getattr(autoevals, scorer.name)(**settings)


def _arguments(scorer: Scorer, item: perpend_plugin.Item, config: dict[str, Any]) -> dict[str, Any]:
    """The further arguments of the scorer, in addition to output and expected output."""
    given = {name: value for name, value in config.items() if name not in scorer.constructed}
    if "input" in scorer.needs:
        given["input"] = item.input
    if "metadata" in scorer.needs and "context" not in given:
        given["context"] = item.metadata.get("context")
    if scorer.name == "Battle" and "instructions" not in given:
        given["instructions"] = item.text("input")
    return given


def _scored(
    name: str, scorer: autoevals.Scorer, item: perpend_plugin.Item, arguments: dict[str, Any]
) -> list[perpend_plugin.Score]:
    output = item.require("output")
    # The scorer takes the schema as its expected output.
    expected = arguments.pop("schema", None) if name == "ValidJSON" else item.expected_output
    try:
        result = scorer.eval(output, expected, **arguments)
    except perpend_plugin.EvalError:
        raise
    except Exception as error:
        raise _failed(name, error) from error
    if result.score is None:
        raise perpend_plugin.NotApplicable(f"{name} had nothing to measure")
    if not math.isfinite(result.score):
        raise perpend_plugin.InvalidInput(f"{name} gives no number for this item")
    metadata = json.loads(json.dumps(result.metadata or {}, default=_plain))
    comment = metadata.get("rationale") or metadata.get("comment")
    return [
        perpend_plugin.Score(result.name, float(result.score), comment if isinstance(comment, str) else None, metadata)
    ]


def _failed(name: str, error: Exception) -> perpend_plugin.EvalError:
    """The errors of the library as errors of the contract."""
    text = f"{name}: {type(error).__name__}: {error}"
    if isinstance(error, ZeroDivisionError):
        return perpend_plugin.NotApplicable(f"{name} had nothing to measure")
    if "eight" in str(error) and isinstance(error, ValueError):
        return perpend_plugin.InvalidConfig(f"{name}: {error}")
    if isinstance(error, ValueError) and "requires" in str(error):
        return perpend_plugin.InvalidInput(f"{name}: {error}")
    if name in _JUDGING and isinstance(error, (KeyError, IndexError, AttributeError, TypeError, ValueError)):
        return perpend_plugin.Transient(f"{name}: the model's answer cannot be used: {type(error).__name__}: {error}")
    return perpend_plugin.InvalidInput(text)


def _plain(value: Any) -> Any:
    return value.as_dict() if hasattr(value, "as_dict") else str(value)


def _offer(scorer: Scorer) -> None:
    default = None

    def evaluate(item: perpend_plugin.Item, config: dict[str, Any]) -> list[perpend_plugin.Score]:
        settings = {name: config[name] for name in scorer.constructed if name in config}
        try:
            instance = default if settings == defaults else _constructed(scorer, settings)
        except ValueError as error:
            raise perpend_plugin.InvalidConfig(f"{scorer.name}: {error}") from error
        return _scored(scorer.name, instance, item, _arguments(scorer, item, config))

    slots = [_SLOTS[name] for name in scorer.slots]
    if scorer.name == "ListContains":
        slots = [perpend_plugin.embedding("embedding", "Compares items, if selected.", required=False)]
    perpend_plugin.evaluator(
        scorer.id,
        title=scorer.name,
        description=f"{scorer.description} The scorer {scorer.name} of autoevals {VERSION} for Python.",
        config=scorer.config_schema,
        needs=list(scorer.needs),
        slots=slots,
        scores=[perpend_plugin.share(scorer.name, scorer.description)],
    )(evaluate)
    defaults = {
        name: scorer.settings[name]["default"] for name in scorer.constructed if "default" in scorer.settings[name]
    }
    default = _constructed(scorer, dict(defaults))


_JUDGING = {scorer.name for scorer in (*JUDGES, *RAG)} | {"LLMClassifier"}
for one in (*PURE, *JUDGES, *RAG):
    _offer(one)


@perpend_plugin.evaluator(
    "llm-classifier",
    title="LLMClassifier",
    description=f"A judge with a configurable prompt and choices: LLMClassifier of autoevals {VERSION} for Python.",
    config={
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "default": "LLMClassifier",
                "minLength": 1,
                "maxLength": 100,
                "description": "The name of the score.",
            },
            "prompt_template": {
                "type": "string",
                "description": "The prompt; {{input}}, {{output}} and {{expected}} insert parts of the item.",
            },
            "choice_scores": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1},
                "description": "The score of each choice.",
            },
            **JUDGE,
        },
        "required": ["prompt_template", "choice_scores"],
        "additionalProperties": False,
    },
    needs=["input", "output", "expected_output", "metadata"],
    slots=[_SLOTS[CHAT]],
    dynamic_scores=True,
)
def llm_classifier(item: perpend_plugin.Item, config: dict[str, Any]) -> list[perpend_plugin.Score]:
    scorer = autoevals.LLMClassifier(**config)
    return _scored("LLMClassifier", scorer, item, {"input": item.input, "metadata": item.metadata})


def _warm_up() -> None:
    """Runs the code of the library that initializes itself on first use."""
    from autoevals import JSONDiff, ListContains, ValidJSON

    ListContains(pairwise_scorer=_Levenshtein).eval(["a", "b"], ["b"])
    JSONDiff().eval({"a": ["x", 1, None]}, '{"a": ["y", 2, null]}')
    for schema in ({"type": "object"}, {"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"}):
        ValidJSON().eval('{"a": 1}', schema)
    autoevals.llm.chevron.render("{{a}} {{#b}}{{c}}{{/b}} {{{d}}}", {"a": 1, "b": [{"c": 2}], "d": 3})


_warm_up()
