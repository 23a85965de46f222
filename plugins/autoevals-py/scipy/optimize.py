"""The assignment of rows to columns with the least sum."""

from __future__ import annotations

import math
from collections.abc import Sequence


def linear_sum_assignment(costs: Sequence[Sequence[float]]) -> tuple[list[int], list[int]]:
    """Pairs of row and column, each used at most once, as many as the shorter side has."""
    n_rows, n_columns = len(costs), len(costs[0])
    if n_rows <= n_columns:
        columns = _assigned(costs)
        return list(range(n_rows)), columns
    turned = [[row[column] for row in costs] for column in range(n_columns)]
    rows = _assigned(turned)
    pairs = sorted(zip(rows, range(n_columns)))
    return [row for row, _ in pairs], [column for _, column in pairs]


def _assigned(costs: Sequence[Sequence[float]]) -> list[int]:
    """The column of each row; there are no more rows than columns.

    The Hungarian method with potentials: one row after the other is added by a shortest augmenting path.
    """
    n_columns = len(costs[0])
    # Column 0 stands for the row that is being added; rows are counted from 1.
    row_of = [0] * (n_columns + 1)
    of_row, of_column = [0.0] * (len(costs) + 1), [0.0] * (n_columns + 1)
    for added in range(1, len(costs) + 1):
        row_of[0], column = added, 0
        shortest, before = [math.inf] * (n_columns + 1), [0] * (n_columns + 1)
        seen = [False] * (n_columns + 1)
        while row_of[column]:
            seen[column] = True
            row, step, nearest = row_of[column], math.inf, 0
            for other in range(1, n_columns + 1):
                if seen[other]:
                    continue
                reduced = costs[row - 1][other - 1] - of_row[row] - of_column[other]
                if reduced < shortest[other]:
                    shortest[other], before[other] = reduced, column
                if shortest[other] < step:
                    step, nearest = shortest[other], other
            for other in range(n_columns + 1):
                if seen[other]:
                    of_row[row_of[other]] += step
                    of_column[other] -= step
                else:
                    shortest[other] -= step
            column = nearest
        while column:
            row_of[column] = row_of[before[column]]
            column = before[column]
    columns = [0] * len(costs)
    for column in range(1, n_columns + 1):
        if row_of[column]:
            columns[row_of[column] - 1] = column - 1
    return columns
