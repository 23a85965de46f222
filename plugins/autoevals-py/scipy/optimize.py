"""The assignment of rows to columns with the minimum sum."""

from __future__ import annotations

import math
from collections.abc import Sequence


def linear_sum_assignment(costs: Sequence[Sequence[float]]) -> tuple[list[int], list[int]]:
    """Pairs of row and column, each used at most once, as many as the shorter side has."""
    costs = [list(row) for row in costs]
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

    The Hungarian method with potentials: one row after the other is added by a shortest augmenting path. Of columns at
    the same distance, one without a row is taken: costs that are equal, as those of letters are, need no search.
    """
    n_columns = len(costs[0])
    of_row, of_column = [0.0] * len(costs), [0.0] * n_columns
    column_of, row_of = [-1] * len(costs), [-1] * n_columns
    for added in range(len(costs)):
        left = list(range(n_columns))
        distances, before = [math.inf] * n_columns, [-1] * n_columns
        row, length, passed = added, 0.0, []
        while True:
            row_costs, offset = costs[row], length - of_row[row]
            nearest, place = math.inf, -1
            for index, other in enumerate(left):
                distance = offset + row_costs[other] - of_column[other]
                if distance < distances[other]:
                    distances[other], before[other] = distance, row
                else:
                    distance = distances[other]
                if distance < nearest or (distance == nearest and row_of[other] < 0):
                    nearest, place = distance, index
            length, column = nearest, left[place]
            if row_of[column] < 0:
                break
            passed.append(column)
            row = row_of[column]
            left[place] = left[-1]
            left.pop()
        of_row[added] += length
        for other in passed:
            of_row[row_of[other]] += length - distances[other]
            of_column[other] -= length - distances[other]
        row = -1
        while row != added:
            row = before[column]
            row_of[column] = row
            column_of[row], column = column, column_of[row]
    return column_of
