"""Facts about the call in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import host

if TYPE_CHECKING:
    import random


def seed() -> int:
    """A number derived from plug-in, evaluator, configuration and item: equal calls have equal seeds."""
    return host.current.seed()


def run_time() -> int:
    """The start time of the run in milliseconds since 1970. Clocks always return this time."""
    return host.current.run_time()


def rng() -> random.Random:
    """A random generator that returns the same numbers in equal calls."""
    # Not at the top level: without `random` no generator is seeded in each call.
    import random

    return random.Random(seed())
