// Everything the SDK offers, for tests/guests/tests/javascript.rs.

import {
  boolean,
  category,
  defineEvaluator,
  definePlugin,
  EvalError,
  InvalidConfig,
  InvalidInput,
  ModelError,
  NotApplicable,
  numeric,
  share,
  Transient,
} from "./perpend/javascript/index.js";

import { detective } from "./detective.js";

const forms = defineEvaluator({
  id: "forms",
  needs: ["input", "output", "expectedOutput", "metadata"],
  scores: { n: numeric(), ok: boolean(), kind: category("", ["text", "json"]) },
  evaluate(item) {
    return {
      n: Object.keys(item.metadata).length,
      ok: { value: item.has("expectedOutput"), comment: item.text("output"), metadata: { input: item.input ?? null } },
      kind: item.raw("output").tag,
    };
  },
});

const later = defineEvaluator({
  id: "later",
  scores: { order: share() },
  async evaluate(item, config, ctx) {
    const seen = [];
    const note = (word) => seen.push(word);
    const first = (async () => {
      note("a");
      await null;
      note("c");
    })();
    note("b");
    await Promise.all([first, Promise.resolve().then(() => note("d"))]);
    const both = await Promise.allSettled([Promise.reject(new Error("no")), 1]);
    for await (const each of (async function* () {
      yield "e";
    })())
      note(each);
    note(await new Promise((resolve) => queueMicrotask(() => resolve("f"))));
    return { value: seen.join("") === "abcdef" ? 1 : 0, comment: `${seen.join("")} ${both[0].reason.message}` };
  },
});

const chance = defineEvaluator({
  id: "chance",
  scores: { drawn: share() },
  evaluate: (item, config, ctx) => ({
    value: Math.random(),
    comment: [ctx.seed, ctx.runTime, Date.now(), Math.random() !== Math.random()].join(),
  }),
});

class Counting {
  static id = "counting";
  static title = "A class";
  static config = { type: "object", properties: { limit: { type: "integer", default: 2 } } };
  static scores = { within: boolean() };
  calls = 0;
  evaluate(item, { limit }, ctx) {
    this.calls += 1;
    console.log("seen", item.output, { calls: this.calls });
    ctx.log.warn("watch out", { limit });
    return item.text("output").length <= limit && this.calls === 1;
  }
  checkConfig({ limit }) {
    return limit < 0 ? [{ pointer: "/limit", message: "is below 0" }] : [];
  }
}

const throwing = defineEvaluator({
  id: "throwing",
  config: { type: "object", properties: { what: { type: "string" } } },
  scores: { s: share() },
  async evaluate(item, { what }) {
    const thrown = {
      config: () => new InvalidConfig("config"),
      input: () => new InvalidInput("input"),
      nothing: () => new NotApplicable("nothing"),
      transient: () => new Transient("transient"),
      internal: () => new EvalError("internal", "internal"),
      type: () => new TypeError("a type"),
      text: () => "text",
    }[what];
    if (thrown) throw thrown();
    if (what === "undeclared") return { other: 1 };
    if (what === "shape") return { s: {} };
    if (what === "nan") return NaN;
    if (what === "never") return new Promise(() => {});
    return null;
  },
});

const judge = defineEvaluator({
  id: "judge",
  needs: ["output", "trace"],
  slots: { judge: { description: "Judges." }, vectors: { kind: "embedding", required: false } },
  scores: { good: share() },
  async evaluate(item, config, ctx) {
    const one = await ctx.model.complete({
      system: "Be brief.",
      prompt: item.text("output"),
      schema: { type: "object" },
      temperature: 0.5,
      seed: 7,
      stop: ["\n"],
      extra: { top_k: 3 },
    });
    const [yes, no] = ctx.model.completeAll(["yes", { messages: [{ role: "user", content: "no" }], slot: "judge" }]);
    const [vector] = ctx.model.embed(["x"], { slot: "vectors" });
    const heads = [...ctx.trace.observations({ kinds: ["tool"], pageSize: 1 })];
    return {
      value: one.structured.good,
      comment: JSON.stringify({
        yes: yes.value.text,
        no: no.reason instanceof ModelError && no.reason.reason,
        vector,
        trace: ctx.trace.get().name,
        names: heads.map(({ name, start }) => [name, start]),
        input: ctx.trace.input(heads[0].id),
        metadata: ctx.trace.metadata(heads[0].id),
        tokens: one.usage,
      }),
    };
  },
});

const ANSWER = { name: "answer", description: "Takes the verdict." };

const choice = defineEvaluator({
  id: "choice",
  slots: { judge: {} },
  scores: { good: share() },
  evaluate(item, config, ctx) {
    const request = { prompt: item.text("output"), schema: { type: "object" }, tools: [ANSWER] };
    const answers = ctx.model.completeAll([
      { ...request, topLogprobs: 3, toolChoice: "none" },
      { ...request, toolChoice: ANSWER },
    ]);
    const [sure, unsure] = answers.map(({ value }) => value);
    const inside = sure.probabilities(["good", "bad"], "verdict");
    const at = sure.probabilities(["good", "bad"], { offset: sure.text.indexOf("good") });
    const isSame = JSON.stringify(at) === JSON.stringify(inside);
    const comment = `${isSame}, ${unsure.probabilities(["good"], "verdict")}, ${JSON.stringify(sure.structured)}`;
    return { value: inside.shares.good, comment };
  },
});

export default definePlugin({
  name: "acme/sdk",
  version: "1.2.3",
  description: "Everything the SDK offers.",
  evaluators: [forms, later, chance, Counting, throwing, judge, choice, detective],
});
