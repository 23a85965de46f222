// Definitions, batches and results of evaluators, without a component.

import assert from "node:assert/strict";
import { test } from "node:test";

import { component } from "../guest.js";
import { boolean, category, defineEvaluator, definePlugin, InvalidInput, numeric, share } from "../index.js";
import { asScores } from "../scores.js";
import { settle } from "../settle.js";
import { failureOf, run } from "../testing.js";

const given = { id: "a", scores: { s: share() }, evaluate: () => 1 };

test("an invalid definition throws", () => {
  const wrong = [
    [{ ...given, id: "A" }, /"A".*a-z/],
    [{ ...given, evaluate: undefined }, /must have a function evaluate/],
    [{ ...given, needs: ["outputs"] }, /expectedOutput.*"outputs"/],
    [{ ...given, scores: {} }, /must declare scores/],
    [{ ...given, scores: { s: 1 } }, /score "s"/],
    [{ ...given, config: { type: "string" } }, /JSON Schema of an object/],
    [{ ...given, slots: { Judge: {} } }, /slot "Judge"/],
    [{ ...given, slots: { judge: { kind: "image" } } }, /"image"/],
  ];
  for (const [spec, message] of wrong) assert.throws(() => defineEvaluator(spec), { name: "TypeError", message });
  const plugin = { name: "a/b", version: "0.1.0", evaluators: [given] };
  assert.throws(() => definePlugin({ ...plugin, name: "b" }), /vendor\/name/);
  assert.throws(() => definePlugin({ ...plugin, version: "1" }), /semantic version/);
  assert.throws(() => definePlugin({ ...plugin, evaluators: [] }), /at least one evaluator/);
  assert.throws(() => definePlugin({ ...plugin, evaluators: [given, given] }), /duplicate evaluator "a"/);
});

test("a plug-in imports exactly what its evaluators declare", () => {
  const uses = (more) => definePlugin({ name: "a/b", version: "0.1.0", evaluators: [{ ...given, ...more }] }).uses;
  const nothing = { model: false, trace: false, batch: false, configCheck: false };
  assert.deepEqual(uses({}), nothing);
  assert.deepEqual(uses({ slots: { judge: {} } }), { ...nothing, model: true });
  assert.deepEqual(uses({ needs: ["trace"] }), { ...nothing, trace: true });
  assert.deepEqual(uses({ evaluateBatch: () => [], checkConfig: () => [] }), { ...nothing, batch: true, configCheck: true });
});

test("scores may be returned in many forms", () => {
  const one = [{ name: "s" }];
  const two = [{ name: "s" }, { name: "t" }];
  const s = { name: "s", value: { tag: "numeric", val: 1 }, comment: undefined, metadata: undefined, observationId: undefined };
  assert.deepEqual(asScores(null, one), []);
  assert.deepEqual(asScores({ s: null, t: { value: null } }, two), []);
  assert.deepEqual(asScores({ s: 1 }, two), [{ name: "s", value: { tag: "numeric", val: 1 } }]);
  for (const form of [{ value: 1 }, { name: "s", value: 1 }, [{ name: "s", value: 1 }]]) {
    assert.deepEqual(asScores(form, one), [s]);
  }
  assert.equal(asScores({ value: 1, metadata: { a: [1] } }, one)[0].metadata, '{"a":[1]}');
  assert.throws(() => asScores(1, two), /exactly one declared score/);
  assert.throws(() => asScores([{ value: 1 }], two), /must have a name/);
  assert.throws(() => asScores({ s: { value: 1, metadata: [] } }, two), /metadata/);
});

const bindings = { context: { seed: () => 1, runTime: () => 0 }, log: { log() {} }, u64: Number };
const raw = (text) => ({ id: text, output: { tag: "text", val: text } });

test("a batch is scored by evaluateBatch or item by item, and an invalid item does not affect others", async () => {
  const strict = (item) => {
    if (item.text("output") === "bad") throw new InvalidInput("bad");
    return item.text("output").length;
  };
  const each = { id: "each", scores: { n: numeric() }, evaluate: async (item) => strict(item) };
  const whole = {
    ...each,
    id: "whole",
    evaluateBatch: (items) =>
      items.map((item) => {
        try {
          return strict(item);
        } catch (error) {
          return error;
        }
      }),
  };
  const made = component(definePlugin({ name: "a/b", version: "0.1.0", evaluators: [each, whole] }), bindings, settle);
  for (const id of ["each", "whole"]) {
    const [first, bad, last] = await made.batch.evaluateBatch(id, [raw("x"), raw("bad"), raw("xyz")], "{}");
    assert.equal(first.val[0].value.val, 1);
    assert.deepEqual(bad, { tag: "err", val: { tag: "invalid-input", val: "bad" } });
    assert.equal(last.val[0].value.val, 3);
  }
});

test("the error for an undeclared capability says how to declare it", async () => {
  const curious = { ...given, evaluate: (item, config, ctx) => ctx.model.complete("x").text.length };
  const plugin = definePlugin({ name: "a/b", version: "0.1.0", evaluators: [curious] });
  await assert.rejects(run(plugin, "a", { output: "x" }), /slots: \{ judge/);
});

test("a unit test implements models by functions", async () => {
  const judge = {
    id: "judge",
    needs: ["output"],
    slots: { judge: {} },
    scores: { good: boolean(), tone: category("", ["kind"]) },
    async evaluate(item, config, ctx) {
      const { structured } = await ctx.model.complete({ prompt: item.text("output"), schema: {} });
      return { good: structured.good, tone: "kind" };
    },
  };
  const plugin = definePlugin({ name: "a/b", version: "0.1.0", evaluators: [judge] });
  const host = { complete: (request) => ({ structured: { good: request.messages[0].content === "hi" } }) };
  const scores = await run(plugin, "judge", { output: "hi" }, {}, host);
  assert.deepEqual(scores, [{ name: "good", value: true }, { name: "tone", value: "kind" }]);
  const refused = await run(plugin, "judge", { output: "hi" }).catch(failureOf);
  assert.equal(refused, "upstream");
});

const withModel = (evaluate) => definePlugin({
  name: "a/b",
  version: "0.1.0",
  evaluators: [{ id: "a", needs: ["output", "trace"], slots: { judge: {} }, scores: { s: numeric() }, evaluate }],
});

/** The argument of `complete` for the request `given`. */
async function requestOf(given) {
  let seen;
  const plugin = withModel((item, config, ctx) => ctx.model.complete(given).text.length);
  await run(plugin, "a", { output: "x" }, {}, { complete: (request) => ((seen = request), "ok") });
  return seen;
}

test("a message has many forms, and an invalid part is reported", async () => {
  const call = { id: "1", name: "look", arguments: '{"a":1}' };
  const { messages } = await requestOf({
    system: "s",
    messages: [
      { role: "user", content: ["a", { image: "m" }, { text: "b" }, { audio: "n" }, { file: "f" }] },
      { role: "assistant", content: call },
      { role: "tool", content: [{ callId: "1", content: "found" }] },
    ],
    prompt: "p",
  });
  assert.deepEqual(messages, [
    { role: "system", content: "s", parts: ["s"] },
    { role: "user", content: "a\n\nb", parts: ["a", { image: "m" }, "b", { audio: "n" }, { file: "f" }] },
    { role: "assistant", content: "", parts: [call] },
    { role: "tool", content: "", parts: [{ callId: "1", content: "found", isError: false }] },
    { role: "user", content: "p", parts: ["p"] },
  ]);
  const refused = [
    [{ messages: [{ role: "robot", content: "x" }] }, /the role must be one of system.*robot/],
    [{ messages: [{ role: "user", content: [{ video: "m" }] }] }, /part of a message.*video/],
    [{ prompt: "x", cache: "never" }, /cache must be one of.*never/],
    [{ prompt: "x", toolChoice: "always" }, /toolChoice must be one of.*always/],
    [{ prompt: "x", topLogprobs: 300 }, /topLogprobs must be an integer from 0 to 255, got 300/],
    [{ prompt: "x", maxOutputTokens: 1.5 }, /maxOutputTokens must be an integer.*got 1.5/],
    [{ prompt: "x", seed: -1 }, /seed must be an integer.*got -1/],
  ];
  for (const [given, message] of refused) await assert.rejects(requestOf(given), { reason: "invalid-request", message });
});

test("a request has exactly the settings of the evaluator", async () => {
  const look = { name: "look", description: "Finds.", parameters: { type: "object" } };
  const given = {
    slot: "judge",
    schema: { type: "object" },
    temperature: 0.5,
    topP: 0.9,
    maxOutputTokens: 5,
    seed: 7,
    stop: ["."],
    topLogprobs: 3,
    cache: "refresh",
    extra: { top_k: 1 },
    tools: [look],
  };
  const { messages, ...set } = await requestOf({ prompt: "x", ...given, toolChoice: look });
  assert.deepEqual(set, { ...given, toolChoice: { name: "look" } });
  const { messages: _, ...bare } = await requestOf("x");
  assert.deepEqual(bare, { tools: [], toolChoice: "auto", cache: "standard", stop: [] });
});

test("more requests than the host accepts at once are refused together", async () => {
  const plugin = withModel((item, config, ctx) => ctx.model.completeAll(Array(65).fill("x")).length);
  await assert.rejects(run(plugin, "a", { output: "x" }, {}, { complete: () => "y" }), /at most 64 requests, got 65/);
});

test("a tool loop runs against a scripted model with probabilities", async () => {
  const look = { name: "look", description: "Finds a text.", parameters: { type: "object" } };
  const plugin = withModel((item, config, ctx) => {
    const messages = [{ role: "user", content: item.text("output") }];
    let reply;
    while ((reply = ctx.model.complete({ messages, tools: [look] })).toolCalls.length > 0) {
      const results = reply.toolCalls.map((call) => {
        try {
          return call.result({ found: call.read().text });
        } catch (error) {
          return call.failed(error);
        }
      });
      messages.push(reply.message, { role: "tool", content: results });
    }
    const found = reply.probabilities(["yes", "no"]);
    return { value: found.shares.yes, metadata: { ...found, none: reply.probabilities(["maybe"]) === undefined } };
  });
  const seen = [];
  const complete = (request) => {
    seen.push(request.messages.at(-1).parts);
    if (seen.length > 1) return { text: "yes", probabilities: { yes: 0.6, no: 0.2, well: 0.1 } };
    return { toolCalls: [{ name: "look", arguments: { text: "x" } }, { id: "b", name: "look", arguments: "{" }] };
  };
  const [score] = await run(plugin, "a", { output: "hi" }, {}, { complete });
  assert.ok(Math.abs(score.value - 0.75) < 1e-9 && Math.abs(score.metadata.margin - 0.5) < 1e-9);
  assert.ok(Math.abs(score.metadata.coverage - 0.8) < 1e-9 && score.metadata.none);
  assert.deepEqual(seen[0], ["hi"]);
  assert.deepEqual(seen[1][0], { callId: "call-1", content: '{"found":"x"}', isError: false });
  assert.equal(seen[1][1].isError, true);
  assert.match(seen[1][1].content, /invalid arguments of look/);
});

test("traces, sessions and runs of a test are read as the host reads them", async () => {
  const traces = {
    t: [
      { id: "root", start: 1, end: 9, input: "Wo ist Ärger?" },
      { id: "late", parentId: "root", kind: "tool", start: 5, output: { found: "ärger" } },
      { id: "early", parentId: "root", kind: "tool", start: 2 },
      { id: "leaf", parentId: "early", kind: "tool", start: 7 },
      { id: "lost", parentId: "gone", start: 3 },
    ],
    u: [{ id: "o", start: 20 }],
  };
  const host = { traces, sessions: { s: ["u", "t"] }, runs: { r: [{ id: "2", output: ["b"] }, { id: "1", input: "a" }] } };
  let results;
  const plugin = withModel((item, config, ctx) => {
    results = [];
    if (item.session) {
      const { traceCount, start, end } = ctx.session.get();
      results.push([traceCount, start, end], [...ctx.session.traces()].map(({ id, sessionId }) => [id, sessionId]));
      results.push([...ctx.trace.of("u").outline()].map(({ id }) => id));
    }
    if (item.run) results.push(ctx.run.get().itemCount, [...ctx.run.items()].map(({ id, input, output }) => [id, input, output]));
    if (item.trace) {
      results.push([...ctx.trace.outline()].map(({ depth, id, childCount, durationMs }) => [depth, id, childCount, durationMs]));
      results.push([...ctx.trace.outline({ parentId: "early" })].map(({ depth, id }) => [depth, id]));
      results.push(ctx.trace.search("ÄRGER").map(({ observationId, part, offset, excerpt }) => [observationId, part, offset, excerpt]));
      results.push(ctx.trace.search("r", { limit: 2 }).length);
      results.push(ctx.trace.range("root", "input", { offset: 8, length: 3 }), ctx.trace.range("late", "output").isJson);
      results.push(ctx.trace.range("root", "output"), ctx.trace.range("root", "input", { offset: 99 }).text);
    }
    return 0;
  });
  await run(plugin, "a", { trace: { traceId: "t" } }, {}, host);
  assert.deepEqual(results, [
    [[0, "root", 2, 8], [1, "early", 1, undefined], [2, "leaf", 0, undefined], [1, "late", 0, undefined], [0, "lost", 0, undefined]],
    [[0, "leaf"]],
    [["root", "input", 7, "Wo ist Ärger?"], ["late", "output", 10, '{"found":"ärger"}']],
    2,
    { text: "Ärg", offset: 7, total: 14, isJson: false },
    true,
    undefined,
    "",
  ]);
  await run(plugin, "a", { session: "s" }, {}, host);
  assert.deepEqual(results, [[2, 1, 20], [["t", "s"], ["u", "s"]], ["o"]]);
  await run(plugin, "a", { run: "r" }, {}, host);
  assert.deepEqual(results, [2, [["2", undefined, ["b"]], ["1", "a", undefined]]]);
  await assert.rejects(run(plugin, "a", { session: "other" }, {}, host), /trace: not-granted: other/);
});
