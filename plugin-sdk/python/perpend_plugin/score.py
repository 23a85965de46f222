"""Scores, and the declarations of scores and slots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import Internal

#: The value of a score. A str is a category.
Value = bool | float | int | str


@dataclass
class Score:
    """One measurement about one item."""

    #: One of the declared names.
    name: str
    #: A finite number, a bool, or a category of at most 256 bytes.
    value: Value
    #: A short explanation for users.
    comment: str | None = None
    #: Further data for programs.
    metadata: Mapping[str, Any] | None = None
    #: Attach the score to this observation; None attaches it to the subject of the evaluation.
    observation_id: str | None = None

    def metadata_json(self) -> str | None:
        """The metadata as JSON text."""
        if not self.metadata:
            return None
        try:
            return json.dumps(dict(self.metadata), ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise Internal(f"score {self.name!r}: its metadata is not JSON: {error}") from error


@dataclass(frozen=True)
class Spec:
    """Declares one score. Created by `numeric`, `share`, `boolean` and `categorical`."""

    name: str
    description: str
    kind: str
    minimum: float | None = None
    maximum: float | None = None
    higher_is_better: bool = True
    categories: tuple[str, ...] = ()


def numeric(
    name: str,
    description: str = "",
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    higher_is_better: bool = True,
) -> Spec:
    """A number; both ends belong to its range."""
    return Spec(name, description, "numeric", minimum, maximum, higher_is_better)


def share(name: str, description: str = "") -> Spec:
    """A number from 0 (bad) to 1 (good)."""
    return numeric(name, description, minimum=0.0, maximum=1.0)


def boolean(name: str, description: str = "") -> Spec:
    """True or false."""
    return Spec(name, description, "boolean")


def categorical(name: str, description: str = "", categories: Iterable[str] = ()) -> Spec:
    """One of these categories; without categories, any category."""
    return Spec(name, description, "categorical", categories=tuple(categories))


@dataclass(frozen=True)
class Slot:
    """A slot for a model, which the configuration of an evaluator assigns. Created by `slot` and `embedding`."""

    name: str
    description: str = ""
    kind: str = "chat"
    required: bool = True


def slot(name: str, description: str = "", *, required: bool = True) -> Slot:
    """A chat model."""
    return Slot(name, description, "chat", required)


def embedding(name: str, description: str = "", *, required: bool = True) -> Slot:
    """An embedding model."""
    return Slot(name, description, "embedding", required)


@dataclass(frozen=True)
class Problem:
    """A problem of a configuration."""

    message: str
    #: JSON Pointer into the configuration; empty for the whole of it.
    pointer: str = field(default="")


def scores_of(answer: Any, specs: tuple[Spec, ...]) -> list[Score]:
    """The scores in the result of an evaluator: a score, several, a value, or nothing."""
    if answer is None:
        return []
    if isinstance(answer, (bool, int, float, str)):
        if len(specs) != 1:
            raise Internal(
                f"a value without a name requires exactly one declared score, got {answer!r} and"
                f" {len(specs)} declared scores: return Score(name, value)"
            )
        return [Score(specs[0].name, answer)]
    is_many = isinstance(answer, Iterable) and not isinstance(answer, Mapping)
    scores = list(answer) if is_many else [answer]
    for score in scores:
        if not isinstance(score, Score):
            raise Internal(f"the evaluator must return a Score, got {type(score).__name__}")
        if not isinstance(score.value, (bool, int, float, str)):
            kind = type(score.value).__name__
            raise Internal(f"the value of score {score.name!r} must be a number, a bool or a str, got {kind}")
    return scores
