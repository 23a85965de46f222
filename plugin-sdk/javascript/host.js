// The functions of the host for evaluators, implemented by the bindings of the component.

import { models } from "./completions.js";
import { json } from "./bindings.js";
import { EvalError } from "./errors.js";
import { runs, sessions, traces } from "./reading.js";

function missing(evaluator, what, declare) {
  throw new EvalError("internal", `evaluator "${evaluator.id}" uses ${what} without declaring it: add ${declare}`);
}

/** A generator of numbers from 0 to 1 (mulberry32). Equal seeds generate equal numbers on every engine. */
export function seeded(seed) {
  let state = (seed ^ (seed / 4_294_967_296)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The functions of the log, one for each level. */
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

  /** A number below 2^53, derived from the plug-in, the evaluator, its configuration and the item. */
  get seed() {
    return this.#once("seed", () => Number(this.#bindings.context.seed()) % 2 ** 53);
  }

  /** The start time of the run in milliseconds since 1970. Clocks always return this time. */
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

  #recorded(name, make) {
    if (!this.#evaluator.info.needs.trace) missing(this.#evaluator, `ctx.${name}`, '"trace" to needs');
    return this.#once(name, () => make(this.#bindings, this.#item));
  }

  get trace() {
    return this.#recorded("trace", traces);
  }

  get session() {
    return this.#recorded("session", sessions);
  }

  get run() {
    return this.#recorded("run", runs);
  }
}
