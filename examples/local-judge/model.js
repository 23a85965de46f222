// The model: from messages to a reply, token by token.

import { getLlama, LlamaGrammarEvaluationState } from "node-llama-cpp";

import { Refused } from "./request.js";
import { forGrammar } from "./schema.js";

const CONTEXT_TOKENS = 4096;

/** The conversation as a text to go on with: the model was made to continue texts. */
function promptOf(messages) {
  const turns = messages.map(({ role, content }) => {
    const name = role === "developer" ? "system" : role;
    return `${name[0].toUpperCase()}${name.slice(1)}: ${content}`;
  });
  return [...turns, "Assistant:"].join("\n\n");
}

function isJson(text) {
  if (!text.trimEnd().endsWith("}")) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

class Model {
  constructor(llama, model, sequence, maxText) {
    Object.assign(this, { llama, model, sequence, maxText });
    this.name = model.fileInfo.metadata.general.name ?? "local";
  }

  async grammarOf({ schema, isJson: anyJson }) {
    if (anyJson) return this.llama.getGrammarFor("json");
    if (schema === undefined) return undefined;
    try {
      return await this.llama.createGrammarForJsonSchema(forGrammar(schema, this.maxText));
    } catch (error) {
      throw new Refused(`response_format: no grammar can be made of this schema: ${error.message}`, "response_format");
    }
  }

  promptTokens(messages, limit) {
    // Names of special tokens in what was judged stay text.
    const tokens = this.model.tokenize(promptOf(messages), false);
    const { bos, shouldPrependBosToken } = this.model.tokens;
    if (shouldPrependBosToken && bos !== null) tokens.unshift(bos);
    if (tokens.length + limit > CONTEXT_TOKENS) {
      throw new Refused(`maximum context length is ${CONTEXT_TOKENS} tokens, ${tokens.length} are given`, "messages");
    }
    return tokens;
  }

  /** The text that a token adds to those before it; empty while it is a part of a character. */
  added(tokens, token, said) {
    const text = this.model.detokenize([...tokens, token]);
    return text.endsWith("\ufffd") ? "" : text.slice(said.length);
  }

  logprobsOf(tokens, token, said, { probabilities, confidence }, n) {
    const alternatives = [];
    for (const [other, probability] of probabilities ?? []) {
      if (alternatives.length === n || probability === 0) break;
      alternatives.push({ token: this.added(tokens, other, said), logprob: Math.log(probability) });
    }
    return { token: this.added(tokens, token, said), logprob: Math.log(confidence), top_logprobs: alternatives };
  }

  /**
   * One reply. It ends where the model ends it, where its JSON is complete, or at the limit. For a caller that is gone, as
   * `signal` says, nothing is worked out.
   */
  async complete(asked, signal) {
    signal.throwIfAborted();
    const grammar = await this.grammarOf(asked);
    const prompt = this.promptTokens(asked.messages, asked.limit);
    const { temperature, topP, seed, topLogprobs } = asked;
    const options = { temperature, topP, seed };
    if (grammar) options.grammarEvaluationState = new LlamaGrammarEvaluationState({ model: this.model, grammar });
    const wanted = topLogprobs === undefined ? {} : { confidence: true, probabilities: topLogprobs > 0 };
    await this.sequence.clearHistory();
    const [tokens, shown] = [[], []];
    let text = "";
    let isComplete = true;
    for await (const next of this.sequence.evaluateWithMetadata(prompt, wanted, options)) {
      signal.throwIfAborted();
      const { token } = next;
      shown.push(topLogprobs === undefined ? token : this.logprobsOf(tokens, token, text, next, topLogprobs));
      text += this.added(tokens, token, text);
      tokens.push(token);
      if (grammar && isJson(text)) break;
      isComplete = tokens.length < asked.limit;
      if (!isComplete) break;
    }
    return { text: text.trim(), tokens: shown, promptTokens: prompt.length, isComplete };
  }
}

/** Loads a model file (GGUF). A text in its replies has at most `maxText` characters. */
export async function openModel(modelPath, maxText) {
  const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
  const model = await llama.loadModel({ modelPath });
  // One thread: on a busy machine several wait for each other longer than they work.
  const context = await model.createContext({ contextSize: CONTEXT_TOKENS, threads: 1 });
  return new Model(llama, model, context.getSequence(), maxText);
}
