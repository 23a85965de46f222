// Traces, scores and media as npm's `langfuse` 3 records and fetches them.

"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { test } = require("node:test");
const { Langfuse, LangfuseMedia } = require("langfuse");
const { eventually, page, picture, scores, unique } = require("../support.cjs");
const { client } = require("./support.cjs");

test("a trace, its spans, generations and events come back as they were sent", async () => {
  const sessionId = unique("s");
  const trace = client.trace({
    name: "chat", userId: "ann", sessionId, tags: ["t"], metadata: { k: [1, null] }, version: "1", public: true, input: { q: 1 },
  });
  const span = trace.span({ name: "retrieve", input: "x" });
  const begin = new Date(Date.now() - 3000);
  const generation = span.generation({
    name: "answer", model: "gpt-4o", modelParameters: { temperature: 0.5 }, startTime: begin,
    input: [{ role: "user", content: "Why?" }],
  });
  generation.update({ completionStartTime: new Date(begin.getTime() + 1000) });
  generation.end({ output: "So.", usageDetails: { input: 10, output: 5 }, costDetails: { input: 0.1, output: 0.2 } });
  const old = span.generation({ name: "old usage", usage: { promptTokens: 3, completionTokens: 4, totalTokens: 7 } });
  old.end();
  span.event({ name: "moment", level: "WARNING", statusMessage: "late" });
  span.end({ output: "y" });
  trace.update({ output: { a: 2 } });
  await client.flushAsync();

  const { data } = await client.fetchTrace(trace.id);
  assert.deepEqual([data.name, data.userId, data.sessionId, data.tags, data.version, data.release, data.public],
    ["chat", "ann", sessionId, ["t"], "1", "r1", true]);
  assert.deepEqual([data.input, data.output, data.metadata, data.environment], [{ q: 1 }, { a: 2 }, { k: [1, null] }, "testing"]);
  const byName = Object.fromEntries(data.observations.map((one) => [one.name, one]));
  assert.deepEqual(Object.keys(byName).toSorted(), ["answer", "moment", "old usage", "retrieve"]);
  assert.deepEqual([byName.retrieve.type, byName.retrieve.parentObservationId, byName.retrieve.output], ["SPAN", null, "y"]);
  assert.deepEqual([byName.answer.type, byName.answer.parentObservationId], ["GENERATION", span.id]);
  assert.deepEqual([byName.moment.type, byName.moment.level, byName.moment.statusMessage], ["EVENT", "WARNING", "late"]);
  assert.deepEqual([byName.answer.model, byName.answer.usage.total, byName.answer.timeToFirstToken], ["gpt-4o", 15, 1]);
  assert.ok(Math.abs(byName.answer.calculatedTotalCost - 0.3) < 1e-9);
  assert.equal(byName["old usage"].usage.total, 7);
  assert.equal(trace.getTraceUrl(), `${process.env.LANGFUSE_BASEURL}/trace/${trace.id}`);
  assert.match(await page(trace.getTraceUrl()), /old usage/);

  const traces = await client.fetchTraces({ sessionId, tags: "t", userId: "ann" });
  assert.deepEqual([traces.meta.totalItems, traces.data[0].id], [1, trace.id]);
  const listed = await client.fetchObservations({ traceId: trace.id, type: "GENERATION", name: "answer" });
  assert.deepEqual(listed.data.map((one) => one.id), [generation.id]);
  const one = await client.fetchObservation(generation.id);
  assert.deepEqual(one.data.input, [{ role: "user", content: "Why?" }]);
  const sessions = await client.fetchSessions({ limit: 100 });
  assert.ok(sessions.data.some((session) => session.id === sessionId));
  // This client does not throw: it hands on what the server says.
  const none = await client.fetchTrace(randomUUID());
  assert.equal(none.data.error, "LangfuseNotFoundError");
});

test("a generation names the prompt that made it", async () => {
  const name = unique("prompt");
  await client.createPrompt({ name, prompt: "Hi", labels: ["production"] });
  const prompt = await client.getPrompt(name);
  const trace = client.trace({ name: "prompted" });
  trace.generation({ name: "answer", prompt }).end();
  await client.flushAsync();
  const { data } = await client.fetchTrace(trace.id);
  assert.deepEqual([data.observations[0].promptName, data.observations[0].promptVersion], [name, 1]);
});

test("scores of every type go to traces and observations", async () => {
  const trace = client.trace({ name: "scored" });
  const span = trace.span({ name: "step" });
  trace.score({ name: "number", value: 0.5, comment: "half" });
  span.score({ name: "truth", value: 1, dataType: "BOOLEAN" });
  client.score({ traceId: trace.id, name: "tone", value: "kind" });
  const id = randomUUID();
  for (const value of [1, 2]) client.score({ traceId: trace.id, name: "once", value, id });
  await client.flushAsync();
  const found = await scores(`traceId=${trace.id}`, 4);
  assert.deepEqual([found.number.value, found.number.comment], [0.5, "half"]);
  assert.deepEqual([found.truth.value, found.truth.subject.id], [true, span.id]);
  assert.deepEqual([found.tone.value, found.once.value], ["kind", 2]);
  const { data } = await client.fetchTrace(trace.id);
  assert.equal(data.scores.length, 4);
});

test("media in a trace are uploaded and come back as they were", async () => {
  const bytes = picture();
  const media = new LangfuseMedia({ contentBytes: bytes, contentType: "image/png" });
  const trace = client.trace({ name: "look", metadata: { image: media } });
  await client.flushAsync();
  const metadata = await eventually(async () => (await client.fetchTrace(trace.id)).data.metadata);
  const { mediaId } = LangfuseMedia.parseReferenceString(metadata.image);
  const stored = await eventually(() => client.fetchMedia(mediaId));
  assert.deepEqual([stored.contentType, stored.contentLength], ["image/png", bytes.length]);
  const resolved = await client.resolveMediaReferences({ obj: metadata, resolveWith: "base64DataUri" });
  assert.equal(resolved.image, `data:image/png;base64,${bytes.toString("base64")}`);
});

test("wrong keys are reported", async () => {
  const stranger = new Langfuse({ secretKey: "sk-wrong", fetchRetryCount: 0 });
  const { data } = await stranger.fetchTrace("any");
  assert.equal(data.error, "UnauthorizedError");
  await stranger.shutdownAsync();
});
