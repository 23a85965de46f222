"""The argument and the result of `evaluate`, without a sandbox."""

import unittest

import perpend_plugin
from perpend_plugin.testing import evaluate

import evaluators  # noqa: F401 (registers them)


def run(source, **item):
    item.setdefault("output", "hello")
    return evaluate("code", config={"source": source}, **item)


def returning(expression):
    return f"def evaluate(ctx):\n    return {expression}\n"


class Context(unittest.TestCase):
    def test_parts_of_the_item_are_attributes_of_the_context(self):
        source = """
def evaluate(ctx: EvaluationContext) -> EvaluationResult:
    seen = [ctx.observation.input, ctx.observation.output, ctx.observation.metadata]
    call = ctx.observation.tool_calls[0]
    seen += [call.name, call.arguments["city"], call.index]
    seen += [ctx.experiment.item_expected_output, ctx.experiment.item_metadata]
    return {"scores": [{"name": "seen", "value": 1, "metadata": {"seen": seen}}]}
"""
        metadata = {
            "user": "u",
            "perpend.tool_calls": [{"name": "weather", "arguments": {"city": "Bern"}}],
            "perpend.item_metadata": {"split": "test"},
        }
        [score] = run(source, input={"q": 1}, expected_output=None, metadata=metadata)
        seen = [{"q": 1}, "hello", {"user": "u"}, "weather", "Bern", 0, None, {"split": "test"}]
        self.assertEqual(score.metadata["seen"], seen)

    def test_outside_experiments_there_is_no_experiment(self):
        [score] = run(returning("{'scores': [{'name': 'x', 'value': ctx.experiment is None}]}"))
        self.assertIs(score.value, True)


class Result(unittest.TestCase):
    def test_values_have_the_given_data_type(self):
        for value, kind, expected in [
            ("2", "'NUMERIC'", 2.0),
            ("True", "'BOOLEAN'", True),
            ("0", "'BOOLEAN'", False),
            ("'TRUE'", "'BOOLEAN'", True),
            ("'0'", "'BOOLEAN'", False),
            ("'good'", "'CATEGORICAL'", "good"),
            ("'a sentence'", "'TEXT'", "a sentence"),
            ("0.5", "None", 0.5),
            ("'good'", "None", "good"),
            ("False", "None", False),
        ]:
            with self.subTest(value=value, kind=kind):
                [score] = run(returning(f"EvaluationResult(scores=[Score('x', {value}, {kind})])"))
                self.assertEqual(score.value, expected)
                self.assertIs(type(score.value), type(expected))

    def test_an_invalid_result_is_an_error_with_its_position(self):
        for expression, part in [
            ("None", "must return EvaluationResult(scores=[...]), got nothing"),
            ("5", "got a int"),
            ("{'scores': 'x'}", "`scores` must be a list, got str"),
            ("{'scores': [{'value': 1}]}", "scores[0]: the name of a score must be"),
            ("{'scores': [{'name': 'x'}]}", "'x' must have a value"),
            ("{'scores': [{'name': 'x', 'value': 'a', 'dataType': 'NUMERIC'}]}", "must be a number, got 'a'"),
            ("{'scores': [{'name': 'x', 'value': 2, 'data_type': 'BOOLEAN'}]}", "True, False, 1 or 0, got 2"),
            ("{'scores': [{'name': 'x', 'value': '', 'dataType': 'TEXT'}]}", "1 to 500 characters"),
            ("{'scores': [{'name': 'x', 'value': 1, 'dataType': 'COLOR'}]}", "one of NUMERIC"),
            ("{'scores': [{'name': 'x', 'value': float('nan')}]}", "not a finite number"),
            ("{'scores': [{'name': 'x', 'value': 1, 'comment': 5}]}", "must be text, got int"),
            ("{'scores': [{'name': 'x', 'value': 1, 'metadata': {'a': object}}]}", "is not JSON"),
        ]:
            with self.subTest(expression=expression), self.assertRaises(perpend_plugin.Internal) as caught:
                run(returning(expression))
            self.assertTrue(caught.exception.message.startswith("INVALID_RESULT: "), caught.exception)
            self.assertIn(part, caught.exception.message)

    def test_no_scores_are_nothing_to_report(self):
        self.assertEqual(run(returning("EvaluationResult(scores=[])")), [])


class Errors(unittest.TestCase):
    def test_a_syntax_error_is_reported_with_its_line(self):
        with self.assertRaises(perpend_plugin.InvalidConfig) as caught:
            run("def evaluate(ctx)\n    pass")
        self.assertIn("INVALID_SOURCE", caught.exception.message)
        self.assertIn("line 1", caught.exception.message)

    def test_an_exception_is_reported_with_its_type_and_line(self):
        with self.assertRaises(perpend_plugin.Internal) as caught:
            run("def helper(x):\n    return 1 / x\n\ndef evaluate(ctx):\n    return helper(0)")
        expected = "USER_CODE_ERROR: ZeroDivisionError: division by zero (line 2, in helper)"
        self.assertEqual(caught.exception.message, expected)


if __name__ == "__main__":
    unittest.main()
