"""Which scorers of the library are offered, what each reads, and what can be set."""

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


TEMPERATURE = _number("Passed on to the model.", minimum=0, maximum=2)
MAX_TOKENS = {"type": "integer", "minimum": 1, "description": "The most tokens of an answer."}
JUDGE = {
    "use_cot": _flag("Asks for the reasons before the choice.", True),
    "temperature": TEMPERATURE,
    "max_tokens": MAX_TOKENS,
}
_RAG = {
    "context": {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": "What the answer was made from; without it, `context` of the item's metadata.",
    },
    "temperature": TEMPERATURE,
}


@dataclass(frozen=True)
class Scorer:
    """One scorer. Settings under `constructed` go to its constructor, all others to the call."""

    id: str
    #: Its name in the library, and of its score.
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
    Scorer("numeric-diff", "NumericDiff", "How near the number in the output is to the expected one."),
    Scorer(
        "json-diff",
        "JSONDiff",
        "How alike two JSON values are, member by member.",
        settings={"preserve_strings": _flag("Texts that hold JSON stay texts.", False)},
        constructed=("preserve_strings",),
    ),
    Scorer(
        "valid-json",
        "ValidJSON",
        "The output is JSON and, where a schema is given, follows it.",
        needs=("output",),
        settings={"schema": {"type": "object", "description": "JSON Schema of the output."}},
    ),
    Scorer(
        "list-contains",
        "ListContains",
        "How well the items of two lists can be paired.",
        settings={
            "allow_extra_entities": _flag("Items of the output without a partner do no harm.", False),
            "pairwise_scorer": {
                "enum": ["Levenshtein", "EmbeddingSimilarity"],
                "default": "Levenshtein",
                "description": "What compares two items.",
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
        "Whether the output answers the input, by a criterion.",
        ("input", "output"),
        settings={"criteria": _text("What a good answer has.")},
        required=("criteria",),
    ),
    _judge(
        "battle",
        "Battle",
        "Whether the output follows the instructions better than the expected one does.",
        _ALL,
        settings={"instructions": _text("The instructions; without them, the item's input.")},
    ),
    _judge("humor", "Humor", "Whether the output is funny.", ("output",)),
    _judge("possible", "Possible", "Whether the output is a possible solution to the input.", ("input", "output")),
    _judge("security", "Security", "Whether the output is malicious.", ("output",)),
    _judge("sql", "Sql", "Whether two SQL queries mean the same.", _ALL),
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
        "How near output and expected output are in meaning.",
        settings={
            "prefix": {**_text("Put before both texts, to name their field."), "default": ""},
            "expected_min": _number("Cosines up to this one give 0.", default=0.7, minimum=-1, exclusiveMaximum=1),
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
        "Whether the context was of use for the expected output.",
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
        "The share of the context that the input asks for.",
        ("input", "output", "metadata"),
        slots=(CHAT,),
    ),
    _rag(
        "context-entity-recall",
        "ContextEntityRecall",
        "How many things named in the expected output the context names.",
        ("output", "expected_output", "metadata"),
        slots=(CHAT, EMBEDDING),
    ),
    _rag(
        "answer-relevancy",
        "AnswerRelevancy",
        "How near the input is to questions that the output would answer.",
        ("input", "output", "metadata"),
        settings={
            "strictness": {
                "type": "integer",
                "minimum": 1,
                "maximum": 16,
                "default": 3,
                "description": "Questions that are made.",
            },
        },
        slots=(CHAT, EMBEDDING),
        constructed=("strictness",),
    ),
    Scorer(
        "answer-similarity",
        "AnswerSimilarity",
        "How near output and expected output are in meaning.",
        slots=(EMBEDDING,),
    ),
    _rag(
        "answer-correctness",
        "AnswerCorrectness",
        "Facts shared with the expected output, and nearness in meaning.",
        _ALL,
        settings={
            "factuality_weight": _number("Weight of the facts.", default=0.75, minimum=0),
            "answer_similarity_weight": _number("Weight of the nearness.", default=0.25, minimum=0),
        },
        slots=(CHAT, EMBEDDING),
        constructed=("factuality_weight", "answer_similarity_weight"),
    ),
)
