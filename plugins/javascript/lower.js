// Rewrites `async` functions to generators that are driven by `Promise`.
//
// The engine does not run its job queue inside a call, so its promises do not settle; those of the SDK do (see
// settle-now.js). A bundle is rewritten when it is built; this module rewrites text at run time. Edits do not change
// line numbers, so that errors are reported with the line of the source.

import { parse } from "acorn";

/** The function that the rewritten text calls, a name that sources do not use. */
export const DRIVER = "__perpend_async";

/** An error for text that cannot be rewritten. */
export class Unsupported extends SyntaxError {
  constructor(message, loc) {
    super(message);
    this.loc = loc;
  }
}

/** Runs the body of a generator function like that of an `async function`. */
export function drive(self, args, body) {
  return new Promise((resolve, reject) => {
    const steps = body.apply(self, args);
    const step = (how, value) => {
      let next;
      try {
        next = steps[how](value);
      } catch (thrown) {
        reject(thrown);
        return;
      }
      if (next.done) resolve(next.value);
      else
        Promise.resolve(next.value).then(
          (given) => step("next", given),
          (reason) => step("throw", reason),
        );
    };
    step("next", undefined);
  });
}

const isMethod = ({ type, method }) => type === "MethodDefinition" || (type === "Property" && method);

const isNode = (value) => typeof value === "object" && value !== null && typeof value.type === "string";

class Rewriting {
  #code;
  #arrows;
  #asyncs;
  // At one position closings precede openings; closings are ordered from inner to outer, openings from outer to inner.
  #closings = [];
  #openings = [];
  #removed = [];

  constructor(code, tokens) {
    this.#code = code;
    this.#arrows = tokens.filter(({ type }) => type.label === "=>");
    this.#asyncs = tokens.filter(({ type, value }) => type.label === "name" && value === "async");
  }

  walk(node, method) {
    if (node.type === "ForOfStatement" && node.await) this.#refuse("for await", node);
    const isLowered = node.async === true;
    if (isLowered) this.#openFunction(node, method);
    if (node.type === "AwaitExpression") {
      this.#removed.push([node.start, node.start + "await".length]);
      this.#openings.push([node.start, "(yield ("]);
    }
    for (const [name, child] of Object.entries(node)) {
      if (isNode(child)) this.walk(child, name === "value" && isMethod(node) ? node : undefined);
      else if (Array.isArray(child)) child.filter(isNode).forEach((each) => this.walk(each));
    }
    if (node.type === "AwaitExpression") this.#closings.push([node.end, "))"]);
    if (isLowered) this.#closings.push(this.#endOf(node));
  }

  #refuse(what, { loc }) {
    throw new Unsupported(`${what} is not supported here`, loc?.start);
  }

  #openFunction(node, method) {
    if (node.generator) this.#refuse("an async generator", node);
    // In a method the keyword precedes its name, in other functions it is at the beginning.
    const from = method?.start ?? node.start;
    const word = this.#asyncs.find(({ start }) => start >= from);
    this.#removed.push([word.start, word.end]);
    const isArrow = node.type === "ArrowFunctionExpression";
    const call = `${DRIVER}(this, ${isArrow ? "[]" : "arguments"}, function* () {`;
    if (!isArrow || node.body.type === "BlockStatement") {
      this.#openings.push([node.body.start + 1, ` return ${call}`]);
      return;
    }
    const arrow = this.#arrows.findLast(({ end }) => end <= node.body.start);
    this.#openings.push([arrow.end, ` ${call} return (`]);
  }

  #endOf(node) {
    if (node.body.type === "BlockStatement") return [node.body.end - 1, "}); "];
    return [node.end, "); })"];
  }

  text() {
    const edits = [
      ...this.#removed.map(([at, to]) => ({ at, to, rank: 2, text: "" })),
      ...this.#closings.map(([at, text]) => ({ at, to: at, rank: 0, text })),
      ...this.#openings.map(([at, text]) => ({ at, to: at, rank: 1, text })),
    ].sort((one, other) => one.at - other.at || one.rank - other.rank);
    let rewritten = "";
    let done = 0;
    for (const { at, to, text } of edits) {
      rewritten += this.#code.slice(done, at) + text;
      done = to;
    }
    return rewritten + this.#code.slice(done);
  }
}

/** `code`, a script, without `async` and `await`. */
export function lowered(code) {
  const tokens = [];
  const tree = parse(code, { ecmaVersion: "latest", sourceType: "script", locations: true, onToken: tokens });
  const rewriting = new Rewriting(code, tokens);
  rewriting.walk(tree);
  return rewriting.text();
}
