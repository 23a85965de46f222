// The plug-in: its default export says what it offers. Whatever this module does when it is loaded is done
// once, while building; compile regular expressions and build tables here.

import { boolean, defineEvaluator, definePlugin } from "./perpend/javascript/index.js";

/** Passes when the output has at most `maxWords` words. */
export const maxWords = defineEvaluator({
  id: "max-words",
  title: "At most so many words",
  description: "Passes when the output has no more words than allowed. Words are separated by white space.",
  // JSON Schema: the server checks each configuration against it and fills in the defaults.
  config: {
    type: "object",
    properties: {
      maxWords: { type: "integer", minimum: 1, default: 20, description: "Words that are allowed." },
    },
    additionalProperties: false,
  },
  // Parts of an item that are read; others are not loaded.
  needs: ["output"],
  scores: { within_limit: boolean("The output has at most maxWords words.") },

  evaluate(item, config) {
    const words = item.text("output").split(/\s+/u).filter(Boolean).length;
    return { value: words <= config.maxWords, comment: `${words} of ${config.maxWords} words` };
  },
});

export default definePlugin({
  name: "example/{{name}}",
  version: "0.1.0",
  description: "What this plug-in is for, in a sentence or two.",
  evaluators: [maxWords],
});
