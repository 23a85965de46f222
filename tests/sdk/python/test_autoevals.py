"""Scorers of the package autoevals as evaluators of an experiment."""

from autoevals import ExactMatch, Factuality, Levenshtein
from langfuse.experiment import create_evaluator_from_autoevals
from openai import OpenAI

from openai_stub import Stub
from support import ClientTest, eventually, rest


class Autoevals(ClientTest):
    def scores_of(self, *scorers):
        """Runs an experiment of one item with these scorers; their scores, by name."""
        result = self.client.run_experiment(
            name=self.id(),
            data=[{"input": "France", "expected_output": "Paris"}],
            task=lambda *, item, **_: "Parts",
            evaluators=[create_evaluator_from_autoevals(scorer) for scorer in scorers],
        )
        self.client.flush()
        path = f"/v3/scores?fields=details,subject&traceId={result.item_results[0].trace_id}"
        scores = eventually(lambda: (found := rest(path)["data"]) and len(found) == len(scorers) and found)
        return {score["name"]: score for score in scores}

    def test_scorers_of_autoevals_score_the_items(self):
        found = self.scores_of(Levenshtein(), ExactMatch())
        self.assertAlmostEqual(found["Levenshtein"]["value"], 0.8)
        self.assertEqual(found["ExactMatch"]["value"], 0)

    def test_a_scorer_that_asks_a_model_scores_the_items(self):
        with Stub() as stub, OpenAI(base_url=stub.base_url, api_key="sk-stub", max_retries=0) as models:
            found = self.scores_of(Factuality(client=models, model="gpt-4o"))
        self.assertEqual(found["Factuality"]["value"], 1)
        self.assertEqual(found["Factuality"]["metadata"]["choice"], "C")
