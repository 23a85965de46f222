// `perpend/autoevals-js`: the scorers of the npm package autoevals, under their own names.
//
// The package is bundled as published, with its client for models replaced (openai.js). This module defines the parts of
// the item that each scorer reads, and the conversion of its result to a score.

import * as autoevals from "autoevals";

import {
  defineEvaluator,
  definePlugin,
  InvalidConfig,
  InvalidInput,
  NotApplicable,
  share,
  Upstream,
} from "../../plugin-sdk/javascript/index.js";

import { setHost, client } from "./openai.js";
import { AUTOEVALS, VERSION } from "./version.js";

autoevals.init({ client, defaultModel: { completion: "slot", embedding: "slot" } });

const text = (description, more) => ({ type: "string", description, ...more });
const number = (description, more) => ({ type: "number", description, ...more });
const flag = (description, fallback) => ({ type: "boolean", description, default: fallback });

const CHAT = { judge: { description: "Judges the answer.", kind: "chat" } };
const EMBEDDING = { embedding: { description: "Computes the vectors of texts.", kind: "embedding" } };

const JUDGE = {
  useCoT: flag("Request the reasons before the choice.", true),
  temperature: number("The sampling temperature.", { minimum: 0, maximum: 2 }),
  maxTokens: { type: "integer", minimum: 1, description: "The maximum number of tokens of an answer." },
};
const RAG = { temperature: JUDGE.temperature, maxTokens: JUDGE.maxTokens };
const CONTEXT = {
  context: {
    anyOf: [{ type: "string" }, { type: "array", items: { type: "string" } }],
    description: "The context of the answer. Default: `context` of the item's metadata.",
  },
};
const EXPECTED_MIN = number("Cosines up to this value score 0.", { default: 0.7, minimum: -1, exclusiveMaximum: 1 });

// id, name in the library, description, options.
const SCORERS = [
  ["levenshtein", "Levenshtein", "One minus the edit distance of output and expected output over the longer length."],
  ["exact-match", "ExactMatch", "Output and expected output are equal; objects are compared as JSON."],
  ["numeric-diff", "NumericDiff", "The closeness of the number in the output to the expected one."],
  ["json-diff", "JSONDiff", "The similarity of two JSON values, by members.", {
    config: { preserveStrings: flag("Compare texts that are JSON as texts.", false) },
  }],
  ["valid-json", "ValidJSON", "The output is JSON and satisfies the schema, if any.", {
    needs: ["output"],
    config: { schema: { type: "object", description: "JSON Schema of the output." } },
  }],
  ["list-contains", "ListContains", "The similarity of two lists by the best pairing of their items.", {
    config: {
      allowExtraEntities: flag("Ignore items of the output without a counterpart.", false),
      pairwiseScorer: {
        enum: ["Levenshtein", "EmbeddingSimilarity"],
        default: "Levenshtein",
        description: "The scorer that compares two items.",
      },
    },
    slots: { embedding: { ...EMBEDDING.embedding, required: false } },
  }],
  ["embedding-similarity", "EmbeddingSimilarity", "The semantic similarity of output and expected output.", {
    config: { prefix: text("A prefix of both texts, such as the name of their field."), expectedMin: EXPECTED_MIN },
    slots: EMBEDDING,
  }],
  ["factuality", "Factuality", "Whether the output agrees with the expected one in its facts.", {
    needs: ["input", "output", "expectedOutput"],
    config: JUDGE,
    slots: CHAT,
  }],
  ["closed-qa", "ClosedQA", "Whether the output answers the input according to a criterion.", {
    needs: ["input", "output"],
    config: { criteria: text("The criterion of a good answer."), ...JUDGE },
    required: ["criteria"],
    slots: CHAT,
  }],
  ["battle", "Battle", "Whether the output follows the instructions better than the expected one.", {
    needs: ["input", "output", "expectedOutput"],
    config: { instructions: text("The instructions. Default: the input of the item."), ...JUDGE },
    slots: CHAT,
    args: ({ instructions }, item) => ({ instructions: instructions ?? item.text("input") }),
  }],
  ["humor", "Humor", "Whether the output is funny.", { needs: ["output"], config: JUDGE, slots: CHAT }],
  ["possible", "Possible", "Whether the output is a possible solution to the input.", {
    needs: ["input", "output"],
    config: JUDGE,
    slots: CHAT,
  }],
  ["security", "Security", "Whether the output is malicious.", { needs: ["output"], config: JUDGE, slots: CHAT }],
  ["sql", "Sql", "Whether two SQL queries are equivalent.", {
    needs: ["input", "output", "expectedOutput"],
    config: JUDGE,
    slots: CHAT,
  }],
  ["summary", "Summary", "Whether the output is a better summary of the input than the expected one.", {
    needs: ["input", "output", "expectedOutput"],
    config: JUDGE,
    slots: CHAT,
  }],
  ["translation", "Translation", "Whether the output translates the input as well as the expected one.", {
    needs: ["input", "output", "expectedOutput"],
    config: { language: text("Language of the input."), ...JUDGE },
    required: ["language"],
    slots: CHAT,
  }],
  ["faithfulness", "Faithfulness", "The share of the output's statements that the context supports.", {
    needs: ["input", "output", "metadata"],
    config: { ...CONTEXT, ...RAG },
    slots: CHAT,
  }],
  ["context-precision", "ContextPrecision", "Whether the context was useful for the expected output.", {
    needs: ["input", "output", "expectedOutput", "metadata"],
    config: { ...CONTEXT, ...RAG },
    slots: CHAT,
  }],
  ["context-recall", "ContextRecall", "The share of the expected output's sentences that the context supports.", {
    needs: ["input", "output", "expectedOutput", "metadata"],
    config: { ...CONTEXT, ...RAG },
    slots: CHAT,
  }],
  ["context-relevancy", "ContextRelevancy", "The share of the context that the input asks for.", {
    needs: ["input", "output", "metadata"],
    config: { ...CONTEXT, ...RAG },
    slots: CHAT,
  }],
  ["context-entity-recall", "ContextEntityRecall", "How many things named in the expected output the context names.", {
    needs: ["output", "expectedOutput", "metadata"],
    config: { ...CONTEXT, ...RAG },
    slots: { ...CHAT, ...EMBEDDING },
  }],
  ["answer-relevancy", "AnswerRelevancy", "The similarity of the input to questions that the output would answer.", {
    needs: ["input", "output", "metadata"],
    config: {
      ...CONTEXT,
      strictness: { type: "integer", minimum: 1, maximum: 16, default: 3, description: "The number of generated questions." },
      ...RAG,
    },
    slots: { ...CHAT, ...EMBEDDING },
  }],
  ["answer-similarity", "AnswerSimilarity", "The semantic similarity of output and expected output, unscaled.", {
    slots: EMBEDDING,
  }],
  ["answer-correctness", "AnswerCorrectness", "Facts shared with the expected output, and semantic similarity.", {
    needs: ["input", "output", "expectedOutput"],
    config: {
      factualityWeight: number("Weight of the facts.", { default: 0.75, minimum: 0 }),
      answerSimilarityWeight: number("Weight of the similarity.", { default: 0.25, minimum: 0 }),
      ...RAG,
    },
    slots: { ...CHAT, ...EMBEDDING },
  }],
];

/** The arguments of a scorer: the item, and the configuration with the names of the library. */
function argsOf(item, config, { needs, args }) {
  const given = { ...config, ...args?.(config, item), output: item.output };
  if (needs.includes("input")) given.input = item.input;
  // Absent is different from null: some scorers compare with null.
  if (item.has("expectedOutput")) given.expected = item.expectedOutput;
  if (needs.includes("metadata")) given.context ??= item.metadata.context;
  if (given.pairwiseScorer) given.pairwiseScorer = autoevals[given.pairwiseScorer];
  return given;
}

/** The errors of the library as errors of the contract. */
function failed(name, thrown) {
  if (thrown instanceof Upstream || !(thrown instanceof Error)) return thrown;
  const message = `${name}: ${thrown.message}`;
  if (/requires?\b|missing/i.test(thrown.message)) return new InvalidInput(message);
  if (/weights? must|must be nonzero/i.test(thrown.message)) return new InvalidConfig(message);
  if (/choice|tool call|Empty response/i.test(thrown.message) || thrown.name === "ZodError") {
    return new Upstream(`${name}: invalid answer of the model: ${thrown.message}`);
  }
  return new InvalidInput(message);
}

function scoreOf(name, result) {
  if (result.score === null || result.score === undefined) {
    throw new NotApplicable(`${name} has nothing to measure`);
  }
  if (!Number.isFinite(result.score)) throw new InvalidInput(`${name} returned no number for this item`);
  const { rationale } = result.metadata ?? {};
  return {
    name,
    // The rounding error of a sum can exceed the range.
    value: Math.min(Math.max(Number(result.score), 0), 1),
    comment: Array.isArray(rationale) ? rationale.join("\n") : rationale,
    metadata: result.metadata,
  };
}

async function scored(name, scorer, args, ctx, slots) {
  if (slots) setHost(ctx);
  let result;
  try {
    result = await scorer(args);
  } catch (thrown) {
    throw failed(name, thrown);
  }
  return [scoreOf(name, result)];
}

function evaluator([id, name, description, options = {}]) {
  const { needs = ["output", "expectedOutput"], config = {}, required = [], slots } = options;
  return defineEvaluator({
    id,
    title: name,
    description: `${description} The scorer ${name} of autoevals ${AUTOEVALS} for JavaScript.`,
    config: { type: "object", properties: config, required, additionalProperties: false },
    needs,
    slots,
    scores: { [name]: share(description) },
    deterministic: true,
    async evaluate(item, given, ctx) {
      item.required("output");
      return scored(name, autoevals[name], argsOf(item, given, { ...options, needs }), ctx, slots);
    },
  });
}

const classifier = defineEvaluator({
  id: "llm-classifier",
  title: "LLMClassifier",
  description: `A judge with a configurable prompt and choices: LLMClassifierFromTemplate of autoevals ${AUTOEVALS}.`,
  config: {
    type: "object",
    properties: {
      name: text("The name of the score.", { default: "LLMClassifier", minLength: 1, maxLength: 100 }),
      promptTemplate: text("The prompt; {{input}}, {{output}} and {{expected}} insert parts of the item."),
      choiceScores: {
        type: "object",
        minProperties: 1,
        additionalProperties: number("From 0 to 1.", { minimum: 0, maximum: 1 }),
        description: "The score of each choice.",
      },
      ...JUDGE,
    },
    required: ["promptTemplate", "choiceScores"],
    additionalProperties: false,
  },
  needs: ["input", "output", "expectedOutput", "metadata"],
  slots: CHAT,
  dynamicScores: true,
  async evaluate(item, { name, promptTemplate, choiceScores, ...config }, ctx) {
    item.required("output");
    const scorer = autoevals.LLMClassifierFromTemplate({ name, promptTemplate, choiceScores });
    const args = { ...config, metadata: item.metadata, input: item.input, output: item.output };
    if (item.has("expectedOutput")) args.expected = item.expectedOutput;
    return scored(name, scorer, args, ctx, CHAT);
  },
});

export default definePlugin({
  name: "perpend/autoevals-js",
  version: VERSION,
  description: `The scorers of the npm package autoevals ${AUTOEVALS}, under their own names. Moderation is not included: the host offers no moderation.`,
  evaluators: [...SCORERS.map(evaluator), classifier],
});
