// What an evaluator can ask of the host, over the bindings of the component.

import { EvalError, ModelError, TraceError } from "./errors.js";

const json = (value) => (value === undefined || value === null ? undefined : JSON.stringify(value));
const parsed = (text) => (text === undefined || text === null ? undefined : JSON.parse(text));
const value = (payload) => {
  if (payload === undefined || payload === null) return undefined;
  return payload.tag === "text" ? payload.val : JSON.parse(payload.val);
};

// The engines hand a failed call over in different wrappings.
function errorOf(Class, thrown) {
  const variant = thrown?.payload ?? thrown;
  return typeof variant?.tag === "string" ? new Class(variant.tag, variant.val) : thrown;
}

function asking(Class, call) {
  try {
    return call();
  } catch (thrown) {
    throw errorOf(Class, thrown);
  }
}

function request(given, bindings) {
  const { messages, prompt, system, schema, slot, extra, seed, cache = "standard", stop = [] } =
    typeof given === "string" ? { prompt: given } : given;
  const asked = messages ? [...messages] : [];
  if (system !== undefined) asked.unshift({ role: "system", content: system });
  if (prompt !== undefined) asked.push({ role: "user", content: prompt });
  return {
    slot,
    messages: asked.map(({ role, content }) => ({ role, content: String(content) })),
    responseSchema: json(schema),
    temperature: given.temperature,
    topP: given.topP,
    maxOutputTokens: given.maxOutputTokens,
    seed: seed === undefined ? undefined : bindings.u64(seed),
    stop,
    topLogprobs: given.topLogprobs,
    cache,
    extra: json(extra),
  };
}

function completion(answer) {
  const { text, structured, finish, usage, logprobs, model, fromCache } = answer;
  return {
    text,
    structured: parsed(structured),
    finish,
    usage: { inputTokens: Number(usage.inputTokens), outputTokens: Number(usage.outputTokens) },
    logprobs,
    model,
    fromCache,
  };
}

/** `ctx.model`: models, named by the slots that the evaluator declares. */
function models(bindings) {
  const { model } = bindings;
  return {
    /** One chat completion; throws `ModelError`. */
    complete: (given) => asking(ModelError, () => completion(model.complete(request(given, bindings)))),
    /** Many at once, answered in order as `Promise.allSettled` would. */
    completeAll(requests) {
      const answers = model.completeAll(requests.map((given) => request(given, bindings)));
      return answers.map((answer) =>
        answer.tag === "ok"
          ? { status: "fulfilled", value: completion(answer.val) }
          : { status: "rejected", reason: errorOf(ModelError, answer.val) },
      );
    },
    /** One vector per text. */
    embed(texts, { slot } = {}) {
      const vectors = asking(ModelError, () => model.embed(slot, [...texts]));
      return vectors.map((vector) => Array.from(vector));
    },
  };
}

/** `ctx.trace`: the recorded execution behind the item, read piece by piece. */
function traces(bindings, item) {
  const { traceReader } = bindings;
  const id = () => {
    const trace = item.trace;
    if (trace === undefined) throw new TraceError("not-found", "the item has no trace");
    return trace.traceId;
  };
  const reading = (call) => asking(TraceError, call);
  const number = (time) => (time === undefined || time === null ? undefined : Number(time));
  const head = (observation) => ({
    ...observation,
    start: number(observation.start),
    end: number(observation.end),
    inputTokens: number(observation.inputTokens),
    outputTokens: number(observation.outputTokens),
    inputSize: number(observation.inputSize),
    outputSize: number(observation.outputSize),
  });
  return {
    get() {
      const trace = reading(() => traceReader.getTrace(id()));
      return { ...trace, start: number(trace.start), metadata: parsed(trace.metadata) };
    },
    /** Observations by start; pages are fetched as they are walked over. */
    *observations({ parentId, kinds = [], name, pageSize = 100 } = {}) {
      let cursor;
      do {
        const filter = { parentId, kinds: [...kinds], name };
        const page = reading(() => traceReader.listObservations(id(), filter, cursor, pageSize));
        for (const observation of page.observations) yield head(observation);
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined);
    },
    input: (observationId) => value(reading(() => traceReader.readInput(id(), observationId))),
    output: (observationId) => value(reading(() => traceReader.readOutput(id(), observationId))),
    metadata: (observationId) => parsed(reading(() => traceReader.readMetadata(id(), observationId))),
  };
}

function missing(evaluator, what, declare) {
  throw new EvalError("internal", `evaluator "${evaluator.id}" uses ${what} and does not declare it: add ${declare}`);
}

/** A generator of numbers from 0 to 1 (mulberry32): equal seeds give equal numbers on every engine. */
export function seeded(seed) {
  let state = (seed ^ (seed / 4_294_967_296)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** One line of the evaluation's log per level. */
export function logger(bindings) {
  const line = (level) => (message, fields) => bindings.log.log(level, String(message), json(fields));
  return { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };
}

/** The third argument of `evaluate`. */
export class Context {
  #bindings;
  #evaluator;
  #item;
  #kept = {};

  constructor(bindings, evaluator, item) {
    this.#bindings = bindings;
    this.#evaluator = evaluator;
    this.#item = item;
  }

  #once(name, make) {
    if (!(name in this.#kept)) this.#kept[name] = make();
    return this.#kept[name];
  }

  /** A number below 2^53 made from the plug-in, the evaluator, its configuration and the item. */
  get seed() {
    return this.#once("seed", () => Number(this.#bindings.context.seed()) % 2 ** 53);
  }

  /** When the run started, in milliseconds since 1970. The clock stands still at this moment. */
  get runTime() {
    return Number(this.#bindings.context.runTime());
  }

  get log() {
    return this.#once("log", () => logger(this.#bindings));
  }

  get model() {
    if (this.#evaluator.info.slots.length === 0) missing(this.#evaluator, "ctx.model", "slots: { judge: {} }");
    return this.#once("model", () => models(this.#bindings));
  }

  get trace() {
    if (!this.#evaluator.info.needs.trace) missing(this.#evaluator, "ctx.trace", '"trace" to needs');
    return this.#once("trace", () => traces(this.#bindings, this.#item));
  }
}
