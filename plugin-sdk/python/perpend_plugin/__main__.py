"""`python3 -m perpend_plugin MODULE`: the requirements of the evaluators of a module, as JSON.

`perpend plugin build` asks this before it makes the component: the imports of the component follow from it,
and a mistake in the module shows at once, in the Python at hand.
"""

from __future__ import annotations

import importlib
import json
import sys

from . import registry


def main(arguments: list[str]) -> None:
    """Loads the module and prints its registrations."""
    [module] = arguments
    importlib.import_module(module)
    if not registry.current.name:
        raise SystemExit(f'{module}.py must name the plug-in: call perpend_plugin.plugin("vendor/name") at its top level')
    if not registry.current.evaluators:
        raise SystemExit(f"{module}.py must have an evaluator: decorate a function with @perpend_plugin.evaluator(...)")
    evaluators = registry.current.evaluators.values()
    needs = {
        "name": registry.current.name,
        "evaluators": [one.id for one in evaluators],
        "capabilities": registry.needed_capabilities(),
        "checks_config": any(one.check for one in evaluators),
    }
    print(json.dumps(needs))


if __name__ == "__main__":
    main(sys.argv[1:])
