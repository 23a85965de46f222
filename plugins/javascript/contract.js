// The contract of code evaluators: the argument and the result of `evaluate`. It is compatible with sources for code
// evaluators of other products.

/** A failure with its code. */
export class Failure extends Error {
  constructor(code, message) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

const MAX_RESULT_BYTES = 256 << 10;
const MAX_TEXT = 500;
const MAX_CATEGORY_BYTES = 256;
const TRUE = new Set(["true", "1"]);
const FALSE = new Set(["false", "0"]);

/** Whether a text has more than `limit` bytes in UTF-8. */
export function exceeds(text, limit) {
  if (text.length > limit) return true;
  if (text.length * 3 <= limit) return false;
  let bytes = 0;
  for (const character of text) {
    const code = character.codePointAt(0);
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (bytes > limit) return true;
  }
  return false;
}

/** `ctx`: the observation, and the experiment if there is one. */
export function contextOf(item) {
  const { "perpend.tool_calls": toolCalls, "perpend.item_metadata": itemMetadata, ...metadata } = item.metadata;
  const observation = { input: item.input, output: item.output, metadata, toolCalls: toolCalls ?? [] };
  if (!item.has("expectedOutput") && itemMetadata === undefined) return { observation };
  return { observation, experiment: { itemExpectedOutput: item.expectedOutput, itemMetadata } };
}

function display(value) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch {
    // A cyclic value.
  }
  text ??= String(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}

const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const wrong = (message) => new Failure("INVALID_RESULT", message);

function numeric(value, at) {
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw wrong(`${at}.value of a NUMERIC score must be a finite number, got ${typeof value === "number" ? value : display(value)}`);
  }
  return value;
}

function categorical(value, at) {
  if (typeof value !== "string") throw wrong(`${at}.value of a CATEGORICAL score must be a text, got ${display(value)}`);
  if (exceeds(value, MAX_CATEGORY_BYTES)) throw wrong(`${at}.value must have at most ${MAX_CATEGORY_BYTES} bytes`);
  return value;
}

function boolean(value, at) {
  const word = typeof value === "string" ? value.toLowerCase() : String(value);
  if (["string", "number", "boolean"].includes(typeof value)) {
    if (TRUE.has(word)) return true;
    if (FALSE.has(word)) return false;
  }
  throw wrong(`${at}.value of a BOOLEAN score must be true, false, 1 or 0, got ${display(value)}`);
}

function text(value, at) {
  if (typeof value !== "string" || value.length === 0 || value.length > MAX_TEXT) {
    throw wrong(`${at}.value of a TEXT score must have 1 to ${MAX_TEXT} characters, got ${display(value)}`);
  }
  return categorical(value, at);
}

const TYPES = { NUMERIC: numeric, CATEGORICAL: categorical, BOOLEAN: boolean, TEXT: text };

/** The default data type of a value. */
function typeOf(value, at) {
  const type = { number: "NUMERIC", string: "CATEGORICAL", boolean: "BOOLEAN" }[typeof value];
  if (type === undefined) throw wrong(`${at}.value must be a number, a text or a boolean, got ${display(value)}`);
  return type;
}

function score(given, index) {
  const at = `scores[${index}]`;
  if (!isRecord(given)) throw wrong(`${at} must be an object with name and value, got ${display(given)}`);
  const { name, value, dataType, comment, configId, metadata } = given;
  if (typeof name !== "string" || name.trim() === "") throw wrong(`${at}.name must be a non-empty text, got ${display(name)}`);
  const type = dataType ?? typeOf(value, at);
  if (!Object.hasOwn(TYPES, type)) {
    throw wrong(`${at}.dataType must be one of ${Object.keys(TYPES).join(", ")}; got ${display(dataType)}`);
  }
  if (comment !== undefined && comment !== null && typeof comment !== "string") {
    throw wrong(`${at}.comment must be a text, got ${display(comment)}`);
  }
  if (configId !== undefined && configId !== null && typeof configId !== "string") {
    throw wrong(`${at}.configId must be a text, got ${display(configId)}`);
  }
  if (metadata !== undefined && metadata !== null && !isRecord(metadata)) {
    throw wrong(`${at}.metadata must be an object, got ${display(metadata)}`);
  }
  return {
    name,
    value: TYPES[type](value, at),
    comment,
    metadata: configId ? { ...metadata, configId } : metadata,
  };
}

/** The scores in the result of `evaluate`. */
export function scoresOf(returned) {
  if (!isRecord(returned) || !Array.isArray(returned.scores)) {
    throw wrong(`evaluate must return { scores: [...] }, got ${display(returned)}`);
  }
  let text;
  try {
    text = JSON.stringify(returned) ?? "";
  } catch (thrown) {
    throw wrong(`the result of evaluate is not JSON: ${thrown.message}`);
  }
  if (exceeds(text, MAX_RESULT_BYTES)) {
    throw new Failure("RESULT_TOO_LARGE", `the result of evaluate must have at most ${MAX_RESULT_BYTES >> 10} KB`);
  }
  return returned.scores.map(score);
}
