"""The exports of a component. `perpend plugin build` writes a module that imports the evaluators and calls `ready`.

Modules are executed while the plug-in is built. The memory image at the end of the build is the plug-in: every call starts
from that image, without files.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

from componentize_py_types import Err
from wit_world.imports import types

from . import bindings, errors, host, registry
from .item import Item, to_raw
from .score import Problem, Score

try:
    from wit_world.exports import config_check as _config_check
except ImportError:
    # No evaluator checks its configuration.
    _config_check = None

#: The number of warm-up calls of an evaluator, and their maximum duration.
_WARM_CALLS, _WARM_SECONDS = 64, 1.0

_random: Any = None
_info: Any = None


class Evaluator:
    """The export `perpend:evaluator/evaluator`."""

    def describe(self) -> Any:
        return _info

    def evaluate(self, evaluator_id: str, item: Any, config: str) -> list[Any]:
        try:
            if _random is not None:
                # Without a seed the generator in the image would return the same numbers for every item.
                _random.seed(host.current.seed())
            scores = registry.find(evaluator_id).evaluate(bindings.item(item), json.loads(config))
            return [bindings.score(score) for score in scores]
        except MemoryError:
            # Ends the call: the host reports the limit.
            os.abort()
        except BaseException as error:
            # Includes `SystemExit`: `exit()` in an evaluator only ends its call.
            raise bindings.raised(errors.explained(error)) from None


class ConfigCheck:
    """The export `perpend:evaluator/config-check`."""

    def check_config(self, evaluator_id: str, config: str) -> list[Any]:
        try:
            problems = registry.find(evaluator_id).problems(json.loads(config))
        except Exception as error:
            problems = [Problem(errors.explained(error).message)]
        return [_config_check.Problem(one.pointer, one.message) for one in problems]


def ready(samples: Iterable[Mapping[str, Any]] = ()) -> None:
    """Finishes the build: checks the description, runs the samples, and freezes the memory."""
    global _info, _random
    if not registry.current.name:
        raise SystemExit('the plug-in must have a name: call perpend_plugin.plugin("vendor/name") at the top level')
    if not registry.current.evaluators:
        raise SystemExit("the plug-in must have an evaluator: decorate a function with @perpend_plugin.evaluator(...)")
    _info = bindings.description(registry.current)
    _warm_up(list(samples))
    _random = sys.modules.get("random")
    # For `rng`, which is available even if no other module imports `random`.
    importlib.import_module("random")
    for action in registry.current.at_end:
        action()
    host.current = bindings.Wasm()
    # Collections during a call skip the objects of the image.
    gc.collect()
    gc.freeze()


def _warm_up(samples: list[Mapping[str, Any]]) -> None:
    """Runs the evaluators over sample items, without a host. The image then contains the modules and tables of the first
    use, and the code that the interpreter has specialized: specialization during a call would write to memory pages. The
    results are ignored."""
    one = registry.Evaluator(
        id="",
        title="",
        description="",
        config=None,
        config_schema={},
        needs=(),
        slots=(),
        scores=(),
        dynamic_scores=True,
        deterministic=True,
        call=_touch,
        takes_config=True,
    )
    items = [_sample_item(sample) for sample in samples]
    spare = types.Item("", None, types.Payload_Text(""), types.Payload_Json("0"), "{}", None, None, None)
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        registry.current.evaluators[""] = one
        _run("", spare, "{}")
        del registry.current.evaluators[""]
        for evaluator in registry.current.evaluators.values():
            properties = evaluator.config_schema.get("properties", {})
            defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
            for item in items:
                _run(evaluator.id, item, json.dumps(defaults))


def _run(evaluator_id: str, item: types.Item, config: str) -> None:
    export, began = Evaluator(), time.monotonic()
    for _ in range(_WARM_CALLS):
        try:
            export.evaluate(evaluator_id, item, config)
        except Err:
            pass
        if _WARM_SECONDS < time.monotonic() - began:
            return


def _touch(item: Item, config: Any) -> list[Score]:
    item.given("metadata")
    return [Score("x", len(item.text()), str(item.output)), Score("y", True), Score("z", "a", metadata={"a": 1})]


def _sample_item(sample: Mapping[str, Any]) -> types.Item:
    payloads = []
    for member in ("input", "output", "expectedOutput"):
        is_json, text = to_raw(sample[member]) if member in sample else (False, None)
        payload = types.Payload_Json if is_json else types.Payload_Text
        payloads.append(None if text is None else payload(text))
    metadata = json.dumps(sample["metadata"]) if "metadata" in sample else None
    return types.Item(str(sample.get("id", "")), *payloads, metadata, None, None, None)
