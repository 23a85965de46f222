// Source text to a function `evaluate`.

import { transform } from "sucrase";

import { DRIVER, drive, lowered } from "./lower.js";

/** The source is none: what it says, and where. */
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
// `f<T>(x)` means something else in JavaScript; every other type annotation is no JavaScript at all.
const MAY_BE_GENERIC = /<\s*[A-Za-z_$[{(]/;

/**
 * Exported declarations as plain ones, without parsing: most sources are a few functions. `undefined` where
 * that is not certain to be right: a template literal may hold anything, and other exports need more.
 */
function withoutExports(source) {
  if (source.includes("`")) return MODULE_WORD.test(source) ? undefined : source;
  const plain = source.replace(PLAIN_EXPORT, "$1");
  return MODULE_WORD.test(plain) ? undefined : plain;
}

/** Where a library's message says `(line:column)`. */
function placed(thrown) {
  const said = /\((\d+):(\d+)\)\s*$/.exec(thrown.message);
  const line = thrown.loc?.line ?? (said ? Number(said[1]) : undefined);
  const column = thrown.loc?.column ?? (said ? Number(said[2]) : undefined);
  const message = said ? thrown.message.slice(0, said.index).trim() : thrown.message;
  return new InvalidSource(`SyntaxError: ${message.replace(/^Error transforming [^:]*: /, "")}`, line, column);
}

function transformed(source, transforms) {
  try {
    // The same lines stay the same lines.
    return transform(source, { transforms: [...transforms, "imports"], disableESTransforms: true }).code;
  } catch (thrown) {
    throw placed(thrown);
  }
}

// Before the source on its first line, so that lines are the author's.
const HEAD = `(function (exports, require, ${DRIVER}) { "use strict"; `;
const TAIL = `
;return typeof evaluate === "function" ? evaluate : (exports.evaluate ?? exports.default); })`;

/** The line and column of the innermost place in the source, from an error's stack. */
export function place(thrown) {
  const found = /<(?:evalScript|input)>:(\d+):(\d+)/.exec(String(thrown?.stack ?? ""));
  if (!found) return {};
  const [line, column] = [Number(found[1]), Number(found[2])];
  return { line, column: line === 1 ? Math.max(column - HEAD.length, 1) : column };
}

const refuse = (name) => {
  throw new InvalidSource(`the module ${JSON.stringify(name)} is not there: only the language itself is`);
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
    throw new InvalidSource("there is no function evaluate; write: export function evaluate(ctx) { ... }");
  }
  return evaluate;
}
