// What an evaluator returns, in the shape of the contract.

import { EvalError } from "./errors.js";

function wrong(message) {
  return new EvalError("internal", message);
}

function valueOf(name, value) {
  switch (typeof value) {
    case "number":
      return { tag: "numeric", val: value };
    case "bigint":
      return { tag: "numeric", val: Number(value) };
    case "boolean":
      return { tag: "boolean", val: value };
    case "string":
      return { tag: "categorical", val: value };
    default:
      throw wrong(`score "${name}" is neither number, boolean nor text: ${shown(value)}`);
  }
}

function shown(value) {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function score(name, given) {
  if (typeof name !== "string") throw wrong(`a score has no name: ${shown(given)}`);
  if (!isRecord(given)) return { name, value: valueOf(name, given) };
  const { value, comment, metadata, observationId } = given;
  if (metadata !== undefined && metadata !== null && !isRecord(metadata)) {
    throw wrong(`metadata of score "${name}" is no object`);
  }
  return {
    name,
    value: valueOf(name, value),
    observationId: observationId ?? undefined,
    comment: comment === undefined || comment === null ? undefined : String(comment),
    metadata: isRecord(metadata) ? JSON.stringify(metadata) : undefined,
  };
}

/**
 * `null` and `undefined` are "nothing to report". With one declared score its value alone will do; else an
 * object from names to values, or a list of `{ name, value, ... }`.
 */
export function asScores(returned, declared) {
  if (returned === null || returned === undefined) return [];
  if (Array.isArray(returned)) return returned.map((entry) => score(entry?.name, entry));
  const only = declared.length === 1 ? declared[0].name : undefined;
  if (!isRecord(returned)) {
    if (only === undefined) {
      throw wrong(`evaluate returned ${shown(returned)} and has not exactly one score; return { name: value }`);
    }
    return [score(only, returned)];
  }
  if (typeof returned.name === "string" && "value" in returned) return [score(returned.name, returned)];
  if (only !== undefined && "value" in returned && !(only in returned)) return [score(only, returned)];
  // A score that is null is left out: there was nothing to measure.
  return Object.entries(returned)
    .filter(([, given]) => given !== null && given !== undefined && given?.value !== null)
    .map(([name, given]) => score(name, given));
}
