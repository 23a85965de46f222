// Runs an evaluator in Node without a component, for unit tests.
//
// Functions of the test implement the host. The properties of the sandbox (limits, fresh instances, checks of the
// scores against their declaration) are tested by `perpend plugin test`.

import { asEvalError } from "./errors.js";
import { Context } from "./host.js";
import { Item } from "./item.js";
import { asScores } from "./scores.js";
import { payload, readers } from "./testing-readers.js";

/** A request in normal form: the argument of `complete`. */
class Request {
  constructor(messages) {
    this.recorded = { messages: messages.map(recordedMessage), tools: [], toolChoice: "auto", cache: "standard", stop: [] };
  }
  setSlot(slot) {
    this.recorded.slot = slot;
  }
  setResponseSchema(schema) {
    this.recorded.schema = JSON.parse(schema);
  }
  setTemperature(temperature) {
    this.recorded.temperature = temperature;
  }
  setTopP(topP) {
    this.recorded.topP = topP;
  }
  setMaxOutputTokens(limit) {
    this.recorded.maxOutputTokens = limit;
  }
  setSeed(seed) {
    this.recorded.seed = seed;
  }
  setStop(texts) {
    this.recorded.stop = texts;
  }
  setTopLogprobs(alternatives) {
    this.recorded.topLogprobs = alternatives;
  }
  setCache(mode) {
    this.recorded.cache = mode;
  }
  setExtra(settings) {
    this.recorded.extra = JSON.parse(settings);
  }
  setTools(tools, choice) {
    this.recorded.tools = tools.map((tool) => ({ ...tool, parameters: JSON.parse(tool.parameters) }));
    this.recorded.toolChoice = choice.tag === "named" ? { name: choice.val } : choice.tag;
  }
}

/** A message with its text in `content`, and all of it in `parts`. */
function recordedMessage({ role, parts }) {
  const texts = parts.filter(({ tag }) => tag === "text").map(({ val }) => val);
  const written = parts.map(({ tag, val }) => {
    if (tag === "text") return val;
    return tag.startsWith("tool-") ? val : { [tag]: val };
  });
  return { role, content: texts.join("\n\n"), parts: written };
}

const call = ({ id, name, arguments: given = {} }, index) => ({
  id: id ?? `call-${index + 1}`,
  name,
  arguments: typeof given === "string" ? given : JSON.stringify(given),
});

/** The distribution that the host computes from log-probabilities, from the probabilities of the test. */
function distribution(shares, choices) {
  const masses = choices.map((choice) => shares[choice] ?? 0);
  const seen = masses.reduce((sum, mass) => sum + mass, 0);
  if (seen <= 0) return undefined;
  const [first, second = 0] = masses.map((mass) => mass / seen).sort((one, other) => other - one);
  return {
    shares: choices.map((choice, index) => ({ choice, probability: masses[index] / seen })),
    margin: first - second,
    coverage: Math.min(seen, 1),
  };
}

/** The completion resource of the host. */
function completion(given) {
  const { text, structured, toolCalls = [], probabilities, usage = {}, ...rest } =
    typeof given === "string" ? { text: given } : given;
  const calls = toolCalls.map(call);
  const json = structured === undefined ? undefined : JSON.stringify(structured);
  const { inputTokens = 0, outputTokens = 0 } = usage;
  // An answer with probabilities has tokens, too.
  const tokens = probabilities === undefined ? [] : [{ token: text ?? json ?? "", logprob: 0, alternatives: [] }];
  return {
    text: () => text ?? json ?? "",
    structured: () => json,
    finish: () => rest.finish ?? (calls.length > 0 ? "tool-calls" : "stop"),
    usage: () => ({ inputTokens, outputTokens }),
    logprobs: () => rest.logprobs ?? tokens,
    toolCalls: () => calls,
    model: () => rest.model ?? "test",
    fromCache: () => rest.fromCache ?? false,
    probabilities: (choices) => distribution(probabilities ?? {}, choices),
  };
}

function models({ complete, embed }) {
  const absent = () => {
    throw { tag: "not-granted", val: "the test has no model" };
  };
  const answer = ({ recorded }) => completion((complete ?? absent)(recorded));
  return {
    Request,
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
  };
}

function fakes(host) {
  const { seed = 1, runTime = 0, log = () => {} } = host;
  return {
    context: { seed: () => seed, runTime: () => runTime },
    log: { log },
    model: models(host),
    ...readers(host),
    u64: (number) => number,
  };
}

/**
 * Scores of one item: `run(plugin, "my-evaluator", { output: "..." }, { max: 3 })`. Throws the error of
 * the evaluator. `host` may have `seed`, `runTime`, `complete(request)`, `embed(texts)`,
 * `log(level, message, fields)`, `traces`, `sessions` and `runs`.
 */
export async function run(plugin, id, item, config = {}, host = {}) {
  const evaluator = plugin.evaluators.get(id);
  if (evaluator === undefined) throw new TypeError(`unknown evaluator "${id}" of ${plugin.info.name}`);
  const raw = {
    id: item.id ?? "item",
    input: payload(item.input),
    output: payload(item.output),
    expectedOutput: payload(item.expectedOutput),
    metadata: item.metadata === undefined ? undefined : JSON.stringify(item.metadata),
    trace: item.trace,
    session: item.session,
    run: item.run,
  };
  for (const [part, isNeeded] of Object.entries(evaluator.info.needs)) {
    if (!isNeeded) raw[part] = undefined;
  }
  if (!evaluator.info.needs.trace) raw.session = raw.run = undefined;
  const parsed = new Item(raw);
  const returned = await evaluator.evaluate(parsed, config, new Context(fakes(host), evaluator, parsed));
  return asScores(returned, evaluator.scores).map(({ name, value, comment, metadata, observationId }) => ({
    name,
    value: value.val,
    ...(comment === undefined ? {} : { comment }),
    ...(metadata === undefined ? {} : { metadata: JSON.parse(metadata) }),
    ...(observationId === undefined ? {} : { observationId }),
  }));
}

/** The failure class that the server stores for a thrown value, such as `invalid-input`. */
export function failureOf(thrown) {
  return asEvalError(thrown).tag;
}
