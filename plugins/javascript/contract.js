// What a code evaluator is given and may return: the contract that sources written for other products'
// code evaluators follow.

/** A failure with its code, as people know it. */
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

/** Bytes of a text in UTF-8, counted no further than needed to know whether they are more than `limit`. */
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

/** `ctx`: the observation, and the experiment where there is one. */
export function contextOf(item) {
  const { "perpend.tool_calls": toolCalls, "perpend.item_metadata": itemMetadata, ...metadata } = item.metadata;
  const observation = { input: item.input, output: item.output, metadata, toolCalls: toolCalls ?? [] };
  if (!item.has("expectedOutput") && itemMetadata === undefined) return { observation };
  return { observation, experiment: { itemExpectedOutput: item.expectedOutput, itemMetadata } };
}

function shown(value) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch {
    // It refers to itself.
  }
  text ??= String(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}

const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

const wrong = (message) => new Failure("INVALID_RESULT", message);

function numeric(value, at) {
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw wrong(`${at}.value is ${typeof value === "number" ? value : shown(value)}, a NUMERIC score is a finite number`);
  }
  return value;
}

function categorical(value, at) {
  if (typeof value !== "string") throw wrong(`${at}.value is ${shown(value)}, a CATEGORICAL score is a text`);
  if (exceeds(value, MAX_CATEGORY_BYTES)) throw wrong(`${at}.value is longer than ${MAX_CATEGORY_BYTES} bytes`);
  return value;
}

function boolean(value, at) {
  const word = typeof value === "string" ? value.toLowerCase() : String(value);
  if (["string", "number", "boolean"].includes(typeof value)) {
    if (TRUE.has(word)) return true;
    if (FALSE.has(word)) return false;
  }
  throw wrong(`${at}.value is ${shown(value)}, a BOOLEAN score is true, false, 1 or 0`);
}

function text(value, at) {
  if (typeof value !== "string" || value.length === 0 || value.length > MAX_TEXT) {
    throw wrong(`${at}.value is ${shown(value)}, a TEXT score has 1 to ${MAX_TEXT} characters`);
  }
  return categorical(value, at);
}

const TYPES = { NUMERIC: numeric, CATEGORICAL: categorical, BOOLEAN: boolean, TEXT: text };

/** The type that a value without one has. */
function typeOf(value, at) {
  const type = { number: "NUMERIC", string: "CATEGORICAL", boolean: "BOOLEAN" }[typeof value];
  if (type === undefined) throw wrong(`${at}.value is ${shown(value)}, a score is a number, a text or a boolean`);
  return type;
}

function score(given, index) {
  const at = `scores[${index}]`;
  if (!isRecord(given)) throw wrong(`${at} is ${shown(given)}, not an object with name and value`);
  const { name, value, dataType, comment, configId, metadata } = given;
  if (typeof name !== "string" || name.trim() === "") throw wrong(`${at}.name is ${shown(name)}, a name is a text`);
  const type = dataType ?? typeOf(value, at);
  if (!Object.hasOwn(TYPES, type)) {
    throw wrong(`${at}.dataType is ${shown(dataType)}; use ${Object.keys(TYPES).join(", ")}`);
  }
  if (comment !== undefined && comment !== null && typeof comment !== "string") {
    throw wrong(`${at}.comment is ${shown(comment)}, a comment is a text`);
  }
  if (configId !== undefined && configId !== null && typeof configId !== "string") {
    throw wrong(`${at}.configId is ${shown(configId)}, a score config's id is a text`);
  }
  if (metadata !== undefined && metadata !== null && !isRecord(metadata)) {
    throw wrong(`${at}.metadata is ${shown(metadata)}, metadata is an object`);
  }
  return {
    name,
    value: TYPES[type](value, at),
    comment,
    metadata: configId ? { ...metadata, configId } : metadata,
  };
}

/** The scores of what `evaluate` returned. */
export function scoresOf(returned) {
  if (!isRecord(returned) || !Array.isArray(returned.scores)) {
    throw wrong(`evaluate returned ${shown(returned)}, not { scores: [...] }`);
  }
  let text;
  try {
    text = JSON.stringify(returned) ?? "";
  } catch (thrown) {
    throw wrong(`what evaluate returned is no JSON: ${thrown.message}`);
  }
  if (exceeds(text, MAX_RESULT_BYTES)) {
    throw new Failure("RESULT_TOO_LARGE", `what evaluate returned is larger than ${MAX_RESULT_BYTES >> 10} KB`);
  }
  return returned.scores.map(score);
}
