// An evaluator that looks into traces with a model that calls tools, and into sessions and runs.

import { defineEvaluator, EvalError, numeric, share, TraceError, Upstream } from "./perpend/javascript/index.js";

const object = (properties) => ({ type: "object", properties, required: Object.keys(properties) });
const SEARCH = {
  name: "search",
  description: "Finds a text in the trace.",
  parameters: object({ text: { type: "string", description: "What to look for." } }),
};
const READ = {
  name: "read",
  description: "Reads on from a place.",
  parameters: object({ observation: { type: "string" }, offset: { type: "integer" } }),
};

function outlined(ctx) {
  const entries = [...ctx.trace.outline()];
  const failed = entries.find(
    ({ severity, kind, parentId }) => severity === "error" && kind === "tool" && parentId === "o1",
  );
  const deep = Math.max(...entries.map(({ depth }) => depth));
  return `${entries.length} steps, ${deep} deep, error in ${failed.name} after ${failed.durationMs} ms`;
}

function carriedOut(ctx, call) {
  try {
    const { text, observation, offset } = call.read();
    if (call.name === "search") {
      if (typeof text !== "string") throw new TypeError("text is no string");
      const hits = ctx.trace.search(text, { limit: 3 });
      return call.result(hits.map((hit) => `${hit.observationId} ${hit.part} ${hit.offset} ${hit.excerpt}`).join("\n"));
    }
    const found = ctx.trace.range(observation, "output", { offset, length: 5 });
    if (found.offset !== offset || found.total !== 23 || found.isJson) throw new RangeError(JSON.stringify(found));
    return call.result(found.text);
  } catch (error) {
    return call.failed(error);
  }
}

function judged(completion, outline) {
  const found = completion.probabilities(["yes", "no"]);
  if (completion.probabilities(["yes"], "verdict") !== undefined) throw new EvalError("internal", "there is no verdict");
  const [likeliest] = Object.entries(found.shares).sort(([, one], [, other]) => other - one)[0];
  return {
    found: { value: found.shares.no, comment: `${outline}\n${likeliest} by ${completion.model}` },
    margin: found.margin,
    coverage: found.coverage,
  };
}

function investigated(item, ctx) {
  const outline = outlined(ctx);
  const messages = [
    { role: "system", content: "Did it work? Say yes or no." },
    { role: "user", content: [item.text("output"), { image: "m1" }] },
  ];
  let toolChoice = SEARCH;
  for (let turn = 0; turn < 5; turn += 1) {
    const completion = ctx.model.complete({ messages, topLogprobs: 5, tools: [SEARCH, READ], toolChoice });
    if (completion.toolCalls.length === 0) return judged(completion, outline);
    messages.push(completion.message, { role: "tool", content: completion.toolCalls.map((call) => carriedOut(ctx, call)) });
    toolChoice = "auto";
  }
  throw new EvalError("internal", "the model does not come to an end");
}

function ofSession(ctx) {
  let info;
  try {
    info = ctx.session.get();
  } catch (error) {
    throw error instanceof TraceError ? new Upstream(error.detail) : error;
  }
  const lines = [...ctx.session.traces()].map(({ id, name, tags }) => (name ? `${id} ${name} [${tags.join(" ")}]` : id));
  const comment = `${info.id} of ${info.userIds.join(", ")} in ${info.end - info.start} ms: ${lines.join(", ")}`;
  return { found: { value: info.traceCount, comment } };
}

function ofRun(ctx) {
  const { name, itemCount } = ctx.run.get();
  const items = [...ctx.run.items()];
  const lines = items.map(({ id, datasetItemId, trace }) =>
    trace ? `${id} ${datasetItemId} ${trace.traceId}/${trace.observationId}` : id,
  );
  // Text is not the number that it reads as.
  const equal = items.filter(({ output, expectedOutput }) => output === expectedOutput);
  return { found: { value: equal.length / itemCount, comment: `${name}, ${itemCount} items: ${lines.join(", ")}` } };
}

function allElse(ctx) {
  const first = {
    messages: [{ role: "user", content: ["first", "and", { audio: "a1" }, { file: "f1" }] }],
    slot: "judge",
    schema: { type: "object" },
    temperature: 0.5,
    topP: 0.25,
    maxOutputTokens: 9,
    seed: 7,
    stop: ["END", "."],
    cache: "bypass",
    extra: { a: 1 },
    toolChoice: "none",
  };
  const [answer, refused] = ctx.model.completeAll([first, "second"]);
  const vectors = ctx.model.embed(["a", "bc"], { slot: "vectors" });
  const { name, observationCount } = ctx.trace.get();
  const steps = [...ctx.trace.observations({ parentId: "o1", kinds: ["tool", "agent"], name: "search" })];
  const lines = [
    JSON.stringify(answer.value.structured),
    refused.reason.detail,
    `${name} ${observationCount}`,
    ...steps.map(({ id, start, end }) => `${id} in ${end - start} ms`),
    JSON.stringify(ctx.trace.input("o2")),
    ctx.trace.output("o2") ?? "none",
    JSON.stringify(ctx.trace.metadata("o2")),
  ];
  const sum = vectors.flat().reduce((one, other) => one + other, 0);
  return { found: { value: sum, comment: lines.join("; ") } };
}

export const detective = defineEvaluator({
  id: "detective",
  needs: ["output", "trace"],
  slots: { judge: { description: "Judges." }, vectors: { kind: "embedding", required: false } },
  config: object({ look: { enum: ["trace", "session", "run", "all"] } }),
  scores: { found: numeric(), margin: share(), coverage: share() },
  evaluate(item, { look }, ctx) {
    if (look === "trace") return investigated(item, ctx);
    if (look === "all") return allElse(ctx);
    return look === "session" ? ofSession(ctx) : ofRun(ctx);
  },
});
