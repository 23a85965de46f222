// Definitions, batches and what an evaluator may return, without a component.

import assert from "node:assert/strict";
import { test } from "node:test";

import { component } from "../guest.js";
import { boolean, category, defineEvaluator, definePlugin, InvalidInput, numeric, share } from "../index.js";
import { asScores } from "../scores.js";
import { settle } from "../settle.js";
import { failureOf, run } from "../testing.js";

const given = { id: "a", scores: { s: share() }, evaluate: () => 1 };

test("a wrong definition says what is wrong, where it is made", () => {
  const wrong = [
    [{ ...given, id: "A" }, /"A".*a-z/],
    [{ ...given, evaluate: undefined }, /no function evaluate/],
    [{ ...given, needs: ["outputs"] }, /"outputs".*expectedOutput/],
    [{ ...given, scores: {} }, /declares no scores/],
    [{ ...given, scores: { s: 1 } }, /score "s"/],
    [{ ...given, config: { type: "string" } }, /JSON Schema of an object/],
    [{ ...given, slots: { Judge: {} } }, /slot "Judge"/],
    [{ ...given, slots: { judge: { kind: "image" } } }, /"image"/],
  ];
  for (const [spec, message] of wrong) assert.throws(() => defineEvaluator(spec), { name: "TypeError", message });
  const plugin = { name: "a/b", version: "0.1.0", evaluators: [given] };
  assert.throws(() => definePlugin({ ...plugin, name: "b" }), /vendor\/name/);
  assert.throws(() => definePlugin({ ...plugin, version: "1" }), /semantic version/);
  assert.throws(() => definePlugin({ ...plugin, evaluators: [] }), /no evaluators/);
  assert.throws(() => definePlugin({ ...plugin, evaluators: [given, given] }), /two evaluators "a"/);
});

test("a plug-in imports what its evaluators declare and nothing else", () => {
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
  assert.throws(() => asScores(1, two), /exactly one score/);
  assert.throws(() => asScores([{ value: 1 }], two), /no name/);
  assert.throws(() => asScores({ s: { value: 1, metadata: [] } }, two), /metadata/);
});

const bindings = { context: { seed: () => 1, runTime: () => 0 }, log: { log() {} }, u64: Number };
const raw = (text) => ({ id: text, output: { tag: "text", val: text } });

test("a batch is scored by its own function, else item by item, and one bad item spoils no other", async () => {
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

test("a capability that is not declared says how to declare it", async () => {
  const curious = { ...given, evaluate: (item, config, ctx) => ctx.model.complete("x").text.length };
  const plugin = definePlugin({ name: "a/b", version: "0.1.0", evaluators: [curious] });
  await assert.rejects(run(plugin, "a", { output: "x" }), /slots: \{ judge/);
});

test("an evaluator runs in a unit test with its models played by functions", async () => {
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
