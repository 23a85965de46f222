"""Facts about the call in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import host

if TYPE_CHECKING:
    import random


def seed() -> int:
    """A number derived from plug-in, evaluator, configuration and item: equal calls get equal seeds."""
    return host.current.seed()


def run_time() -> int:
    """The moment the run started, in milliseconds since 1970; the clocks stand still at it."""
    return host.current.run_time()


def rng() -> random.Random:
    """A random generator that draws the same numbers in equal calls."""
    # Not at the top: a plug-in that never imports `random` has nothing to seed in each call.
    import random

    return random.Random(seed())
