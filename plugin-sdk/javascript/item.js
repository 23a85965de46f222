// The item under evaluation. Its parts are parsed on first access.

import { nothing, value } from "./bindings.js";
import { InvalidInput } from "./errors.js";

/** The parts of an item. */
export const PARTS = ["input", "output", "expectedOutput", "metadata", "trace"];

/** The item that is scored. A part that is absent or not in `needs` is `undefined`. */
export class Item {
  #raw;
  #values = {};

  /** @param raw the item of the bindings */
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

  /** The reference to the recorded execution: `{ traceId, observationId }`. */
  get trace() {
    const trace = this.#raw.trace;
    if (nothing(trace)) return undefined;
    return { traceId: trace.traceId, observationId: trace.observationId ?? undefined };
  }

  /** The id of the scored session, for `ctx.session`. */
  get session() {
    return this.#raw.session ?? undefined;
  }

  /** The id of the scored run of an experiment, for `ctx.run`. */
  get run() {
    return this.#raw.run ?? undefined;
  }

  /** True when the part is present, including the JSON value null. */
  has(part) {
    return !nothing(this.#raw[part]);
  }

  /**
   * A part as text: a string unchanged, any other value as its recorded JSON text (`1.0` stays `1.0`).
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

  /** The payload of the bindings: `{ tag: "text" | "json", val }`. */
  raw(part) {
    return this.#raw[part] ?? undefined;
  }
}
