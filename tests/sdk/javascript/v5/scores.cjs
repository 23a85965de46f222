// Scores, score configs and related resources, as `@langfuse/client` sends and reads them.

"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { test } = require("node:test");
const { startActiveObservation } = require("@langfuse/tracing");
const { LangfuseClient } = require("@langfuse/client");
const { eventually, refuses, scores, unique } = require("../support.cjs");
const { client, flush } = require("./support.cjs");

/** A trace of one generation, with what happens inside. */
async function generation(within = () => {}, model = "gpt-4o") {
  const ids = await startActiveObservation("step", async (step) => {
    step.update({ input: "q", output: "a", model, usageDetails: { input: 5, output: 6 } });
    await within(step);
    return { traceId: step.traceId, id: step.id };
  }, { asType: "generation" });
  await flush();
  await eventually(() => client.fetchTrace(ids.traceId));
  return ids;
}

test("scores go to what they are about", async () => {
  const { traceId, id } = await generation((step) => {
    client.score.observation(step, { name: "of step", value: 0.5, comment: "half", metadata: { run: 1 } });
    client.score.trace(step, { name: "of trace", value: "good" });
    client.score.activeObservation({ name: "of active step", value: 1, dataType: "BOOLEAN" });
    client.score.activeTrace({ name: "of active trace", value: "fine", dataType: "TEXT" });
  });
  const found = await scores(`traceId=${traceId}`, 4);
  assert.deepEqual([found["of step"].value, found["of step"].comment], [0.5, "half"]);
  assert.deepEqual(found["of step"].metadata, { run: 1 });
  assert.deepEqual([found["of step"].subject.kind, found["of step"].subject.id], ["observation", id]);
  assert.deepEqual([found["of trace"].value, found["of trace"].dataType], ["good", "CATEGORICAL"]);
  assert.equal(found["of trace"].subject.kind, "trace");
  assert.equal(found["of active step"].value, true);
  assert.equal(found["of active trace"].value, "fine");
  const { data } = await client.api.scores.getMany({ traceId });
  assert.deepEqual(new Set(data.map((score) => score.name)), new Set(Object.keys(found)));
  const newest = await client.api.scoresV3.getManyV3({ observationId: id, traceId, fields: "subject" });
  assert.equal(newest.data.length, 2);
});

test("a score with an id is one score, and a session has scores too", async () => {
  const [sessionId, id] = [unique("session"), randomUUID()];
  client.score.create({ sessionId, name: "mood", value: 1, id });
  await client.flush();
  client.score.create({ sessionId, name: "mood", value: 2, id });
  await client.flush();
  const found = await scores(`sessionId=${encodeURIComponent(sessionId)}`, 1);
  assert.deepEqual([found.mood.id, found.mood.value], [id, 2]);
  await client.api.legacy.scoreV1.delete(id);
  await scores(`sessionId=${encodeURIComponent(sessionId)}`, 0);
});

test("a config is obeyed", async () => {
  const made = await client.api.scoreConfigs.create({
    name: "tone", dataType: "CATEGORICAL", categories: [{ value: 2, label: "kind" }, { value: 0, label: "rude" }],
  });
  const sessionId = unique("configured");
  client.score.create({ sessionId, name: "tone", value: "kind", configId: made.id });
  client.score.create({ sessionId, name: "tone", value: "odd", configId: made.id });
  await client.flush();
  const found = await scores(`sessionId=${encodeURIComponent(sessionId)}`, 1);
  assert.equal(found.tone.value, "kind");
  const archived = await client.api.scoreConfigs.update(made.id, { isArchived: true });
  assert.equal(archived.isArchived, true);
});

test("a queue is worked off, with comments", async () => {
  const { traceId } = await generation();
  const config = await client.api.scoreConfigs.create({ name: "ok", dataType: "BOOLEAN" });
  const queue = await client.api.annotationQueues.createQueue({ name: randomUUID(), scoreConfigIds: [config.id] });
  const item = await client.api.annotationQueues.createQueueItem(queue.id, { objectId: traceId, objectType: "TRACE" });
  const done = await client.api.annotationQueues.updateQueueItem(queue.id, item.id, { status: "COMPLETED" });
  assert.ok(done.completedAt);
  const projectId = (await client.api.projects.get()).data[0].id;
  const comment = await client.api.comments.create({ projectId, objectType: "TRACE", objectId: traceId, content: "well" });
  assert.equal((await client.api.comments.getById(comment.id)).content, "well");
});

test("models are kept and metrics add up", async () => {
  const name = randomUUID();
  const model = await client.api.models.create({
    modelName: name, matchPattern: `(?i)^${name}$`, unit: "TOKENS", inputPrice: 0.5, outputPrice: 1.5,
  });
  assert.equal((await client.api.models.get(model.id)).prices.input.price, 0.5);
  await generation(undefined, name);
  await generation(undefined, name);
  const { data } = await client.api.metrics.metrics({
    query: JSON.stringify({
      view: "observations",
      dimensions: [{ field: "providedModelName" }],
      metrics: [{ measure: "count", aggregation: "count" }, ...["totalTokens", "totalCost"].map((measure) => ({ measure, aggregation: "sum" }))],
      filters: [{ column: "type", operator: "any of", value: ["GENERATION"], type: "stringOptions" }],
      fromTimestamp: new Date(Date.now() - 3_600_000).toISOString(),
      toTimestamp: new Date(Date.now() + 3_600_000).toISOString(),
    }),
  });
  const row = data.find((row) => row.providedModelName === name);
  assert.deepEqual([Number(row.count_count), Number(row.sum_totalTokens), Number(row.sum_totalCost)], [2, 22, 23]);
});

test("wrong keys are refused", async () => {
  const stranger = new LangfuseClient({ secretKey: "sk-wrong" });
  await refuses(401, () => stranger.api.projects.get());
  assert.equal((await client.api.projects.get()).data.length, 1);
  assert.equal((await client.api.health.health()).status, "OK");
});
