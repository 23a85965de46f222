"""The definition of a plug-in: `plugin` names it, `evaluator` adds an evaluator."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .errors import Internal, InvalidConfig
from .item import Item
from .schema import schema_of, typed
from .score import Problem, Score, Slot, Spec, scores_of

NEEDS = ("input", "output", "expected_output", "metadata", "trace")
_ID = re.compile(r"[a-z][a-z0-9-]{0,63}")
_NAME = re.compile(r"[a-z0-9-]{1,64}/[a-z0-9-]{1,64}")

T = TypeVar("T")


@dataclass
class Evaluator:
    """One evaluator of the plug-in."""

    id: str
    title: str
    description: str
    config: Any
    config_schema: dict[str, Any]
    needs: tuple[str, ...]
    slots: tuple[Slot, ...]
    scores: tuple[Spec, ...]
    dynamic_scores: bool
    deterministic: bool
    call: Callable[..., Any]
    takes_config: bool
    check: Callable[[Any], Any] | None = None

    def evaluate(self, item: Item, config: dict[str, Any]) -> list[Score]:
        """Scores one item with a configuration that satisfies the schema."""
        answer = self.call(item, typed(self.config, config)) if self.takes_config else self.call(item)
        return scores_of(answer, self.scores)

    def problems(self, config: dict[str, Any]) -> list[Problem]:
        """The problems of a configuration that the JSON Schema cannot express."""
        if self.check is None:
            return []
        try:
            found = self.check(typed(self.config, config)) or []
        except InvalidConfig as error:
            found = [error.message]
        return [Problem(one) if isinstance(one, str) else one for one in found]


@dataclass
class Plugin:
    """The plug-in under definition."""

    name: str = ""
    version: str = ""
    description: str = ""
    evaluators: dict[str, Evaluator] = field(default_factory=dict)
    at_end: list[Callable[[], Any]] = field(default_factory=list)


#: The plug-in of the component.
current = Plugin()


def plugin(name: str, version: str = "0.1.0", description: str = "") -> None:
    """Names the plug-in: `vendor/name`, its semantic version, and a short description."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"the name of a plug-in must be vendor/name, each 1 to 64 characters of a-z, 0-9 and -; got {name!r}")
    current.name, current.version, current.description = name, version, description


def evaluator(
    id: str | None = None,
    *,
    scores: Iterable[Spec] | Spec = (),
    config: Any = None,
    needs: Sequence[str] = ("output",),
    slots: Iterable[Slot] = (),
    title: str | None = None,
    description: str | None = None,
    dynamic_scores: bool = False,
    deterministic: bool = True,
    check: Callable[[Any], Any] | None = None,
) -> Callable[[T], T]:
    """Registers an evaluator: a function `(item, config)` or `(item)`, or a class with such a method `evaluate`. A class is
    instantiated once, while the plug-in is built: create tables in its `__init__`.

    `config` is a dataclass, a TypedDict or a JSON Schema; without it the annotation of the second
    parameter is taken. `deterministic` says that equal items, configurations, seeds and answers of
    the host always give equal scores. `check` gets a
    configuration and returns its problems, as texts.
    """

    def register(target: T) -> T:
        name = id or getattr(target, "__name__", "").replace("_", "-").lower()
        if not _ID.fullmatch(name):
            raise ValueError(f"the id of an evaluator must have 1 to 64 characters of a-z, 0-9 and -, with a letter first; got {name!r}")
        if name in current.evaluators:
            raise ValueError(f"duplicate evaluator id {name!r}")
        call = target().evaluate if isinstance(target, type) else target
        takes_config, annotated = _second_parameter(call, name)
        kind = config if config is not None else annotated
        text = inspect.cleandoc(description or target.__doc__ or "")
        specs = (scores,) if isinstance(scores, Spec) else tuple(scores)
        if not specs and not dynamic_scores:
            raise ValueError(f"evaluator {name!r} must declare scores=[...] or dynamic_scores=True")
        slot_list = tuple(slots)
        unknown = [part for part in needs if part not in NEEDS]
        if unknown or isinstance(needs, str):
            raise ValueError(f"evaluator {name!r}: needs must be a list of {', '.join(NEEDS)}")
        current.evaluators[name] = Evaluator(
            id=name,
            title=title or name.replace("-", " ").capitalize(),
            description=text,
            config=kind,
            config_schema=schema_of(kind),
            needs=tuple(needs),
            slots=slot_list,
            scores=specs,
            dynamic_scores=dynamic_scores,
            deterministic=deterministic,
            call=call,
            takes_config=takes_config,
            check=check,
        )
        return target

    return register


def _second_parameter(call: Any, name: str) -> tuple[bool, Any]:
    """Whether the function has a configuration parameter, and its type."""
    if not callable(call):
        raise ValueError(f"evaluator {name!r}: a class must have a method `evaluate(self, item, config)`")
    parameters = list(inspect.signature(call).parameters.values())
    if len(parameters) not in (1, 2):
        raise ValueError(f"evaluator {name!r} must have the parameters (item) or (item, config), got {len(parameters)} parameters")
    if len(parameters) == 1:
        return False, None
    try:
        kind = typing.get_type_hints(call).get(parameters[1].name)
    except NameError as error:
        raise ValueError(f"evaluator {name!r}: the type of its configuration is unknown: {error}") from error
    # A bare `dict` does not describe the configuration.
    return True, {"type": "object"} if kind in (None, dict, Any) or typing.get_origin(kind) is dict else kind


def when_built(action: Callable[[], Any]) -> Callable[[], Any]:
    """Calls `action` at the end of the build, before the memory image of the plug-in is taken."""
    current.at_end.append(action)
    return action


def find(evaluator_id: str) -> Evaluator:
    """The evaluator with this id."""
    found = current.evaluators.get(evaluator_id)
    if found is None:
        raise Internal(f"unknown evaluator {evaluator_id!r}")
    return found


def needed_capabilities() -> tuple[str, ...]:
    """The capabilities that the evaluators need: `model` for slots, `trace` for needs."""
    evaluators = current.evaluators.values()
    needed = []
    if any(one.slots for one in evaluators):
        needed.append("model")
    if any("trace" in one.needs for one in evaluators):
        needed.append("trace")
    return tuple(needed)
