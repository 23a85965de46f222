"""Scores, score configs and the batch API as the Python clients use them."""

import unittest
import uuid
from datetime import datetime, timedelta, timezone

from support import ClientTest, eventually, major, rest


class Scores(ClientTest):
    def test_scores_of_every_type_go_there_and_back(self):
        trace = uuid.uuid4().hex
        send = self.client.create_score
        send(name="number", value=0.5, trace_id=trace, comment="why", metadata={"run": 1})
        send(name="truth", value=True, trace_id=trace, data_type="BOOLEAN")
        send(name="tone", value="kind", trace_id=trace)
        send(name="of session", value=1.0, session_id="session " + trace)
        send(name="once", value=1, trace_id=trace, score_id=trace + "s")
        send(name="once", value=2, trace_id=trace, score_id=trace + "s")
        self.client.flush()
        stored = lambda: rest(f"/v2/scores?traceId={trace}")["data"]
        eventually(lambda: len(stored()) == 4)
        by_name = {score["name"]: score for score in stored()}
        self.assertEqual(by_name["number"]["value"], 0.5)
        self.assertEqual(by_name["number"]["comment"], "why")
        self.assertEqual(by_name["truth"]["stringValue"], "True")
        self.assertEqual(by_name["tone"]["stringValue"], "kind")
        eventually(lambda: [s for s in stored() if s["name"] == "once"][0]["value"] == 2)
        if major() >= 5:
            found = self.client.api.scores.get_many(trace_id=trace, fields="details,subject")
        elif major() == 4:
            found = self.client.api.scores.get_many(trace_id=trace)
        else:
            found = self.client.api.score_v_2.get(trace_id=trace)
        self.assertEqual({score.name for score in found.data}, set(by_name))

    def test_a_config_is_obeyed(self):
        configs = self.client.api.score_configs
        if major() >= 4:
            made = configs.create(name="tone", data_type="CATEGORICAL",
                                  categories=[{"value": 2, "label": "kind"}, {"value": 0, "label": "rude"}])
            update = lambda **what: configs.update(made.id, **what)
        else:
            from langfuse.api import CreateScoreConfigRequest, UpdateScoreConfigRequest
            made = configs.create(request=CreateScoreConfigRequest(
                name="tone", dataType="CATEGORICAL",
                categories=[{"value": 2, "label": "kind"}, {"value": 0, "label": "rude"}]))
            update = lambda **what: configs.update(
                made.id, request=UpdateScoreConfigRequest(isArchived=what["is_archived"]))
        self.assertEqual([c.label for c in configs.get_by_id(made.id).categories], ["kind", "rude"])
        self.assertIn(made.id, [config.id for config in configs.get(page=1, limit=10).data])
        trace = uuid.uuid4().hex
        self.client.create_score(name="tone", value="kind", trace_id=trace, config_id=made.id)
        self.client.create_score(name="tone", value="odd", trace_id=trace, config_id=made.id)
        self.client.flush()
        stored = lambda: rest(f"/v2/scores?traceId={trace}")["data"]
        eventually(stored)
        self.assertEqual([(s["name"], s["value"]) for s in stored()], [("tone", 2)])
        self.assertTrue(update(is_archived=True).is_archived)

    @unittest.skipIf(major() >= 5, "this client has no batch API any more")
    def test_a_batch_of_events_makes_a_trace(self):
        api = self.client.api
        if major() == 4:
            from langfuse.api import (IngestionEvent_GenerationCreate, IngestionEvent_GenerationUpdate,
                                      IngestionEvent_ScoreCreate, IngestionEvent_TraceCreate)
        else:
            from langfuse.api.resources.ingestion.types import (
                IngestionEvent_GenerationCreate, IngestionEvent_GenerationUpdate,
                IngestionEvent_ScoreCreate, IngestionEvent_TraceCreate)
        now = datetime.now(timezone.utc)
        at = lambda seconds: (now + timedelta(seconds=seconds)).isoformat()
        trace, generation = uuid.uuid4().hex, uuid.uuid4().hex
        answer = api.ingestion.batch(batch=[
            IngestionEvent_GenerationUpdate(id=uuid.uuid4().hex, timestamp=at(3), type="generation-update", body={
                "id": generation, "output": "there", "endTime": now + timedelta(seconds=2),
                "usageDetails": {"input": 3, "output": 4}}),
            IngestionEvent_GenerationCreate(id=uuid.uuid4().hex, timestamp=at(1), type="generation-create", body={
                "id": generation, "traceId": trace, "name": "answer", "startTime": now, "model": "gpt-4o",
                "input": {"q": "where"}}),
            IngestionEvent_TraceCreate(id=uuid.uuid4().hex, timestamp=at(0), type="trace-create", body={
                "id": trace, "name": "chat", "userId": "ann", "sessionId": "s " + trace, "tags": ["a"],
                "metadata": {"k": 1}}),
            IngestionEvent_ScoreCreate(id=uuid.uuid4().hex, timestamp=at(4), type="score-create", body={
                "traceId": trace, "name": "ok", "value": 1}),
        ])
        self.assertEqual((len(answer.successes), answer.errors), (4, []))
        read = api.trace.get(trace)
        self.assertEqual((read.name, read.user_id, read.tags), ("chat", "ann", ["a"]))
        self.assertEqual([o.output for o in read.observations], ["there"])
        self.assertEqual(read.observations[0].usage.total, 7)
        self.assertEqual([score.name for score in read.scores], ["ok"])
        listed = api.trace.list(user_id="ann", session_id="s " + trace)
        self.assertEqual([t.id for t in listed.data], [trace])
        session = api.sessions.get("s " + trace)
        self.assertEqual([t.id for t in session.traces], [trace])
        v1 = api.legacy.observations_v1 if major() == 4 else api.observations
        self.assertEqual([o.name for o in v1.get_many(trace_id=trace).data], ["answer"])
        api.trace.delete(trace)
        self.raises_status(404, lambda: api.trace.get(trace))


if __name__ == "__main__":
    unittest.main()
