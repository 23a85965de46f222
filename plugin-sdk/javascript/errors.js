// The errors of evaluators. Any other thrown value is an error of the evaluator itself (`internal`).

/** The reason why there is no score. The kind determines how the host continues; the text is shown to users. */
export class EvalError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
    this.name = new.target.name;
  }
}

/** The configuration satisfies its schema and is invalid nevertheless. */
export class InvalidConfig extends EvalError {
  constructor(message) {
    super("invalid-config", message);
  }
}

/** A needed part of the item is absent or has an invalid shape. */
export class InvalidInput extends EvalError {
  constructor(message) {
    super("invalid-input", message);
  }
}

/** There is nothing to measure for this item: recorded as skipped, not as 0. */
export class NotApplicable extends EvalError {
  constructor(message) {
    super("not-applicable", message);
  }
}

/** A call to the host failed and the evaluator cannot continue without it. */
export class Upstream extends EvalError {
  constructor(message) {
    super("upstream", message);
  }
}

/** A transient failure: another attempt may succeed. */
export class Transient extends EvalError {
  constructor(message) {
    super("transient", message);
  }
}

/** A model call failed. `reason` is the case, such as `rate-limited`, `detail` the message. If not caught, it becomes `upstream`. */
export class ModelError extends Upstream {
  constructor(reason, detail) {
    super(detail ? `model: ${reason}: ${detail}` : `model: ${reason}`);
    this.reason = reason;
    this.detail = detail ?? "";
  }
}

/** A part of the trace could not be read. If not caught, it becomes `upstream`. */
export class TraceError extends Upstream {
  constructor(reason, detail) {
    super(detail ? `trace: ${reason}: ${detail}` : `trace: ${reason}`);
    this.reason = reason;
    this.detail = detail ?? "";
  }
}

/** A thrown value as `eval-error` of the contract. */
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
