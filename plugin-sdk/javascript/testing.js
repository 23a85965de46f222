// Runs an evaluator in Node, without a component: for unit tests beside the code.
//
// The host's side is played by plain functions. What only the sandbox brings (limits, a fresh instance,
// checks of the scores against their declaration) is the business of `perpend plugin test`.

import { asEvalError } from "./errors.js";
import { Context } from "./host.js";
import { Item } from "./item.js";
import { asScores } from "./scores.js";

const payload = (value) => {
  if (value === undefined) return undefined;
  return typeof value === "string" ? { tag: "text", val: value } : { tag: "json", val: JSON.stringify(value) };
};

function fakes({ seed = 1, runTime = 0, complete, embed, log = () => {} }) {
  const absent = () => {
    throw { tag: "not-granted", val: "this test gives no model" };
  };
  const answer = (request) => {
    const given = (complete ?? absent)(request);
    const { text = "", structured, ...rest } = typeof given === "string" ? { text: given } : given;
    return {
      text,
      structured: structured === undefined ? undefined : JSON.stringify(structured),
      finish: "stop",
      usage: { inputTokens: 0, outputTokens: 0 },
      logprobs: [],
      model: "test",
      fromCache: false,
      ...rest,
    };
  };
  return {
    context: { seed: () => seed, runTime: () => runTime },
    log: { log },
    model: {
      complete: answer,
      completeAll: (requests) =>
        requests.map((request) => {
          try {
            return { tag: "ok", val: answer(request) };
          } catch (thrown) {
            return { tag: "err", val: thrown };
          }
        }),
      embed: (_, texts) => (embed ?? absent)(texts),
    },
    u64: (number) => number,
  };
}

/**
 * Scores of one item: `run(plugin, "my-evaluator", { output: "..." }, { max: 3 })`. Throws what the
 * evaluator threw. `host` may have `seed`, `runTime`, `complete(request)`, `embed(texts)` and
 * `log(level, message, fields)`.
 */
export async function run(plugin, id, item, config = {}, host = {}) {
  const evaluator = plugin.evaluators.get(id);
  if (evaluator === undefined) throw new TypeError(`${plugin.info.name} has no evaluator "${id}"`);
  const raw = {
    id: item.id ?? "item",
    input: payload(item.input),
    output: payload(item.output),
    expectedOutput: payload(item.expectedOutput),
    metadata: item.metadata === undefined ? undefined : JSON.stringify(item.metadata),
    trace: item.trace,
  };
  for (const [part, isNeeded] of Object.entries(evaluator.info.needs)) {
    if (!isNeeded) raw[part] = undefined;
  }
  const asked = new Item(raw);
  const returned = await evaluator.evaluate(asked, config, new Context(fakes(host), evaluator, asked));
  return asScores(returned, evaluator.scores).map(({ name, value, comment, metadata, observationId }) => ({
    name,
    value: value.val,
    ...(comment === undefined ? {} : { comment }),
    ...(metadata === undefined ? {} : { metadata: JSON.parse(metadata) }),
    ...(observationId === undefined ? {} : { observationId }),
  }));
}

/** The class of failure that the server would store for a thrown value, such as `invalid-input`. */
export function failureOf(thrown) {
  return asEvalError(thrown).tag;
}
