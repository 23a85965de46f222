// Compilation of source text to a function `evaluate`.

import { transform } from "sucrase";

import { DRIVER, drive, lowered } from "./lower.js";

/** An error in the source, with its position. */
export class InvalidSource extends Error {
  constructor(message, line, column) {
    super(message);
    this.line = line;
    this.column = column;
  }
}

const MODULE_WORD = /^[ \t]*(?:import|export)\b/m;
const PLAIN_EXPORT = /^([ \t]*)export(?=[ \t]+(?:async[ \t]+function|function|const|let|var|class)\b)/gm;
const ASYNC_WORD = /\b(?:async|await)\b/;
// `f<T>(x)` has another meaning in JavaScript; other type annotations are syntax errors.
const MAY_BE_GENERIC = /<\s*[A-Za-z_$[{(]/;

/**
 * Removes `export` from declarations without parsing, which is sufficient for most sources. `undefined` when that may be
 * wrong: with template literals, which can contain any text, and other forms of exports.
 */
function withoutExports(source) {
  if (source.includes("`")) return MODULE_WORD.test(source) ? undefined : source;
  const plain = source.replace(PLAIN_EXPORT, "$1");
  return MODULE_WORD.test(plain) ? undefined : plain;
}

/** The error with the position of a message that ends with `(line:column)`. */
function placed(thrown) {
  const position = /\((\d+):(\d+)\)\s*$/.exec(thrown.message);
  const line = thrown.loc?.line ?? (position ? Number(position[1]) : undefined);
  const column = thrown.loc?.column ?? (position ? Number(position[2]) : undefined);
  const message = position ? thrown.message.slice(0, position.index).trim() : thrown.message;
  return new InvalidSource(`SyntaxError: ${message.replace(/^Error transforming [^:]*: /, "")}`, line, column);
}

function transformed(source, transforms) {
  try {
    // The transformation preserves line numbers.
    return transform(source, { transforms: [...transforms, "imports"], disableESTransforms: true }).code;
  } catch (thrown) {
    throw placed(thrown);
  }
}

// On the first line of the source, to preserve line numbers.
const HEAD = `(function (exports, require, ${DRIVER}) { "use strict"; `;
const TAIL = `
;return typeof evaluate === "function" ? evaluate : (exports.evaluate ?? exports.default); })`;

/** The line and column of the innermost frame in the source, from the stack of an error. */
export function place(thrown) {
  const found = /<(?:evalScript|input)>:(\d+):(\d+)/.exec(String(thrown?.stack ?? ""));
  if (!found) return {};
  const [line, column] = [Number(found[1]), Number(found[2])];
  return { line, column: line === 1 ? Math.max(column - HEAD.length, 1) : column };
}

const refuse = (name) => {
  throw new InvalidSource(`unknown module ${JSON.stringify(name)}: sources cannot import modules`);
};

function compile(code) {
  const script = ASYNC_WORD.test(code) ? asyncLowered(code) : code;
  return (0, eval)(HEAD + script + TAIL);
}

function asyncLowered(code) {
  try {
    return lowered(code);
  } catch (thrown) {
    throw placed(thrown);
  }
}

function compiled(source, language) {
  const plain = withoutExports(source);
  const mayBePlain = language === "javascript" || !MAY_BE_GENERIC.test(source);
  if (plain !== undefined && mayBePlain) {
    try {
      return compile(plain);
    } catch (thrown) {
      if (language === "javascript" || !(thrown instanceof SyntaxError || thrown instanceof InvalidSource)) throw thrown;
    }
  }
  return compile(transformed(source, language === "typescript" ? ["typescript"] : []));
}

/** The function `evaluate` of `source`; throws `InvalidSource`, or what the module itself throws. */
export function evaluateOf(source, language) {
  let make;
  try {
    make = compiled(source, language);
  } catch (thrown) {
    if (thrown instanceof InvalidSource) throw thrown;
    const { line, column } = place(thrown);
    throw new InvalidSource(`${thrown.name}: ${thrown.message}`, line, column);
  }
  const evaluate = make({}, refuse, drive);
  if (typeof evaluate !== "function") {
    throw new InvalidSource("the source must export a function evaluate: export function evaluate(ctx) { ... }");
  }
  return evaluate;
}
