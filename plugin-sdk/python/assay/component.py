"""What a component exports. `assay plugin build` writes a module that imports the author's evaluators and
then `ready` from here.

All of this runs while the plug-in is built, and what is in memory afterwards is the plug-in: every call
starts from that image, without files.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from componentize_py_types import Err
from wit_world.imports import types

from . import bindings, errors, host, registry
from .item import Item
from .score import Problem

try:
    from wit_world.exports import config_check as _config_check
except ImportError:
    # No evaluator checks its configuration.
    _config_check = None

_random: Any = None
_info: Any = None


class Evaluator:
    """The export `assay:evaluator/evaluator`."""

    def describe(self) -> Any:
        return _info

    def evaluate(self, evaluator_id: str, item: Any, config: str) -> list[Any]:
        try:
            if _random is not None:
                # The generator in the image would draw the same numbers for every item.
                _random.seed(host.current.seed())
            scores = registry.find(evaluator_id).evaluate(bindings.item(item), json.loads(config))
            return [bindings.score(score) for score in scores]
        except MemoryError:
            # Ends the call: the host knows which limit was reached and says so.
            os.abort()
        except BaseException as error:
            # All of them: `exit()` in an evaluator ends no more than its call.
            raise bindings.raised(errors.explained(error)) from None


class ConfigCheck:
    """The export `assay:evaluator/config-check`."""

    def check_config(self, evaluator_id: str, config: str) -> list[Any]:
        try:
            problems = registry.find(evaluator_id).problems(json.loads(config))
        except Exception as error:
            problems = [Problem(errors.explained(error).message)]
        return [_config_check.Problem(one.pointer, one.message) for one in problems]


def ready(samples: Iterable[Mapping[str, Any]] = ()) -> None:
    """Ends the building: checks the description, runs the samples, and keeps what is in memory."""
    global _info, _random
    if not registry.current.name:
        raise SystemExit('the plug-in has no name: call assay.plugin("vendor/name") at the top level')
    if not registry.current.evaluators:
        raise SystemExit("the plug-in has no evaluator: decorate a function with @assay.evaluator(...)")
    _info = bindings.description(registry.current)
    _warm_up(list(samples))
    _random = sys.modules.get("random")
    for action in registry.current.at_end:
        action()
    host.current = bindings.Wasm()
    # What is there now stays: a collection during a call need not look at it.
    gc.collect()
    gc.freeze()


def _warm_up(samples: list[Mapping[str, Any]]) -> None:
    """Runs evaluators that ask no model over sample items. What they import or build on first use is then
    in the image; what they answer does not matter here."""
    parts = {"input": "input", "output": "output", "expected_output": "expectedOutput"}
    for one in registry.current.evaluators.values():
        if one.slots or "trace" in one.needs:
            continue
        for sample in samples:
            values = {name: sample[member] for name, member in parts.items() if member in sample}
            properties = one.config_schema.get("properties", {})
            config = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
            try:
                one.evaluate(Item.of(values, metadata=sample.get("metadata")), config)
            except Exception:
                continue
    # The way through the bindings too.
    spare = Evaluator()
    nothing = types.Item("", None, types.Payload_Text(""), None, "{}", None)
    try:
        spare.evaluate("", nothing, "{}")
    except Err:
        pass
