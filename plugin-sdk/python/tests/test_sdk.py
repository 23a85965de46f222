"""Declaring evaluators and running them without a component."""

import enum
import json
import unittest
from dataclasses import dataclass, field
from typing import Any, Literal, Optional, TypedDict

import perpend_plugin
from perpend_plugin import registry
from perpend_plugin.schema import schema_of, typed
from perpend_plugin.model import Image, Message, Request, Tool, ToolCall, ToolResult
from perpend_plugin.run import RunItem
from perpend_plugin.testing import calling, evaluate, host, likely
from perpend_plugin.trace import Observation


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

    def test_an_invalid_definition_raises(self):
        def declare(function=lambda item: None, **settings):
            settings.setdefault("scores", perpend_plugin.boolean("ok"))
            return perpend_plugin.evaluator(settings.pop("id", "x"), **settings)(function)

        for part, settings in [
            ("a letter first", {"id": "1a"}),
            ("must declare scores", {"scores": []}),
            ("needs must be a list", {"needs": ["body"]}),
            ("3 parameters", {"function": lambda a, b, c: None}),
            ("a method `evaluate", {"function": type("X", (), {"evaluate": 5})}),
        ]:
            with self.subTest(part), self.assertRaisesRegex(ValueError, part):
                declare(**settings)
        declare()
        with self.assertRaisesRegex(ValueError, "duplicate evaluator"):
            declare()
        with self.assertRaisesRegex(ValueError, "vendor/name"):
            perpend_plugin.plugin("Unnamed")

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

    def test_other_results_are_refused(self):
        two = [perpend_plugin.numeric("a"), perpend_plugin.numeric("b")]
        for value, scores, part in [
            (1, two, "exactly one declared"),
            ({"n": 1}, two, "must return a Score, got dict"),
            ([1], two, "must return a Score, got int"),
            (perpend_plugin.Score("a", None), two, "must be a number, a bool or a str, got NoneType"),
        ]:
            with self.subTest(part), self.assertRaisesRegex(perpend_plugin.Internal, part):
                self.answer(value, scores)

    def test_an_exception_is_reported_with_its_type_file_and_line(self):
        perpend_plugin.evaluator("x", scores=perpend_plugin.boolean("ok"))(lambda item: {}["gone"])
        with self.assertRaisesRegex(
            perpend_plugin.Internal, r"KeyError: 'gone' \(test_sdk.py, line \d+, in <lambda>\)"
        ):
            evaluate("x", output="x")

    def test_metadata_that_is_not_json_is_refused(self):
        with self.assertRaisesRegex(perpend_plugin.Internal, "score 'n': its metadata is not JSON"):
            perpend_plugin.Score("n", 1, metadata={"a": object()}).metadata_json()


class Host(Fresh):
    def test_a_scripted_host_answers_and_records(self):
        @perpend_plugin.evaluator("judge", scores=perpend_plugin.boolean("ok"), slots=[perpend_plugin.slot("judge")])
        def judge(item):
            perpend_plugin.log.warn("calling", n=1)
            answer = perpend_plugin.model.complete([("system", "s"), item.text()], schema={"type": "object"})
            return answer.structured["ok"]

        with host(answers=[{"ok": True}], seed=5) as scripted:
            [score] = evaluate("judge", output="hello")
            self.assertEqual(perpend_plugin.seed(), 5)
        self.assertIs(score.value, True)
        self.assertEqual(scripted.requests[0].pairs(), [("system", "s"), ("user", "hello")])
        self.assertEqual(scripted.lines, [("warn", "calling", {"n": 1})])
        with self.assertRaisesRegex(perpend_plugin.ModelError, "not-granted"):
            evaluate("judge", output="hello")

    def test_the_schema_of_a_dataclass_fills_in_defaults(self):
        @perpend_plugin.evaluator("x", scores=perpend_plugin.numeric("n"))
        def x(item, config: Config):
            return config.size

        self.assertEqual(evaluate("x", output="", config={"words": []})[0].value, 3)
        with self.assertRaisesRegex(perpend_plugin.InvalidConfig, "unknown member 'color'"):
            evaluate("x", output="", config={"words": [], "color": 1})


@dataclass
class Look:
    text: str = perpend_plugin.field(description="What to look for.")
    limit: int = perpend_plugin.field(3, minimum=1)
    kinds: list[Literal["a", "b"]] = field(default_factory=list)
    inner: Optional[Inner] = None


class Conversations(unittest.TestCase):
    def test_a_message_has_many_forms(self):
        result = ToolResult("1", "found")
        messages = ["a", ("system", "b"), {"role": "user", "content": ["c", Image("m")]}, ("tool", result)]
        reply = Request([*messages, Message("assistant", iter([ToolCall("1", "look")]))]).conversation()
        self.assertEqual(
            [(message.role, message.parts) for message in reply],
            [
                ("user", ["a"]),
                ("system", ["b"]),
                ("user", ["c", Image("m")]),
                ("tool", [result]),
                ("assistant", [ToolCall("1", "look")]),
            ],
        )
        self.assertEqual(Request("only").pairs(), [("user", "only")])
        self.assertEqual(Message("user", ["a", Image("m"), "b"]).text, "a\n\nb")

    def test_values_without_parts_become_json(self):
        for value in ({"é": 1}, [{"role": "user"}], ["a", "b"], [], 5):
            [(_, text)] = Request([("user", value)]).pairs()
            self.assertEqual(text, json.dumps(value, ensure_ascii=False))

    def test_an_unknown_role_is_an_error(self):
        with self.assertRaisesRegex(perpend_plugin.ModelError, "the role must be one of .*'robot'"):
            Request([("robot", "x")]).conversation()

    def test_arguments_are_read_as_their_type_or_refused(self):
        def read(arguments):
            return ToolCall("1", "look", arguments).read(Look)

        self.assertEqual(read('{"text": "x", "inner": {"weight": 2}, "more": 1}'), Look("x", inner=Inner(2.0)))
        self.assertEqual(ToolCall("1", "look", "").read(), {})
        for arguments, why in [
            ("{", "invalid arguments of look: Expecting"),
            ("[1]", "must be a JSON object"),
            ("{}", "text is missing"),
            ('{"text": 5}', "text must be of type string"),
            ('{"text": "x", "limit": true}', "limit must be of type integer"),
            ('{"text": "x", "limit": 0}', "limit must be at least 1, got 0"),
            ('{"text": "x", "kinds": ["a", "c"]}', r"kinds.1 must be one of \['a', 'b'\]"),
            ('{"text": "x", "inner": {"weight": "y"}}', "inner has an invalid type"),
            ("[" * 100_000, "invalid arguments"),
        ]:
            with self.subTest(why), self.assertRaisesRegex(ValueError, why):
                read(arguments)

    def test_a_tool_has_the_schema_of_its_parameters(self):
        self.assertEqual(Tool("look", "", Look).schema()["required"], ["text"])
        self.assertEqual(Tool("look", "").schema(), {"type": "object", "additionalProperties": False})
        self.assertEqual(Tool("look", "", {"type": "object"}).schema(), {"type": "object"})


class Loops(Fresh):
    def test_a_tool_loop_runs_against_a_scripted_model(self):
        look = Tool("look", "Finds a text.", Look)

        @perpend_plugin.evaluator("agent", scores=perpend_plugin.share("sure"), slots=[perpend_plugin.slot("judge")])
        def agent(item):
            messages = [("user", item.text())]
            while (reply := perpend_plugin.model.complete(messages, tools=[look])).tool_calls:
                results = [call.result({"n": call.read(Look).limit}) for call in reply.tool_calls]
                messages += [reply.message, ("tool", results)]
            return reply.probabilities(["yes", "no"]).shares["yes"]

        with host(answers=[calling("look", text="x"), likely({"yes": 0.6, "no": 0.2, "well": 0.1})]) as scripted:
            [score] = evaluate("agent", output="hello")
        self.assertAlmostEqual(score.value, 0.75)
        last = scripted.requests[-1].conversation()
        self.assertEqual([message.role for message in last], ["user", "assistant", "tool"])
        self.assertEqual(last[1].parts, [ToolCall("call-look", "look", '{"text": "x"}')])
        self.assertEqual(last[2].parts, [ToolResult("call-look", '{"n": 3}')])

    def test_a_stand_in_says_how_probable_choices_are(self):
        found = likely({"yes": 0.6, "no": 0.2}, {"verdict": "yes"}).probabilities(["yes", "no"], "verdict")
        self.assertAlmostEqual(found.margin, 0.5)
        self.assertAlmostEqual(found.coverage, 0.8)
        self.assertIsNone(likely({"yes": 1}).probabilities(["maybe"]))
        with host(answers=["yes"]):
            self.assertIsNone(perpend_plugin.model.complete("?").probabilities(["yes"]))


class Reading(unittest.TestCase):
    TRACE = [
        (Observation("root", start=1, end=9), {"input": "Wo ist Ärger?"}),
        (Observation("late", "tool", "root", start=5), {"output": {"found": "ärger"}}),
        (Observation("early", "tool", "root", start=2), {}),
        (Observation("leaf", "tool", "early", start=7), {}),
        (Observation("lost", "tool", "gone", start=3), {}),
    ]

    def test_the_outline_is_the_tree_depth_first(self):
        with host(traces={"t": self.TRACE}):
            entries = list(perpend_plugin.trace.outline("t"))
            below = list(perpend_plugin.trace.outline("t", "early"))
        self.assertEqual(
            [(one.depth, one.id, one.child_count) for one in entries],
            [(0, "root", 2), (1, "early", 1), (2, "leaf", 0), (1, "late", 0), (0, "lost", 0)],
        )
        self.assertEqual((entries[0].duration, entries[1].duration), (8, None))
        self.assertEqual([(one.depth, one.id) for one in below], [(0, "leaf")])

    def test_texts_are_found_in_any_case_and_read_where_they_stand(self):
        with host(traces={"t": self.TRACE}):
            first, second = perpend_plugin.trace.search("t", "ÄRGER")
            self.assertEqual((first.observation_id, first.part, first.offset), ("root", "input", 7))
            self.assertEqual(second.excerpt, '{"found": "ärger"}')
            self.assertEqual(len(perpend_plugin.trace.search("t", "r", limit=2)), 2)
            read = perpend_plugin.trace.read_range("t", "root", "input", 8, 3)
            self.assertEqual((read.text, read.offset, read.total, read.is_json), ("Ärg", 7, 14, False))
            self.assertTrue(perpend_plugin.trace.read_range("t", "late", "output").is_json)
            self.assertEqual(perpend_plugin.trace.read_range("t", "root", "input", 99).text, "")
            self.assertIsNone(perpend_plugin.trace.read_range("t", "root", "output"))
            for wrong in ("", "x" * 1001):
                with self.assertRaisesRegex(perpend_plugin.TraceError, "1 to 1,000 bytes"):
                    perpend_plugin.trace.search("t", wrong)
            with self.assertRaisesRegex(perpend_plugin.TraceError, "the part must be one of .*'body'"):
                perpend_plugin.trace.read_range("t", "root", "body")

    def test_sessions_and_runs_are_read_trace_by_trace_and_item_by_item(self):
        items = [RunItem("2", output="b"), RunItem("1", output="a")]
        late = [(Observation("o", start=20), {})]
        with host(traces={"t": self.TRACE, "u": late}, sessions={"s": ["u", "t"]}, runs={"r": items}):
            info = perpend_plugin.session.get("s")
            traces = list(perpend_plugin.session.traces("s"))
            self.assertEqual(perpend_plugin.run.get("r").item_count, 2)
            self.assertEqual(list(perpend_plugin.run.items("r")), items)
            for read in (perpend_plugin.session.get, perpend_plugin.run.get):
                with self.assertRaisesRegex(perpend_plugin.TraceError, "not-granted"):
                    read("other")
        self.assertEqual((info.trace_count, info.start, info.end), (2, 1, 20))
        self.assertEqual([(trace.id, trace.session_id) for trace in traces], [("t", "s"), ("u", "s")])

    def test_without_a_stand_in_nothing_is_read(self):
        for read in (
            lambda: perpend_plugin.trace.search("t", "x"),
            lambda: list(perpend_plugin.trace.outline("t")),
            lambda: perpend_plugin.trace.read_range("t", "o", "input"),
            lambda: list(perpend_plugin.session.traces("s")),
            lambda: list(perpend_plugin.run.items("r")),
        ):
            with self.assertRaisesRegex(perpend_plugin.TraceError, "in a test use"):
                read()


class Items(unittest.TestCase):
    def test_absent_is_not_null(self):
        item = perpend_plugin.Item.of(output=None, metadata={"a": 1})
        self.assertTrue(item.given("output"))
        self.assertFalse(item.given("input"))
        self.assertEqual((item.output, item.input, item.text()), (None, None, "null"))
        with self.assertRaisesRegex(perpend_plugin.InvalidInput, "no expected output"):
            item.require("expected_output")

    def test_a_session_or_a_run_is_named_by_its_id(self):
        item = perpend_plugin.Item.of(session="s", run="r")
        self.assertEqual((item.session, item.run, item.trace), ("s", "r", None))

    def test_values_are_text_or_json(self):
        item = perpend_plugin.Item.of(input={"é": [1]}, output="é")
        self.assertEqual((item.input, item.output), ({"é": [1]}, "é"))
        self.assertEqual(item.text("input"), '{"é": [1]}')
        self.assertEqual(item.size(), len('{"é": [1]}'.encode()) + 2)


if __name__ == "__main__":
    unittest.main()
