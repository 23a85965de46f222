"""Tests of the evaluator as a function, without a sandbox."""

import unittest

import perpend_plugin
from perpend_plugin.testing import evaluate

import evaluators  # noqa: F401 (registers them)


class MaxLength(unittest.TestCase):
    def test_a_short_output_passes_and_the_comment_has_its_length(self):
        [score] = evaluate("max-length", output="Zürich", config={"max_chars": 6})
        self.assertIs(score.value, True)
        self.assertEqual(score.comment, "6 of 6 characters")

    def test_white_space_can_be_ignored(self):
        config = {"max_chars": 3, "trim": True}
        [score] = evaluate("max-length", output="  yes  ", config=config)
        self.assertIs(score.value, True)

    def test_an_item_without_output_is_invalid_input(self):
        with self.assertRaises(perpend_plugin.InvalidInput):
            evaluate("max-length", input="hello")


if __name__ == "__main__":
    unittest.main()
