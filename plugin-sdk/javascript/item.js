// The item under evaluation, parsed no earlier than it is looked at.

import { nothing, value } from "./bindings.js";
import { InvalidInput } from "./errors.js";

/** The parts an evaluator can ask for. */
export const PARTS = ["input", "output", "expectedOutput", "metadata", "trace"];

/** What is being scored. A part that is absent, or was not asked for, is `undefined`. */
export class Item {
  #raw;
  #values = {};

  /** @param raw the item as the component's bindings hand it over */
  constructor(raw) {
    this.#raw = raw;
  }

  #value(part) {
    if (!(part in this.#values)) this.#values[part] = value(this.#raw[part]);
    return this.#values[part];
  }

  /** For log lines only: a score must not depend on it. */
  get id() {
    return this.#raw.id;
  }

  get input() {
    return this.#value("input");
  }

  get output() {
    return this.#value("output");
  }

  get expectedOutput() {
    return this.#value("expectedOutput");
  }

  /** An object; empty when the item has none. */
  get metadata() {
    if (!("metadata" in this.#values)) {
      const text = this.#raw.metadata;
      this.#values.metadata = nothing(text) ? {} : JSON.parse(text);
    }
    return this.#values.metadata;
  }

  /** Where the recorded execution can be read: `{ traceId, observationId }`. */
  get trace() {
    const trace = this.#raw.trace;
    if (nothing(trace)) return undefined;
    return { traceId: trace.traceId, observationId: trace.observationId ?? undefined };
  }

  /** The id of the session that is scored, for `ctx.session`. */
  get session() {
    return this.#raw.session ?? undefined;
  }

  /** The id of the run of an experiment that is scored, for `ctx.run`. */
  get run() {
    return this.#raw.run ?? undefined;
  }

  /** True when the part is there, be it the JSON value null. */
  has(part) {
    return !nothing(this.#raw[part]);
  }

  /**
   * `input`, `output` or `expectedOutput` as text: a string as it is, anything else as JSON text,
   * written as it was recorded (`1.0` stays `1.0`).
   */
  text(part) {
    const payload = this.#raw[part];
    if (nothing(payload)) throw new InvalidInput(`the item has no ${part}`);
    return part === "metadata" ? payload : payload.val;
  }

  /** The part, or `InvalidInput` when it is absent. */
  required(part) {
    if (nothing(this.#raw[part])) throw new InvalidInput(`the item has no ${part}`);
    return this[part];
  }

  /** `{ tag: "text" | "json", val }` as it crossed the boundary. */
  raw(part) {
    return this.#raw[part] ?? undefined;
  }
}
