"""The stand-ins for compiled packages, held to the plain forms of what they compute."""

import itertools
import random
import unittest

import numpy
import polyleven
from scipy.optimize import linear_sum_assignment


def plain_distance(one, other):
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (left != right))
    return row[-1]


class StandIns(unittest.TestCase):
    def test_distances_are_those_of_the_plain_table(self):
        chance = random.Random(1)
        for _ in range(2_000):
            one, other = ("".join(chance.choices("abcé🙂", k=chance.randrange(0, 70))) for _ in range(2))
            self.assertEqual(polyleven.levenshtein(one, other), plain_distance(one, other), (one, other))

    def test_the_assignment_is_the_cheapest_of_all(self):
        chance = random.Random(2)
        for _ in range(300):
            n_rows, n_columns = chance.randrange(1, 6), chance.randrange(1, 6)
            costs = [[chance.random() for _ in range(n_columns)] for _ in range(n_rows)]
            rows, columns = linear_sum_assignment(numpy.array(costs))
            self.assertEqual(len(rows), min(n_rows, n_columns))
            self.assertEqual(len(set(columns)), len(columns))
            found = sum(costs[row][column] for row, column in zip(rows, columns))
            turned = costs if n_rows <= n_columns else [list(column) for column in zip(*costs)]
            choices = itertools.permutations(range(len(turned[0])), len(turned))
            best = min(sum(row[column] for row, column in zip(turned, choice)) for choice in choices)
            self.assertAlmostEqual(found, best)

    def test_letters_are_assigned_in_steps_that_grow_with_the_square_of_their_number(self):
        class Counted(float):
            n_read = 0

            def __radd__(self, other):
                Counted.n_read += 1
                return float(other) + float(self)

            def __sub__(self, other):
                Counted.n_read += 1
                return float(self) - float(other)

        chance = random.Random(3)
        n = 120
        for letters in ("ab", "abcdefghijklmnopqrstuvwxyz"):
            one, other = (chance.choices(letters, k=n) for _ in range(2))
            Counted.n_read = 0
            rows, columns = linear_sum_assignment([[Counted(left != right) for right in other] for left in one])
            n_equal = sum(one[row] == other[column] for row, column in zip(rows, columns))
            self.assertEqual(n_equal, sum(min(one.count(letter), other.count(letter)) for letter in letters))
            self.assertLess(Counted.n_read, 6 * n * n)

    def test_a_matrix_can_be_negated_and_picked_from(self):
        matrix = -numpy.array([[1, 2], [3, 4]])
        self.assertEqual(list(matrix[[0, 1], [1, 0]]), [-2, -3])


if __name__ == "__main__":
    unittest.main()
