// Requests to models and their answers.
//
// Both are resources of the contract, which only this module uses: a request is created when it is sent, and an answer is
// read at once. The host keeps an answer only if it has log-probabilities.

import { hostCall, errorOf, json, nothing, parsed } from "./bindings.js";
import { ModelError } from "./errors.js";

const MAX_AT_ONCE = 64;
const ROLES = ["system", "user", "assistant", "tool"];
const CACHE_MODES = ["standard", "refresh", "bypass"];
const TOOL_CHOICES = ["auto", "required", "none"];

const wrong = (message) => new ModelError("invalid-request", message);
const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const asText = (value) => (typeof value === "string" ? value : (JSON.stringify(value) ?? String(value)));

function one(name, value, names) {
  if (!names.includes(value)) throw wrong(`${name} must be one of ${names.join(", ")}; got ${asText(value)}`);
  return value;
}

function whole(name, value, max) {
  const number = Number(value);
  if (!Number.isInteger(number) || number < 0 || number > max) {
    throw wrong(`${name} must be an integer from 0 to ${max}, got ${asText(value)}`);
  }
  return number;
}

/** A call of a tool by the model. */
export class ToolCall {
  constructor({ id, name, arguments: text }) {
    this.id = id;
    this.name = name;
    this.arguments = text;
  }

  /** The arguments as an object. Throws when they are not a JSON object; they may violate the schema of the tool. */
  read() {
    let value;
    try {
      value = JSON.parse(this.arguments.trim() || "{}");
    } catch (thrown) {
      throw new TypeError(`invalid arguments of ${this.name}: ${thrown.message}`);
    }
    if (!isRecord(value)) throw new TypeError(`the arguments of ${this.name} must be a JSON object`);
    return value;
  }

  /** The result of the tool: text, or a value that the model reads as JSON. */
  result(content) {
    return { callId: this.id, content: asText(content), isError: false };
  }

  /** The result of a failed tool. */
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
  throw wrong(`a part of a message must be text, { image }, { audio }, { file }, a tool call or a tool result; got ${asText(given)}`);
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
  const options = typeof given === "string" ? { prompt: given } : given;
  const { messages, prompt, system, cache = "standard", tools = [], toolChoice: choice = "auto" } = options;
  const conversation = messages ? [...messages] : [];
  if (!nothing(system)) conversation.unshift({ role: "system", content: system });
  if (!nothing(prompt)) conversation.push({ role: "user", content: prompt });
  const chosen = toolChoice(choice);
  one("cache", cache, CACHE_MODES);
  const resource = new bindings.model.Request(conversation.map(message));
  const set = (name, apply) => {
    if (!nothing(options[name])) apply(options[name]);
  };
  set("slot", (slot) => resource.setSlot(slot));
  set("schema", (schema) => resource.setResponseSchema(json(schema)));
  set("temperature", (temperature) => resource.setTemperature(Number(temperature)));
  set("topP", (topP) => resource.setTopP(Number(topP)));
  set("maxOutputTokens", (limit) => resource.setMaxOutputTokens(whole("maxOutputTokens", limit, 2 ** 32 - 1)));
  set("seed", (seed) => resource.setSeed(bindings.u64(whole("seed", seed, Number.MAX_SAFE_INTEGER))));
  set("topLogprobs", (alternatives) => resource.setTopLogprobs(whole("topLogprobs", alternatives, 255)));
  set("extra", (extra) => resource.setExtra(json(extra)));
  if (options.stop?.length > 0) resource.setStop([...options.stop]);
  if (cache !== "standard") resource.setCache(cache);
  if (tools.length > 0 || chosen.tag !== "auto") {
    const definitions = tools.map(({ name, description = "", parameters = { type: "object" } }) => ({
      name,
      description,
      parameters: json(parameters),
    }));
    resource.setTools(definitions, chosen);
  }
  return resource;
}

/** The length of a text in UTF-8, the unit of the contract. */
function bytes(text) {
  let count = 0;
  for (const character of text) {
    const code = character.codePointAt(0);
    count += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return count;
}

/** The answer of a model. */
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

  /** The message of the model, for the next request of the conversation. */
  get message() {
    const hasText = this.text !== "" || this.toolCalls.length === 0;
    return { role: "assistant", content: [...(hasText ? [this.text] : []), ...this.toolCalls] };
  }

  /** The probability of each choice at the place. */
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

/** `ctx.model`: the models of the declared slots. */
export function models(bindings) {
  const { model, u64 } = bindings;
  const completion = (held) => new Completion(held, u64);
  return {
    /** One chat completion; throws `ModelError`. */
    complete(given) {
      const resource = request(given, bindings);
      return completion(hostCall(ModelError, () => model.complete(resource)));
    },
    /** Many requests concurrently; the results have the order of the requests and the form of `Promise.allSettled`. */
    completeAll(requests) {
      if (requests.length > MAX_AT_ONCE) {
        // Each is a handle, and the host ends a call with too many handles.
        throw wrong(`completeAll must have at most ${MAX_AT_ONCE} requests, got ${requests.length}`);
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
      const vectors = hostCall(ModelError, () => model.embed(slot, [...texts]));
      return vectors.map((vector) => Array.from(vector));
    },
  };
}
