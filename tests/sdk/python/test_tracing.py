"""Tracing, scores and batched evaluation as the newest Python client does them."""

from langfuse import Evaluation, observe, propagate_attributes
from langfuse.batch_evaluation import EvaluatorInputs

from support import ClientTest, eventually, rest

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
        ask = lambda: self.client.api.scores.get_many(trace_id=trace_id, fields="details,subject").data
        scores = eventually(lambda: (found := ask()) and len(found) == 4 and found)
        values = {score.name: score.value for score in scores}
        self.assertEqual(values, {"number": 0.5, "truth": True, "category": "good", "text": "fine"})

    def test_observations_are_evaluated_in_batches(self):
        for n in range(3):
            with self.client.start_as_current_observation(name=self.id(), input={"n": n}) as span:
                span.update(output=f"{n}")
        self.client.flush()
        condition = f'[{{"type":"string","column":"name","operator":"=","value":"{self.id()}"}}]'
        eventually(lambda: len(self.client.api.observations.get_many(filter=condition).data) == 3)
        result = self.client.run_batched_evaluation(
            mapper=lambda *, item: EvaluatorInputs(input=item.input, output=item.output),
            filter=condition,
            evaluators=[lambda *, output, **_: Evaluation(name="size", value=len(output))],
        )
        self.assertTrue(result.completed)
        self.assertEqual((result.total_items_processed, result.total_scores_created), (3, 3))
