// The SDK for Perpend plug-ins: `export default definePlugin({ ..., evaluators: [defineEvaluator({ ... })] })`.

export { boolean, category, defineEvaluator, definePlugin, numeric, share } from "./define.js";
export {
  EvalError,
  InvalidConfig,
  InvalidInput,
  ModelError,
  NotApplicable,
  TraceError,
  Transient,
  Upstream,
} from "./errors.js";
