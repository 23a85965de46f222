"""The scorers of the library, the parts they read, and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CHAT, EMBEDDING = "judge", "embedding"
_ALL = ("input", "output", "expected_output")


def _flag(description: str, default: bool) -> dict[str, Any]:
    return {"type": "boolean", "description": description, "default": default}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _number(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "number", "description": description, **more}


TEMPERATURE = _number("The sampling temperature.", minimum=0, maximum=2)
MAX_TOKENS = {"type": "integer", "minimum": 1, "description": "The maximum number of tokens of an answer."}
JUDGE = {
    "use_cot": _flag("Request the reasons before the choice.", True),
    "temperature": TEMPERATURE,
    "max_tokens": MAX_TOKENS,
}
_RAG = {
    "context": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "The context of the answer. Default: `context` of the item's metadata.",
    },
    "temperature": TEMPERATURE,
}


@dataclass(frozen=True)
class Scorer:
    """One scorer. Settings under `constructed` go to its constructor, all others to the call."""

    id: str
    #: The name in the library and of the score.
    name: str
    description: str
    needs: tuple[str, ...] = ("output", "expected_output")
    settings: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    constructed: tuple[str, ...] = ()

    @property
    def config_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": dict(self.settings)}
        if self.required:
            schema["required"] = list(self.required)
        return {**schema, "additionalProperties": False}


def _judge(id: str, name: str, description: str, needs: tuple[str, ...], **more: Any) -> Scorer:
    settings = {**more.pop("settings", {}), **JUDGE}
    return Scorer(id, name, description, needs, settings, slots=(CHAT,), constructed=tuple(JUDGE), **more)


def _rag(id: str, name: str, description: str, needs: tuple[str, ...], **more: Any) -> Scorer:
    settings = {**_RAG, **more.pop("settings", {})}
    constructed = ("temperature", *more.pop("constructed", ()))
    return Scorer(id, name, description, needs, settings, constructed=constructed, **more)


PURE = (
    Scorer(
        "levenshtein",
        "Levenshtein",
        "One minus the edit distance of output and expected output over the longer length.",
    ),
    Scorer("exact-match", "ExactMatch", "Output and expected output are equal; objects are compared as JSON."),
    Scorer("numeric-diff", "NumericDiff", "The closeness of the number in the output to the expected one."),
    Scorer(
        "json-diff",
        "JSONDiff",
        "The similarity of two JSON values, by members.",
        settings={"preserve_strings": _flag("Compare texts that are JSON as texts.", False)},
        constructed=("preserve_strings",),
    ),
    Scorer(
        "valid-json",
        "ValidJSON",
        "The output is JSON and satisfies the schema, if any.",
        needs=("output",),
        settings={"schema": {"type": "object", "description": "JSON Schema of the output."}},
    ),
    Scorer(
        "list-contains",
        "ListContains",
        "The similarity of two lists by the best pairing of their items.",
        settings={
            "allow_extra_entities": _flag("Ignore items of the output without a counterpart.", False),
            "pairwise_scorer": {
                "enum": ["Levenshtein", "EmbeddingSimilarity"],
                "default": "Levenshtein",
                "description": "The scorer that compares two items.",
            },
        },
        slots=(EMBEDDING,),
        constructed=("allow_extra_entities", "pairwise_scorer"),
    ),
)

JUDGES = (
    _judge("factuality", "Factuality", "Whether the output agrees with the expected one in its facts.", _ALL),
    _judge(
        "closed-qa",
        "ClosedQA",
        "Whether the output answers the input according to a criterion.",
        ("input", "output"),
        settings={"criteria": _text("The criterion of a good answer.")},
        required=("criteria",),
    ),
    _judge(
        "battle",
        "Battle",
        "Whether the output follows the instructions better than the expected one.",
        _ALL,
        settings={"instructions": _text("The instructions. Default: the input of the item.")},
    ),
    _judge("humor", "Humor", "Whether the output is funny.", ("output",)),
    _judge("possible", "Possible", "Whether the output is a possible solution to the input.", ("input", "output")),
    _judge("security", "Security", "Whether the output is malicious.", ("output",)),
    _judge("sql", "Sql", "Whether two SQL queries are equivalent.", _ALL),
    _judge("summary", "Summary", "Whether the output is a better summary of the input than the expected one.", _ALL),
    _judge(
        "translation",
        "Translation",
        "Whether the output translates the input as well as the expected one.",
        _ALL,
        settings={"language": _text("Language of the input.")},
        required=("language",),
    ),
)

RAG = (
    Scorer(
        "embedding-similarity",
        "EmbeddingSimilarity",
        "The semantic similarity of output and expected output.",
        settings={
            "prefix": {**_text("A prefix of both texts, such as the name of their field."), "default": ""},
            "expected_min": _number("Cosines up to this value score 0.", default=0.7, minimum=-1, exclusiveMaximum=1),
        },
        slots=(EMBEDDING,),
        constructed=("prefix", "expected_min"),
    ),
    _rag(
        "faithfulness",
        "Faithfulness",
        "The share of the output's statements that the context supports.",
        ("input", "output", "metadata"),
        slots=(CHAT,),
    ),
    _rag(
        "context-precision",
        "ContextPrecision",
        "Whether the context was useful for the expected output.",
        (*_ALL, "metadata"),
        slots=(CHAT,),
    ),
    _rag(
        "context-recall",
        "ContextRecall",
        "The share of the expected output's sentences that the context supports.",
        (*_ALL, "metadata"),
        slots=(CHAT,),
    ),
    _rag(
        "context-relevancy",
        "ContextRelevancy",
        "The share of the context that is relevant for the input.",
        ("input", "output", "metadata"),
        slots=(CHAT,),
    ),
    _rag(
        "context-entity-recall",
        "ContextEntityRecall",
        "The share of the entities of the expected output in the context.",
        ("output", "expected_output", "metadata"),
        slots=(CHAT, EMBEDDING),
    ),
    _rag(
        "answer-relevancy",
        "AnswerRelevancy",
        "The similarity of the input to questions that the output would answer.",
        ("input", "output", "metadata"),
        settings={
            "strictness": {
                "type": "integer",
                "minimum": 1,
                "maximum": 16,
                "default": 3,
                "description": "The number of generated questions.",
            },
        },
        slots=(CHAT, EMBEDDING),
        constructed=("strictness",),
    ),
    Scorer(
        "answer-similarity",
        "AnswerSimilarity",
        "The semantic similarity of output and expected output.",
        slots=(EMBEDDING,),
    ),
    _rag(
        "answer-correctness",
        "AnswerCorrectness",
        "Facts shared with the expected output, and semantic similarity.",
        _ALL,
        settings={
            "factuality_weight": _number("Weight of the facts.", default=0.75, minimum=0),
            "answer_similarity_weight": _number("Weight of the similarity.", default=0.25, minimum=0),
        },
        slots=(CHAT, EMBEDDING),
        constructed=("factuality_weight", "answer_similarity_weight"),
    ),
)
