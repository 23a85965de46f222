// The plug-in is the default export. The top level of this module runs once, while the component is built:
// compile regular expressions and build tables here.

import { boolean, defineEvaluator, definePlugin } from "./perpend/javascript/index.js";

/** Passes when the output has at most `maxWords` words. */
export const maxWords = defineEvaluator({
  id: "max-words",
  title: "Maximum number of words",
  description: "Passes when the output has at most `maxWords` words, separated by white space.",
  // JSON Schema: the server checks each configuration against it and fills in the defaults. The type of
  // `config` below is derived from it.
  config: {
    type: "object",
    properties: {
      maxWords: { type: "integer", minimum: 1, default: 20, description: "The maximum number of words that passes." },
    },
    additionalProperties: false,
  },
  // The parts of the item that the evaluator reads; others are not loaded.
  needs: ["output"],
  scores: { within_limit: boolean("The output has at most maxWords words.") },

  evaluate(item, config) {
    const words: number = item.text("output").split(/\s+/u).filter(Boolean).length;
    return { value: words <= config.maxWords, comment: `${words} of ${config.maxWords} words` };
  },
});

export default definePlugin({
  name: "example/{{name}}",
  version: "0.1.0",
  description: "Checks on the number of words",
  evaluators: [maxWords],
});
