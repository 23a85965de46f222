// The result of an evaluator as scores of the contract.

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
      throw wrong(`score "${name}" must be a number, a boolean or a text, got ${display(value)}`);
  }
}

function display(value) {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function score(name, given) {
  if (typeof name !== "string") throw wrong(`a score must have a name, got ${display(given)}`);
  if (!isRecord(given)) return { name, value: valueOf(name, given) };
  const { value, comment, metadata, observationId } = given;
  if (metadata !== undefined && metadata !== null && !isRecord(metadata)) {
    throw wrong(`metadata of score "${name}" must be an object`);
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
 * The scores of a result: none for `null` and `undefined`; the only declared score for a value; otherwise an object
 * of names and values, or a list of `{ name, value, ... }`.
 */
export function asScores(returned, declared) {
  if (returned === null || returned === undefined) return [];
  if (Array.isArray(returned)) return returned.map((entry) => score(entry?.name, entry));
  const only = declared.length === 1 ? declared[0].name : undefined;
  if (!isRecord(returned)) {
    if (only === undefined) {
      throw wrong(`a value without a name requires exactly one declared score, got ${display(returned)}; return { name: value }`);
    }
    return [score(only, returned)];
  }
  if (typeof returned.name === "string" && "value" in returned) return [score(returned.name, returned)];
  if (only !== undefined && "value" in returned && !(only in returned)) return [score(only, returned)];
  // A score that is null is omitted: there is nothing to measure.
  return Object.entries(returned)
    .filter(([, given]) => given !== null && given !== undefined && given?.value !== null)
    .map(([name, given]) => score(name, given));
}
