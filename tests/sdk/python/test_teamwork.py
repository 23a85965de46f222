"""Queues, comments, models, LLM connections and metrics as the Python clients use them."""

import json
import unittest
import uuid
from datetime import datetime, timedelta, timezone

from support import ClientTest, eventually, major, rest


class Teamwork(ClientTest):
    def trace(self):
        """A trace of one generation that the server has."""
        with self.client.start_as_current_observation(name="step", as_type="generation", model="gpt-4o") as step:
            step.update(input="q", output="a", usage_details={"input": 5, "output": 6})
            trace = step.trace_id
        self.client.flush()
        eventually(lambda: rest(f"/traces/{trace}"))
        return trace

    def test_a_queue_is_worked_off(self):
        api = self.client.api
        config = api.score_configs.create(name="ok", data_type="BOOLEAN")
        queue = api.annotation_queues.create_queue(name=uuid.uuid4().hex, score_config_ids=[config.id])
        self.assertEqual(api.annotation_queues.get_queue(queue.id), queue)
        self.assertIn(queue.id, [q.id for q in api.annotation_queues.list_queues(limit=100).data])
        item = api.annotation_queues.create_queue_item(queue.id, object_id="t", object_type="TRACE")
        done = api.annotation_queues.update_queue_item(queue.id, item.id, status="COMPLETED")
        self.assertIsNotNone(done.completed_at)
        listed = api.annotation_queues.list_queue_items(queue.id, status="COMPLETED")
        self.assertEqual([one.id for one in listed.data], [item.id])
        self.assertTrue(api.annotation_queues.delete_queue_item(queue.id, item.id).success)
        self.raises_status(404, lambda: api.annotation_queues.get_queue_item(queue.id, item.id))
        self.assertTrue(api.annotation_queues.delete_queue_assignment(queue.id, user_id="nobody").success)

    def test_comments_stand_beside_what_they_are_about(self):
        api = self.client.api
        project = api.projects.get().data[0].id
        trace = self.trace()
        made = api.comments.create(project_id=project, object_type="TRACE", object_id=trace, content="well")
        self.assertEqual(api.comments.get_by_id(made.id).content, "well")
        listed = api.comments.get(object_type="TRACE", object_id=trace)
        self.assertEqual([one.id for one in listed.data], [made.id])
        self.raises_status(404, lambda: api.comments.create(
            project_id=project, object_type="TRACE", object_id="none", content="x"))

    def test_models_and_connections_are_kept(self):
        api = self.client.api
        name = uuid.uuid4().hex
        model = api.models.create(model_name=name, match_pattern=f"(?i)^{name}$", unit="TOKENS",
                                  input_price=0.5, output_price=1.5)
        self.assertEqual((model.prices["input"].price, model.is_langfuse_managed), (0.5, False))
        self.assertEqual(api.models.get(model.id), model)
        self.assertEqual(api.models.list(limit=1).data[0].id, model.id)
        api.models.delete(model.id)
        self.raises_status(404, lambda: api.models.get(model.id))
        made = api.llm_connections.upsert(provider=name, adapter="openai", secret_key="sk-long-secret-1234",
                                          extra_headers={"X-A": "b"})
        self.assertEqual((made.display_secret_key, made.extra_header_keys), ("...1234", ["X-A"]))
        self.assertIn(made.id, [one.id for one in api.llm_connections.list(limit=100).data])

    def test_metrics_add_up_what_was_sent(self):
        api = self.client.api
        self.trace()
        now = datetime.now(timezone.utc)
        query = {
            "view": "observations",
            "dimensions": [{"field": "providedModelName"}],
            "metrics": [{"measure": "count", "aggregation": "count"},
                        {"measure": "totalTokens", "aggregation": "sum"},
                        {"measure": "latency", "aggregation": "p95"}],
            "filters": [{"column": "type", "operator": "any of", "value": ["GENERATION"], "type": "stringOptions"}],
            "timeDimension": {"granularity": "day"},
            "fromTimestamp": (now - timedelta(days=1)).isoformat(),
            "toTimestamp": (now + timedelta(hours=1)).isoformat(),
        }
        rows = [row for row in api.metrics.metrics(query=json.dumps(query)).data
                if row["providedModelName"] == "gpt-4o"]
        self.assertGreaterEqual(int(rows[0]["count_count"]), 1)
        self.assertEqual(int(rows[0]["sum_totalTokens"]), 11 * int(rows[0]["count_count"]))
        self.assertGreaterEqual(float(rows[0]["p95_latency"]), 0)
        query["view"] = "traces"
        del query["filters"], query["timeDimension"], query["dimensions"]
        query["metrics"] = [{"measure": "observationsCount", "aggregation": "sum"}]
        if major() == 4:
            rows = api.legacy.metrics_v1.metrics(query=json.dumps(query)).data
            self.assertGreaterEqual(int(rows[0]["sum_observationsCount"]), 1)
        else:
            self.raises_status(400, lambda: api.metrics.metrics(query=json.dumps(query)))


if __name__ == "__main__":
    unittest.main()
