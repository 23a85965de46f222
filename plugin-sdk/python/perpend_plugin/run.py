"""The run of an experiment under evaluation: `item.run`. The traces of its items can be read with `trace`, by
evaluators with `needs=("trace", ...)`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import host
from .item import TraceRef

_PAGE = 20


@dataclass
class RunInfo:
    """A run without its items."""

    id: str
    name: str | None = None
    dataset_id: str | None = None
    metadata: Any = None
    item_count: int = 0


@dataclass
class RunItem:
    """The recorded execution of one item of the dataset. Absent values are None, like the JSON value null."""

    id: str
    dataset_item_id: str | None = None
    #: The reference to the recorded execution.
    trace: TraceRef | None = None
    #: The input in the dataset; if absent, the recorded one.
    input: Any = None
    output: Any = None
    expected_output: Any = None
    #: The metadata of the item of the dataset.
    metadata: Any = None


def get(run_id: str) -> RunInfo:
    """The run. Raises `TraceError`."""
    return host.current.get_run(run_id)


def items(run_id: str) -> Iterator[RunItem]:
    """Its items, the newest first; further pages are loaded on demand."""
    cursor = None
    while True:
        page, cursor = host.current.list_items(run_id, cursor=cursor, limit=_PAGE)
        yield from page
        if cursor is None:
            return
