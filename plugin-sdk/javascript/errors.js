// What an evaluator throws when it cannot give a score. Anything else that is thrown is a fault of the
// evaluator itself (`internal`).

/** Why there is no score. The kind decides what the server does next; the text is for people. */
export class EvalError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
    this.name = new.target.name;
  }
}

/** The configuration passed its schema and still cannot be used. */
export class InvalidConfig extends EvalError {
  constructor(message) {
    super("invalid-config", message);
  }
}

/** A part of the item that is needed is absent or has a wrong shape. */
export class InvalidInput extends EvalError {
  constructor(message) {
    super("invalid-input", message);
  }
}

/** There is nothing to measure for this item: recorded as skipped, never as zero. */
export class NotApplicable extends EvalError {
  constructor(message) {
    super("not-applicable", message);
  }
}

/** A call to the host failed and the evaluator cannot go on without it. */
export class Upstream extends EvalError {
  constructor(message) {
    super("upstream", message);
  }
}

/** Another attempt may work. */
export class Transient extends EvalError {
  constructor(message) {
    super("transient", message);
  }
}

/** A model call failed. `reason` is the case, such as `rate-limited`, `detail` what was said. Uncaught it becomes `upstream`. */
export class ModelError extends Upstream {
  constructor(reason, detail) {
    super(detail ? `model: ${reason}: ${detail}` : `model: ${reason}`);
    this.reason = reason;
    this.detail = detail ?? "";
  }
}

/** A piece of the trace could not be read. Uncaught it becomes `upstream`. */
export class TraceError extends Upstream {
  constructor(reason, detail) {
    super(detail ? `trace: ${reason}: ${detail}` : `trace: ${reason}`);
    this.reason = reason;
    this.detail = detail ?? "";
  }
}

/** A thrown value in the shape of the contract's `eval-error`. */
export function asEvalError(thrown) {
  if (thrown instanceof EvalError) {
    return { tag: thrown.kind, val: String(thrown.message) };
  }
  if (!(thrown instanceof Error)) {
    return { tag: "internal", val: `thrown: ${String(thrown)}` };
  }
  const place = String(thrown.stack ?? "")
    .split("\n")
    .map((line) => line.trim())
    .find((line) => line.startsWith("at "));
  const text = `${thrown.name}: ${thrown.message}`;
  return { tag: "internal", val: place ? `${text} (${place})` : text };
}
