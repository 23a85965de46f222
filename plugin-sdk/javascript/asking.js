// Requests to models and their answers.
//
// Both are resources of the contract, which is nobody's business but this module's: a request is made when it is
// sent, and of an answer all is taken at once. An answer is kept in the host only where there is more to ask of it.

import { asking, errorOf, json, nothing, parsed } from "./bindings.js";
import { ModelError } from "./errors.js";

const MAX_AT_ONCE = 64;
const ROLES = ["system", "user", "assistant", "tool"];
const CACHE_MODES = ["standard", "refresh", "bypass"];
const TOOL_CHOICES = ["auto", "required", "none"];

const wrong = (message) => new ModelError("invalid-request", message);
const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const asText = (value) => (typeof value === "string" ? value : (JSON.stringify(value) ?? String(value)));

function one(name, value, names) {
  if (!names.includes(value)) throw wrong(`${name} ${asText(value)} is none of ${names.join(", ")}`);
  return value;
}

function whole(name, value, max) {
  const number = Number(value);
  if (!Number.isInteger(number) || number < 0 || number > max) {
    throw wrong(`${name} is ${asText(value)}, whole numbers from 0 to ${max} are possible`);
  }
  return number;
}

/** The model asks for a tool to be used. */
export class ToolCall {
  constructor({ id, name, arguments: text }) {
    this.id = id;
    this.name = name;
    this.arguments = text;
  }

  /** The arguments as an object. They need not fit the schema of the tool, nor be JSON: then it throws. */
  read() {
    let value;
    try {
      value = JSON.parse(this.arguments.trim() || "{}");
    } catch (thrown) {
      throw new TypeError(`the arguments of ${this.name} cannot be read: ${thrown.message}`);
    }
    if (!isRecord(value)) throw new TypeError(`the arguments of ${this.name} are no JSON object`);
    return value;
  }

  /** What the tool found: text, or a value that the model reads as JSON. */
  result(content) {
    return { callId: this.id, content: asText(content), isError: false };
  }

  /** Why the tool found nothing. */
  failed(why) {
    return { callId: this.id, content: why instanceof Error ? why.message : asText(why), isError: true };
  }
}

function part(given) {
  if (!isRecord(given)) return { tag: "text", val: asText(given) };
  for (const kind of ["text", "image", "audio", "file"]) {
    if (typeof given[kind] === "string") return { tag: kind, val: given[kind] };
  }
  if (typeof given.callId === "string") {
    const { callId, content, isError = false } = given;
    return { tag: "tool-result", val: { callId, content: asText(content), isError } };
  }
  if (typeof given.name === "string" && !nothing(given.arguments)) {
    const { id, name } = given;
    return { tag: "tool-call", val: { id: String(id ?? ""), name, arguments: asText(given.arguments) } };
  }
  throw wrong(`a part of a message is text, { image }, { audio }, { file }, a tool call or a tool result, not ${asText(given)}`);
}

function message({ role, content }) {
  const parts = Array.isArray(content) ? content : [content];
  return { role: one("the role", role, ROLES), parts: parts.map(part) };
}

function toolChoice(given) {
  if (typeof given?.name === "string") return { tag: "named", val: given.name };
  return { tag: one("toolChoice", given, TOOL_CHOICES) };
}

function request(given, bindings) {
  const wanted = typeof given === "string" ? { prompt: given } : given;
  const { messages, prompt, system, cache = "standard", tools = [], toolChoice: choice = "auto" } = wanted;
  const said = messages ? [...messages] : [];
  if (!nothing(system)) said.unshift({ role: "system", content: system });
  if (!nothing(prompt)) said.push({ role: "user", content: prompt });
  const chosen = toolChoice(choice);
  one("cache", cache, CACHE_MODES);
  const made = new bindings.model.Request(said.map(message));
  const set = (name, apply) => {
    if (!nothing(wanted[name])) apply(wanted[name]);
  };
  set("slot", (slot) => made.setSlot(slot));
  set("schema", (schema) => made.setResponseSchema(json(schema)));
  set("temperature", (temperature) => made.setTemperature(Number(temperature)));
  set("topP", (topP) => made.setTopP(Number(topP)));
  set("maxOutputTokens", (limit) => made.setMaxOutputTokens(whole("maxOutputTokens", limit, 2 ** 32 - 1)));
  set("seed", (seed) => made.setSeed(bindings.u64(whole("seed", seed, Number.MAX_SAFE_INTEGER))));
  set("topLogprobs", (alternatives) => made.setTopLogprobs(whole("topLogprobs", alternatives, 255)));
  set("extra", (extra) => made.setExtra(json(extra)));
  if (wanted.stop?.length > 0) made.setStop([...wanted.stop]);
  if (cache !== "standard") made.setCache(cache);
  if (tools.length > 0 || chosen.tag !== "auto") {
    const offered = tools.map(({ name, description = "", parameters = { type: "object" } }) => ({
      name,
      description,
      parameters: json(parameters),
    }));
    made.setTools(offered, chosen);
  }
  return made;
}

/** Bytes of a text in UTF-8, which the contract counts in. */
function bytes(text) {
  let count = 0;
  for (const character of text) {
    const code = character.codePointAt(0);
    count += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return count;
}

/** What a model answered. */
class Completion {
  #held;
  #u64;

  constructor(held, u64) {
    const usage = held.usage();
    this.text = held.text();
    this.structured = parsed(held.structured());
    this.finish = held.finish();
    this.usage = { inputTokens: Number(usage.inputTokens), outputTokens: Number(usage.outputTokens) };
    this.logprobs = held.logprobs();
    this.toolCalls = held.toolCalls().map((call) => new ToolCall(call));
    this.model = held.model();
    this.fromCache = held.fromCache();
    this.#u64 = u64;
    if (this.logprobs.length > 0) this.#held = held;
    else held[Symbol.dispose]?.();
  }

  /** What the model said, for the next request of the conversation. */
  get message() {
    const isSaid = this.text !== "" || this.toolCalls.length === 0;
    return { role: "assistant", content: [...(isSaid ? [this.text] : []), ...this.toolCalls] };
  }

  /** How probable each choice was that could have stood at the place. */
  probabilities(choices, place) {
    if (this.#held === undefined) return undefined;
    let at = { tag: "whole" };
    if (typeof place === "string") at = { tag: "member", val: place };
    else if (!nothing(place)) at = { tag: "offset", val: this.#u64(bytes(this.text.slice(0, place.offset))) };
    const found = this.#held.probabilities(choices.map(String), at);
    if (nothing(found)) return undefined;
    const shares = found.shares.map(({ choice, probability }) => [choice, probability]);
    return { shares: Object.fromEntries(shares), margin: found.margin, coverage: found.coverage };
  }
}

/** `ctx.model`: models, named by the slots that the evaluator declares. */
export function models(bindings) {
  const { model, u64 } = bindings;
  const completion = (held) => new Completion(held, u64);
  return {
    /** One chat completion; throws `ModelError`. */
    complete(given) {
      const made = request(given, bindings);
      return completion(asking(ModelError, () => model.complete(made)));
    },
    /** Many at once, answered in order as `Promise.allSettled` would. */
    completeAll(requests) {
      if (requests.length > MAX_AT_ONCE) {
        // Each is a handle, and the host ends a call that holds too many of them.
        throw wrong(`${requests.length} requests, at most ${MAX_AT_ONCE} are possible at once`);
      }
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
