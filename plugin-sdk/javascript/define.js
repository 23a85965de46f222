// Definitions of plug-ins and evaluators, checked when the module is loaded (at build time).

import { PARTS } from "./item.js";

const ID = /^[a-z][a-z0-9-]{0,63}$/;
const SLOT = /^[a-z0-9-]{1,64}$/;
const NAME = /^[a-z0-9-]{1,64}\/[a-z0-9-]{1,64}$/;
const VERSION = /^\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?$/;

function check(holds, message) {
  if (!holds) throw new TypeError(message);
}

/** A number; both ends belong to the range. */
export function numeric(description = "", { min, max, higherIsBetter = true } = {}) {
  return { description, domain: { tag: "numeric", val: { min, max, higherIsBetter } } };
}

/** A number from 0 to 1. */
export function share(description = "", { higherIsBetter = true } = {}) {
  return numeric(description, { min: 0, max: 1, higherIsBetter });
}

/** True or false. */
export function boolean(description = "") {
  return { description, domain: { tag: "boolean" } };
}

/** One of a set of texts; without a set, any text of at most 256 bytes. */
export function category(description = "", values = []) {
  return { description, domain: { tag: "categorical", val: [...values] } };
}

function slotsOf(slots, where) {
  return Object.entries(slots ?? {}).map(([name, slot]) => {
    check(SLOT.test(name), `${where}: the name of slot "${name}" must have 1 to 64 characters of a-z, 0-9 and -`);
    const { description = "", kind = "chat", required = true } = slot === true ? {} : slot;
    check(["chat", "embedding"].includes(kind), `${where}: the kind of slot "${name}" must be one of chat, embedding; got "${kind}"`);
    return { name, description, kind, required };
  });
}

function scoresOf(scores, where) {
  return Object.entries(scores ?? {}).map(([name, spec]) => {
    check(spec?.domain, `${where}: score "${name}" must be created by numeric(), share(), boolean() or category()`);
    return { name, ...spec };
  });
}

/**
 * An evaluator from its description and a function, or from a class with the description in static members
 * and a method `evaluate`. The class is instantiated for each item.
 */
export function defineEvaluator(spec) {
  const isClass = typeof spec === "function";
  const where = `evaluator "${spec?.id}"`;
  check(spec && ID.test(spec.id ?? ""), `${where}: the id must have 1 to 64 characters of a-z, 0-9 and -, and begin with a letter`);
  const evaluate = isClass ? spec.prototype.evaluate : spec.evaluate;
  check(typeof evaluate === "function", `${where} must have a function evaluate`);
  for (const part of spec.needs ?? []) {
    check(PARTS.includes(part), `${where}: needs must contain only ${PARTS.join(", ")}; got "${part}"`);
  }
  const scores = scoresOf(spec.scores, where);
  check(scores.length > 0 || spec.dynamicScores, `${where} must declare scores or set dynamicScores`);
  const schema = spec.config ?? { type: "object", additionalProperties: false };
  check(schema.type === "object", `${where}: config must be the JSON Schema of an object`);
  const of = (name) => (isClass ? spec.prototype[name] : spec[name]);
  const method = (name) => {
    if (typeof of(name) !== "function") return undefined;
    return isClass ? (...args) => new spec()[name](...args) : spec[name].bind(spec);
  };
  return Object.freeze({
    id: spec.id,
    evaluate: method("evaluate"),
    evaluateBatch: method("evaluateBatch"),
    checkConfig: method("checkConfig"),
    scores,
    info: {
      id: spec.id,
      title: spec.title ?? spec.id,
      description: spec.description ?? "",
      configSchema: JSON.stringify(schema),
      needs: Object.fromEntries(PARTS.map((part) => [part, (spec.needs ?? ["output"]).includes(part)])),
      slots: slotsOf(spec.slots, where),
      scores,
      dynamicScores: spec.dynamicScores ?? false,
      deterministic: spec.deterministic ?? true,
    },
  });
}

/** The plug-in: the default export of its main module. */
export function definePlugin({ name, version, description = "", evaluators }) {
  check(NAME.test(name ?? ""), `the name of a plug-in must be vendor/name, each 1 to 64 characters of a-z, 0-9 and -; got "${name}"`);
  check(VERSION.test(version ?? ""), `the version of ${name} must be a semantic version such as 0.1.0, got "${version}"`);
  check(Array.isArray(evaluators) && evaluators.length > 0, `${name} must have at least one evaluator`);
  const byId = new Map();
  for (const given of evaluators) {
    const evaluator = given?.info ? given : defineEvaluator(given);
    check(!byId.has(evaluator.id), `duplicate evaluator "${evaluator.id}" in ${name}`);
    byId.set(evaluator.id, evaluator);
  }
  const all = [...byId.values()];
  return Object.freeze({
    evaluators: byId,
    info: { name, version, description, evaluators: all.map((evaluator) => evaluator.info) },
    // The imports and exports that these evaluators require.
    uses: {
      model: all.some(({ info }) => info.slots.length > 0),
      trace: all.some(({ info }) => info.needs.trace),
      batch: all.some(({ evaluateBatch }) => evaluateBatch),
      configCheck: all.some(({ checkConfig }) => checkConfig),
    },
  });
}
