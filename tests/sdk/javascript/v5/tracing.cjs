// Traces as `@langfuse/tracing` and `@langfuse/otel` record them.

"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const {
  createTraceId,
  getActiveTraceId,
  observe,
  propagateAttributes,
  setActiveTraceAsPublic,
  setActiveTraceIO,
  startActiveObservation,
  startObservation,
  updateActiveObservation,
} = require("@langfuse/tracing");
const { LangfuseMedia } = require("@langfuse/client");
const { eventually, observations, page, picture, refuses, rest, unique } = require("../support.cjs");
const { client, flush } = require("./support.cjs");

const TYPES = ["span", "generation", "agent", "tool", "chain", "retriever", "evaluator", "embedding", "guardrail"];

test("every kind of observation nests under its parent", async () => {
  const names = { userId: "ann", sessionId: unique("s"), tags: ["t"], metadata: { k: "v" }, version: "1", traceName: "chat" };
  const traceId = await propagateAttributes(names, () =>
    startActiveObservation("root", async (root) => {
      root.update({ input: { q: 1 }, metadata: { deep: { a: [1, null] } } });
      for (const asType of TYPES) {
        await startActiveObservation(asType, async (inner) => {
          inner.update({ output: asType });
          inner.startObservation(`in ${asType}`).end();
        }, { asType });
      }
      root.startObservation("moment", {}, { asType: "event" });
      return root.traceId;
    }),
  );
  await flush();
  const found = await observations(traceId, 2 * TYPES.length + 2);
  const byName = Object.fromEntries(found.map((one) => [one.name, one]));
  for (const type of TYPES) {
    assert.equal(byName[type].type, type.toUpperCase());
    assert.equal(byName[type].parentObservationId, byName.root.id);
    assert.equal(byName[type].output, type);
    assert.equal(byName[`in ${type}`].parentObservationId, byName[type].id);
  }
  assert.equal(byName.moment.type, "EVENT");
  assert.equal(byName.root.parentObservationId, null);
  assert.deepEqual(new Set(found.map((one) => `${one.userId} ${one.sessionId}`)), new Set([`ann ${names.sessionId}`]));
  assert.deepEqual(new Set(found.map((one) => one.environment)), new Set(["testing"]));
  const trace = await client.fetchTrace(traceId);
  assert.deepEqual([trace.name, trace.userId, trace.tags, trace.release, trace.version], ["chat", "ann", ["t"], "r1", "1"]);
  assert.equal(trace.metadata.k, "v");
  const session = await client.api.sessions.get(names.sessionId);
  assert.deepEqual(session.traces.map((one) => one.id), [traceId]);
});

test("a generation keeps model, parameters, usage, cost and prompt", async () => {
  const name = unique("prompt");
  await client.prompt.create({ name, prompt: "Hi", labels: ["production"] });
  const prompt = await client.prompt.get(name);
  const begin = new Date(Date.now() - 3000);
  const generation = startObservation("answer", {
    model: "gpt-4o",
    modelParameters: { temperature: 0.5 },
    input: [{ role: "user", content: "Why?" }],
    prompt,
  }, { asType: "generation", startTime: begin });
  generation.update({
    output: { role: "assistant", content: "So." },
    completionStartTime: new Date(begin.getTime() + 1000),
    usageDetails: { input: 10, output: 5 },
    costDetails: { input: 0.1, output: 0.2 },
  });
  generation.end(new Date(begin.getTime() + 2000));
  await flush();
  const [only] = await observations(generation.traceId, 1);
  assert.deepEqual([only.type, only.model, only.usageDetails.input, only.usageDetails.output], ["GENERATION", "gpt-4o", 10, 5]);
  assert.ok(Math.abs(only.totalCost - 0.3) < 1e-9, String(only.totalCost));
  assert.deepEqual([only.promptName, only.promptVersion], [name, 1]);
  assert.deepEqual([only.latency, only.timeToFirstToken], [2, 1]);
  const legacy = await client.fetchObservation(only.id);
  assert.deepEqual([legacy.usage.total, legacy.modelParameters], [15, { temperature: 0.5 }]);
});

test("a wrapped function records what it takes, gives and throws", async () => {
  let traceId;
  const work = observe(async (n) => {
    traceId = getActiveTraceId();
    updateActiveObservation({ metadata: { seen: true } });
    return n + 1;
  }, { name: "work", asType: "tool" });
  assert.equal(await work(1), 2);
  let failed;
  const fail = observe(async () => {
    failed = getActiveTraceId();
    throw new Error("on purpose");
  }, { name: "fail" });
  await assert.rejects(fail(), /on purpose/);
  await flush();
  const [only] = await observations(traceId, 1);
  assert.deepEqual([only.name, only.type, only.input, only.output], ["work", "TOOL", "1", "2"]);
  const [error] = await observations(failed, 1);
  assert.deepEqual([error.level, error.statusMessage], ["ERROR", "on purpose"]);
});

test("a trace says its input and output, is public and is listed", async () => {
  const name = unique("t");
  const traceId = await startActiveObservation(name, async (root) => {
    setActiveTraceIO({ input: { ask: "q" }, output: "a" });
    setActiveTraceAsPublic();
    root.update({ level: "WARNING", statusMessage: "slow" });
    return root.traceId;
  });
  await flush();
  const trace = await eventually(() => client.fetchTrace(traceId));
  assert.deepEqual([trace.input, trace.output, trace.public], [{ ask: "q" }, "a", true]);
  const listed = await client.fetchTraces({ name });
  assert.deepEqual(listed.data.map((one) => one.id), [traceId]);
  const found = await client.fetchObservations({ traceId, fields: "core,basic" });
  assert.deepEqual(found.data.map((one) => [one.level, one.statusMessage]), [["WARNING", "slow"]]);
  const v1 = await client.api.legacy.observationsV1.getMany({ traceId, level: "WARNING" });
  assert.equal(v1.meta.totalItems, 1);
  await client.api.trace.delete(traceId);
  await refuses(404, () => client.fetchTrace(traceId));
});

test("a trace continues one that was started elsewhere", async () => {
  const traceId = await createTraceId(unique("request"));
  const spanId = "0123456789abcdef";
  const parentSpanContext = { traceId, spanId, traceFlags: 1 };
  startObservation("further", { input: "x" }, { parentSpanContext }).end();
  await flush();
  const [only] = await observations(traceId, 1);
  assert.deepEqual([only.traceId, only.parentObservationId], [traceId, spanId]);
});

test("a trace has an address on the server", async () => {
  const [project] = (await rest("/projects")).data;
  const name = unique("shown").replaceAll("/", "-");
  const span = startObservation(name);
  span.end();
  await flush();
  const url = await client.getTraceUrl(span.traceId);
  assert.equal(url, `${process.env.LANGFUSE_BASE_URL}/project/${project.id}/traces/${span.traceId}`);
  assert.ok((await page(url)).includes(name));
});

test("media in a trace are uploaded and come back as they were", async () => {
  const bytes = picture();
  const uri = `data:image/png;base64,${bytes.toString("base64")}`;
  const media = new LangfuseMedia({ source: "bytes", contentBytes: bytes, contentType: "image/png" });
  const span = startObservation("look", { input: { image: media }, output: `seen ${uri}` });
  span.end();
  await flush();
  const mediaId = await media.getId();
  const stored = await eventually(() => client.fetchMedia(mediaId));
  assert.deepEqual([stored.contentType, stored.contentLength], ["image/png", bytes.length]);
  const content = await fetch(stored.url).then((answer) => answer.arrayBuffer());
  assert.deepEqual(Buffer.from(content), bytes);
  const [only] = await observations(span.traceId, 1);
  assert.match(only.output, /^seen @@@langfuseMedia:type=image\/png\|id=/);
  const resolved = await client.resolveMediaReferences({ obj: { input: only.input }, resolveWith: "base64DataUri" });
  assert.match(JSON.stringify(resolved), new RegExp(uri.slice(0, 80).replace(/[+/]/g, "\\$&")));
  await refuses(404, () => client.fetchMedia("none"));
});
