// `perpend/javascript`: an evaluator whose source is its configuration.

import { defineEvaluator, definePlugin, EvalError, InvalidConfig, InvalidInput } from "../../plugin-sdk/javascript/index.js";

import { contextOf, exceeds, Failure, scoresOf } from "./contract.js";
import { evaluateOf, InvalidSource, place } from "./source.js";

const MAX_SOURCE_BYTES = 256 << 10;
const MAX_PAYLOAD_BYTES = 5_500_000;
const LANGUAGES = ["javascript", "typescript"];

const at = ({ line, column }) => {
  if (line === undefined) return "";
  return column === undefined ? ` (line ${line})` : ` (line ${line}, column ${column})`;
};

/** The failure of an invalid source, or `undefined`. */
function failureOf({ source, language }) {
  if (exceeds(source, MAX_SOURCE_BYTES)) {
    return new Failure("SOURCE_TOO_LARGE", `the source must have at most ${MAX_SOURCE_BYTES >> 10} KB`);
  }
  try {
    evaluateOf(source, language);
  } catch (thrown) {
    return refused(thrown);
  }
  return undefined;
}

function refused(thrown) {
  if (thrown instanceof Failure) return thrown;
  if (thrown instanceof InvalidSource) return new Failure("INVALID_SOURCE", `${thrown.message}${at(thrown)}`);
  return userError(thrown);
}

function userError(thrown) {
  const text = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : `thrown: ${String(thrown)}`;
  return new Failure("USER_CODE_ERROR", `${text}${at(place(thrown))}`);
}

function prepared(item, { source, language }) {
  if (exceeds(source, MAX_SOURCE_BYTES)) {
    throw new InvalidConfig(`SOURCE_TOO_LARGE: the source must have at most ${MAX_SOURCE_BYTES >> 10} KB`);
  }
  const parts = ["input", "output", "expectedOutput"].map((part) => item.raw(part)?.val ?? "");
  if (parts.some((part) => exceeds(part, MAX_PAYLOAD_BYTES))) {
    throw new InvalidInput(`PAYLOAD_TOO_LARGE: a part of the item must have at most ${MAX_PAYLOAD_BYTES / 1e6} MB`);
  }
  try {
    return evaluateOf(source, language);
  } catch (thrown) {
    const { message, code } = refused(thrown);
    throw code === "INVALID_SOURCE" ? new InvalidConfig(message) : new EvalError("internal", message);
  }
}

const code = defineEvaluator({
  id: "code",
  title: "JavaScript or TypeScript source",
  description:
    "Runs `evaluate(ctx)` of the source. `ctx.observation` has input, output, metadata and toolCalls; in an " +
    "experiment `ctx.experiment` has itemExpectedOutput and itemMetadata. It returns " +
    "{ scores: [{ name, value, dataType?, comment?, configId?, metadata? }] } and may be async.",
  config: {
    type: "object",
    properties: {
      source: { type: "string", minLength: 1, description: "A module with `export function evaluate(ctx)`." },
      language: { enum: LANGUAGES, default: "javascript", description: "The language of the source. Types of TypeScript are removed." },
    },
    required: ["source"],
    additionalProperties: false,
  },
  needs: ["input", "output", "expectedOutput", "metadata"],
  dynamicScores: true,

  checkConfig(config) {
    const found = failureOf(config);
    return found ? [{ pointer: "/source", message: found.message }] : [];
  },

  async evaluate(item, config) {
    const evaluate = prepared(item, config);
    let returned;
    try {
      returned = await evaluate(contextOf(item));
    } catch (thrown) {
      throw new EvalError("internal", userError(thrown).message);
    }
    try {
      return scoresOf(returned);
    } catch (thrown) {
      throw thrown instanceof Failure ? new EvalError("internal", thrown.message) : thrown;
    }
  },
});

export default definePlugin({
  name: "perpend/javascript",
  version: "0.1.0",
  description: "Evaluators in JavaScript or TypeScript, as source text.",
  evaluators: [code],
});
