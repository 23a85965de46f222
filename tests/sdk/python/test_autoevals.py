"""Scorers of the package autoevals as evaluators of an experiment."""

from autoevals import ExactMatch, Levenshtein
from langfuse.experiment import create_evaluator_from_autoevals

from support import ClientTest, eventually, rest


class Autoevals(ClientTest):
    def test_scorers_of_autoevals_score_the_items(self):
        result = self.client.run_experiment(
            name=self.id(),
            data=[{"input": "France", "expected_output": "Paris"}],
            task=lambda *, item, **_: "Parts",
            evaluators=[create_evaluator_from_autoevals(scorer()) for scorer in (Levenshtein, ExactMatch)],
        )
        self.client.flush()
        trace_id = result.item_results[0].trace_id
        scores = eventually(lambda: (found := rest(f"/v3/scores?traceId={trace_id}")["data"]) and len(found) == 2 and found)
        by_name = {score["name"]: score["value"] for score in scores}
        self.assertAlmostEqual(by_name["Levenshtein"], 0.8)
        self.assertEqual(by_name["ExactMatch"], 0)
