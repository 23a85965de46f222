"""Tracing, scores and batched evaluation as the Python clients do them."""

import unittest
import uuid

from langfuse import Evaluation, observe, propagate_attributes
from langfuse.batch_evaluation import EvaluatorInputs

import support
from support import ClientTest, eventually, major, rest

TYPES = ["span", "generation", "agent", "tool", "chain", "retriever", "evaluator", "embedding", "guardrail"]


class Tracing(ClientTest):
    def observations(self, trace_id, n):
        self.client.flush()
        fields = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"
        ask = lambda: rest(f"/v2/observations?traceId={trace_id}&fields={fields}&limit=100")["data"]
        return eventually(lambda: (found := ask()) and len(found) == n and found)

    def test_the_keys_are_checked_and_the_trace_has_an_address(self):
        self.assertTrue(self.client.auth_check())
        with self.client.start_as_current_observation(name="root"):
            url = self.client.get_trace_url()
        self.assertIn("/project/", url)

    def test_every_kind_of_observation_nests_under_its_parent(self):
        with propagate_attributes(user_id="u", session_id="s", tags=["t"], metadata={"k": "v"}, version="1"):
            with self.client.start_as_current_observation(name="root", input={"q": 1}) as root:
                for kind in TYPES[1:]:
                    with self.client.start_as_current_observation(name=kind, as_type=kind) as inner:
                        inner.update(output=kind)
                root.create_event(name="event")
                trace_id = root.trace_id
        found = self.observations(trace_id, len(TYPES) + 1)
        kinds = sorted(o["type"] for o in found)
        self.assertEqual(kinds, sorted([kind.upper() for kind in TYPES] + ["EVENT"]))
        root_id = next(o["id"] for o in found if o["name"] == "root")
        parents = {o["parentObservationId"] for o in found if o["id"] != root_id}
        self.assertEqual(parents, {root_id})
        self.assertEqual({(o["userId"], o["sessionId"]) for o in found}, {("u", "s")})

    def test_a_generation_keeps_model_usage_cost_and_prompt(self):
        prompt = self.client.create_prompt(name=self.id(), prompt="Hi", labels=["production"])
        with self.client.start_as_current_observation(
            name="answer",
            as_type="generation",
            model="gpt-4o",
            model_parameters={"temperature": 0.5},
            prompt=self.client.get_prompt(self.id()),
        ) as generation:
            generation.update(
                usage_details={"input": 10, "output": 5}, cost_details={"input": 0.1, "output": 0.2}
            )
            trace_id = generation.trace_id
        only = self.observations(trace_id, 1)[0]
        self.assertEqual((only["model"], only["usageDetails"]["input"]), ("gpt-4o", 10))
        self.assertAlmostEqual(only["totalCost"], 0.3)
        self.assertEqual((only["promptName"], only["promptVersion"]), (self.id(), prompt.version))

    def test_a_decorated_function_records_its_call(self):
        seen = {}

        @observe(name="worker")
        def work(n):
            seen["trace"] = self.client.get_current_trace_id()
            self.client.score_current_trace(name="ok", value=1, data_type="BOOLEAN")
            return n + 1

        self.assertEqual(work(1), 2)
        only = self.observations(seen["trace"], 1)[0]
        self.assertEqual((only["name"], only["output"]), ("worker", "2"))

    def test_scores_of_every_type_are_read_back(self):
        with self.client.start_as_current_observation(name="scored") as span:
            trace_id = span.trace_id
            span.score(name="number", value=0.5, comment="half")
            span.score(name="truth", value=1, data_type="BOOLEAN")
            span.score_trace(name="category", value="good", data_type="CATEGORICAL")
        self.client.create_score(name="text", value="fine", data_type="TEXT", trace_id=trace_id)
        self.client.flush()
        ask = lambda: rest(f"/v3/scores?traceId={trace_id}&fields=details,subject")["data"]
        scores = eventually(lambda: (found := ask()) and len(found) == 4 and found)
        values = {score["name"]: score["value"] for score in scores}
        self.assertEqual(values, {"number": 0.5, "truth": True, "category": "good", "text": "fine"})
        if major() >= 5:
            found = self.client.api.scores.get_many(trace_id=trace_id, fields="details,subject").data
            self.assertEqual({score.name: score.value for score in found}, values)

    def evaluate(self, condition, **scope):
        """Measures each output that the condition finds."""
        result = self.client.run_batched_evaluation(
            mapper=lambda *, item: EvaluatorInputs(input=item.input, output=item.output),
            filter=condition,
            evaluators=[lambda *, output, **_: Evaluation(name="size", value=len(output))],
            **scope,
        )
        self.client.flush()
        self.assertTrue(result.completed)
        self.assertEqual((result.total_items_processed, result.total_scores_created), (3, 3))

    def test_what_was_traced_is_evaluated_in_batches(self):
        name = uuid.uuid4().hex
        for n in range(3):
            with self.client.start_as_current_observation(name=name, input={"n": n}) as span:
                span.update(output=f"{n} is it")
                if major() == 4:
                    span.set_trace_io(output=f"{n} is it")
                if major() == 3:
                    span.update_trace(output=f"{n} is it")
        self.client.flush()
        support.observations(name, 3)
        condition = f'[{{"type":"string","column":"name","operator":"=","value":"{name}"}}]'
        if major() >= 5:
            self.evaluate(condition)
        else:
            self.evaluate(condition, scope="observations")
            self.evaluate(condition, scope="traces")

    @unittest.skipIf(major() >= 5, "this client says nothing about traces but in their observations")
    def test_a_trace_says_its_input_and_output(self):
        with self.client.start_as_current_observation(name="root") as root:
            what = {"input": {"q": [1, None]}, "output": "a"}
            if major() == 4:
                root.set_trace_io(**what)
                root.set_trace_as_public()
            else:
                root.update_trace(name="named", tags=["t"], user_id="u", session_id=self.id(), public=True, **what)
            trace_id = root.trace_id
        self.client.flush()
        read = eventually(lambda: self.client.api.trace.get(trace_id))
        self.assertEqual((read.input, read.output, read.public), ({"q": [1, None]}, "a", True))
        if major() == 3:
            self.assertEqual((read.name, read.tags, read.user_id, read.session_id), ("named", ["t"], "u", self.id()))
            session = self.client.api.sessions.get(self.id())
            self.assertIn(trace_id, [trace.id for trace in session.traces])
