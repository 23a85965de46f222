// A judge in TypeScript, for tests/guests/tests/server.rs.

import { defineEvaluator, definePlugin, share } from "./perpend/javascript/index.js";

/** The structure of the reply. */
interface Vote {
  reason: string;
  answered: boolean;
}

const answered = defineEvaluator({
  id: "answered",
  config: { type: "object", properties: { votes: { type: "integer", minimum: 1, default: 2 } } },
  needs: ["input", "output"],
  slots: { judge: { description: "Judges the answer." } },
  scores: { answered: share() },
  async evaluate(item, config, ctx) {
    const schema = {
      type: "object",
      properties: { reason: { type: "string" }, answered: { type: "boolean" } },
      required: ["reason", "answered"],
      additionalProperties: false,
    };
    const prompt = `Question:\n${item.text("input")}\n\nAnswer:\n${item.text("output")}`;
    // Each vote is another question, or the cache would answer.
    const questions = Array.from({ length: config.votes }, (_, seed) => ({ prompt, schema, seed }));
    const votes = ctx.model.completeAll(questions).map((answer) => {
      if (answer.status === "rejected") throw answer.reason;
      return answer.value.structured as Vote;
    });
    const n_yes = votes.filter((vote) => vote.answered).length;
    return { value: n_yes / votes.length, comment: votes.map((vote) => vote.reason).join("\n") };
  },
});

export default definePlugin({
  name: "acme/typed-judge",
  version: "1.2.3",
  description: "Judges by models.",
  evaluators: [answered],
});
