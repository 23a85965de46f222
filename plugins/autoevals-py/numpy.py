"""Replaces the compiled package numpy: the functions that a list comparison needs for a matrix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class _Array(list):
    """Numbers, or rows of them."""

    def __neg__(self) -> _Array:
        return _Array(-element for element in self)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):
            rows, columns = index
            return _Array(list.__getitem__(self, row)[column] for row, column in zip(rows, columns))
        return list.__getitem__(self, index)


def array(values: Iterable[Any]) -> _Array:
    """The values, rows as arrays of their own."""
    return _Array(array(value) if isinstance(value, list) else value for value in values)
