"""The SDK for Perpend plug-ins in Python.

An evaluator is a function or a class with the decorator `evaluator`; `plugin` names the whole. Everything
an author needs is imported from here; `perpend_plugin.testing` runs evaluators without a server.
"""

from . import log, model, run, session, trace
from .context import rng, run_time, seed
from .errors import (
    EvalError,
    Internal,
    InvalidConfig,
    InvalidInput,
    ModelError,
    NotApplicable,
    TraceError,
    Transient,
    Upstream,
)
from .item import Item, TraceRef
from .registry import evaluator, plugin, when_built
from .schema import field
from .score import Problem, Score, Slot, Spec, boolean, categorical, embedding, numeric, share, slot

__all__ = [
    "EvalError",
    "Internal",
    "InvalidConfig",
    "InvalidInput",
    "Item",
    "ModelError",
    "NotApplicable",
    "Problem",
    "Score",
    "Slot",
    "Spec",
    "TraceError",
    "TraceRef",
    "Transient",
    "Upstream",
    "boolean",
    "categorical",
    "embedding",
    "evaluator",
    "field",
    "log",
    "model",
    "numeric",
    "plugin",
    "rng",
    "run",
    "run_time",
    "seed",
    "session",
    "share",
    "slot",
    "trace",
    "when_built",
]
