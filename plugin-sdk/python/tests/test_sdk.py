"""Declaring evaluators and running them without a component."""

import enum
import unittest
from dataclasses import dataclass, field
from typing import Any, Literal, Optional, TypedDict

import perpend_plugin
from perpend_plugin import registry
from perpend_plugin.schema import schema_of, typed
from perpend_plugin.testing import evaluate, host


class Mode(enum.Enum):
    A = "a"
    B = "b"


@dataclass
class Inner:
    weight: float = 1.0


@dataclass
class Config:
    words: list[str]
    kind: Literal["x", "y"] = "x"
    mode: Mode = Mode.A
    inner: Inner = field(default_factory=Inner)
    many: dict[str, Inner] = field(default_factory=dict)
    pair: tuple[int, str] = (1, "a")
    maybe: Optional[int] = None
    any: Any = None
    size: int = perpend_plugin.field(3, minimum=1, maximum=9, description="How large.")


class Loose(TypedDict, total=False):
    name: str


class Fresh(unittest.TestCase):
    def setUp(self):
        registry.current.evaluators.clear()


class Schema(unittest.TestCase):
    def test_types_defaults_and_bounds_are_in_the_schema(self):
        schema = schema_of(Config)
        properties = schema["properties"]
        self.assertEqual(schema["required"], ["words"])
        self.assertIs(schema["additionalProperties"], False)
        self.assertEqual(properties["words"], {"type": "array", "items": {"type": "string"}})
        self.assertEqual(properties["kind"], {"enum": ["x", "y"], "default": "x"})
        self.assertEqual(properties["mode"], {"enum": ["a", "b"], "default": "a"})
        self.assertEqual(properties["inner"]["default"], {"weight": 1.0})
        self.assertEqual(properties["maybe"], {"type": ["integer", "null"], "default": None})
        self.assertEqual(properties["pair"]["prefixItems"], [{"type": "integer"}, {"type": "string"}])
        size = {"type": "integer", "minimum": 1, "maximum": 9, "description": "How large.", "default": 3}
        self.assertEqual(properties["size"], size)
        self.assertEqual(schema_of(Loose)["properties"], {"name": {"type": "string"}})
        self.assertNotIn("required", schema_of(Loose))

    def test_a_configuration_is_rebuilt_in_its_types(self):
        given = {"words": ["a"], "mode": "b", "inner": {"weight": 2}, "many": {"m": {}}, "pair": [2, "b"]}
        config = typed(Config, given)
        self.assertEqual((config.mode, config.inner, config.pair), (Mode.B, Inner(2.0), (2, "b")))
        self.assertEqual(config.many, {"m": Inner()})
        self.assertIsInstance(config.inner.weight, float)

    def test_a_type_without_schema_is_named_with_its_field(self):
        @dataclass
        class Wrong:
            when: complex = 0j

        with self.assertRaisesRegex(TypeError, "Wrong.when"):
            schema_of(Wrong)

    def test_a_dataclass_that_refuses_its_values_is_a_wrong_configuration(self):
        @dataclass
        class Picky:
            low: int
            high: int

            def __post_init__(self):
                if self.high < self.low:
                    raise ValueError("high is below low")

        with self.assertRaisesRegex(perpend_plugin.InvalidConfig, "high is below low"):
            typed(Picky, {"low": 2, "high": 1})


class Declaring(Fresh):
    def test_the_name_of_a_function_is_its_id_and_its_text_the_description(self):
        @perpend_plugin.evaluator(scores=perpend_plugin.boolean("ok"))
        def is_short(item):
            """Whether it is short."""
            return len(item.text()) < 3

        one = registry.find("is-short")
        self.assertEqual((one.title, one.description), ("Is short", "Whether it is short."))
        self.assertEqual(evaluate("is-short", output="ab")[0], perpend_plugin.Score("ok", True))

    def test_mistakes_are_told_where_they_are_made(self):
        def declare(function=lambda item: None, **settings):
            settings.setdefault("scores", perpend_plugin.boolean("ok"))
            return perpend_plugin.evaluator(settings.pop("id", "x"), **settings)(function)

        for part, settings in [
            ("a letter first", {"id": "1a"}),
            ("declares no score", {"scores": []}),
            ("needs is a list", {"needs": ["body"]}),
            ("3 parameters", {"function": lambda a, b, c: None}),
            ("a method `evaluate", {"function": type("X", (), {"evaluate": 5})}),
        ]:
            with self.subTest(part), self.assertRaisesRegex(ValueError, part):
                declare(**settings)
        declare()
        with self.assertRaisesRegex(ValueError, "two evaluators"):
            declare()
        with self.assertRaisesRegex(ValueError, "vendor/name"):
            perpend_plugin.plugin("Nobody")

    def test_capabilities_follow_from_slots_and_needs(self):
        perpend_plugin.evaluator("a", scores=perpend_plugin.boolean("ok"))(lambda item: True)
        self.assertEqual(registry.needed_capabilities(), ())
        perpend_plugin.evaluator("b", scores=perpend_plugin.boolean("ok"), slots=[perpend_plugin.slot("judge")])(
            lambda item: True
        )
        perpend_plugin.evaluator("c", scores=perpend_plugin.boolean("ok"), needs=["trace"])(lambda item: True)
        self.assertEqual(registry.needed_capabilities(), ("model", "trace"))


class Answers(Fresh):
    def answer(self, value, scores=perpend_plugin.numeric("n")):
        registry.current.evaluators.clear()
        perpend_plugin.evaluator("x", scores=scores)(lambda item: value)
        return evaluate("x", output="x")

    def test_bare_values_scores_lists_and_nothing_are_answers(self):
        self.assertEqual(self.answer(2), [perpend_plugin.Score("n", 2)])
        self.assertEqual(self.answer("a"), [perpend_plugin.Score("n", "a")])
        self.assertEqual(self.answer([perpend_plugin.Score("n", 1)]), [perpend_plugin.Score("n", 1)])
        self.assertEqual(self.answer(iter([perpend_plugin.Score("n", 1)])), [perpend_plugin.Score("n", 1)])
        self.assertEqual(self.answer(None), [])

    def test_other_answers_are_refused_with_the_reason(self):
        two = [perpend_plugin.numeric("a"), perpend_plugin.numeric("b")]
        for value, scores, part in [
            (1, two, "exactly one declared"),
            ({"n": 1}, two, "returned a dict"),
            ([1], two, "returned a int"),
            (perpend_plugin.Score("a", None), two, "its value is a NoneType"),
        ]:
            with self.subTest(part), self.assertRaisesRegex(perpend_plugin.Internal, part):
                self.answer(value, scores)

    def test_an_exception_is_told_with_its_type_file_and_line(self):
        perpend_plugin.evaluator("x", scores=perpend_plugin.boolean("ok"))(lambda item: {}["gone"])
        with self.assertRaisesRegex(
            perpend_plugin.Internal, r"KeyError: 'gone' \(test_sdk.py, line \d+, in <lambda>\)"
        ):
            evaluate("x", output="x")

    def test_metadata_that_is_no_json_is_named(self):
        with self.assertRaisesRegex(perpend_plugin.Internal, "score 'n': its metadata is not JSON"):
            perpend_plugin.Score("n", 1, metadata={"a": object()}).metadata_json()


class Host(Fresh):
    def test_a_stand_in_answers_and_remembers(self):
        @perpend_plugin.evaluator("judge", scores=perpend_plugin.boolean("ok"), slots=[perpend_plugin.slot("judge")])
        def judge(item):
            perpend_plugin.log.warn("asking", n=1)
            answer = perpend_plugin.model.complete([("system", "s"), item.text()], schema={"type": "object"})
            return answer.structured["ok"]

        with host(answers=[{"ok": True}], seed=5) as told:
            [score] = evaluate("judge", output="hello")
            self.assertEqual(perpend_plugin.seed(), 5)
        self.assertIs(score.value, True)
        self.assertEqual(told.requests[0].pairs(), [("system", "s"), ("user", "hello")])
        self.assertEqual(told.lines, [("warn", "asking", {"n": 1})])
        with self.assertRaisesRegex(perpend_plugin.ModelError, "not-granted"):
            evaluate("judge", output="hello")

    def test_the_schema_of_a_dataclass_fills_in_defaults(self):
        @perpend_plugin.evaluator("x", scores=perpend_plugin.numeric("n"))
        def x(item, config: Config):
            return config.size

        self.assertEqual(evaluate("x", output="", config={"words": []})[0].value, 3)
        with self.assertRaisesRegex(perpend_plugin.InvalidConfig, "unknown member 'color'"):
            evaluate("x", output="", config={"words": [], "color": 1})


class Items(unittest.TestCase):
    def test_absent_is_not_null(self):
        item = perpend_plugin.Item.of(output=None, metadata={"a": 1})
        self.assertTrue(item.given("output"))
        self.assertFalse(item.given("input"))
        self.assertEqual((item.output, item.input, item.text()), (None, None, "null"))
        with self.assertRaisesRegex(perpend_plugin.InvalidInput, "no expected output"):
            item.require("expected_output")

    def test_values_are_text_or_json(self):
        item = perpend_plugin.Item.of(input={"é": [1]}, output="é")
        self.assertEqual((item.input, item.output), ({"é": [1]}, "é"))
        self.assertEqual(item.text("input"), '{"é": [1]}')
        self.assertEqual(item.size(), len('{"é": [1]}'.encode()) + 2)


if __name__ == "__main__":
    unittest.main()
