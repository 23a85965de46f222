// The model: from messages to a reply, token by token.

import { getLlama, LlamaGrammarEvaluationState } from "node-llama-cpp";

import { RequestError } from "./request.js";
import { forGrammar } from "./schema.js";

const CONTEXT_TOKENS = 4096;

/** The conversation as a text to continue: the model is not tuned for chat. */
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
      throw new RequestError(`response_format: the schema cannot be converted to a grammar: ${error.message}`, "response_format");
    }
  }

  promptTokens(messages, limit) {
    // Names of special tokens in the messages are treated as text.
    const tokens = this.model.tokenize(promptOf(messages), false);
    const { bos, shouldPrependBosToken } = this.model.tokens;
    if (shouldPrependBosToken && bos !== null) tokens.unshift(bos);
    if (tokens.length + limit > CONTEXT_TOKENS) {
      throw new RequestError(`maximum context length is ${CONTEXT_TOKENS} tokens, got ${tokens.length} and a limit of ${limit}`, "messages");
    }
    return tokens;
  }

  /** The text that a token adds to the previous tokens; empty while the token is part of a character. */
  added(tokens, token, before) {
    const text = this.model.detokenize([...tokens, token]);
    return text.endsWith("\ufffd") ? "" : text.slice(before.length);
  }

  logprobsOf(tokens, token, before, { probabilities, confidence }, n) {
    const alternatives = [];
    for (const [other, probability] of probabilities ?? []) {
      if (alternatives.length === n || probability === 0) break;
      alternatives.push({ token: this.added(tokens, other, before), logprob: Math.log(probability) });
    }
    return { token: this.added(tokens, token, before), logprob: Math.log(confidence), top_logprobs: alternatives };
  }

  /**
   * One reply. It ends when the model ends it, when its JSON is complete, or at the limit. `signal` aborts the generation.
   */
  async complete(request, signal) {
    signal.throwIfAborted();
    const grammar = await this.grammarOf(request);
    const prompt = this.promptTokens(request.messages, request.limit);
    const { temperature, topP, seed, topLogprobs } = request;
    const options = { temperature, topP, seed };
    if (grammar) options.grammarEvaluationState = new LlamaGrammarEvaluationState({ model: this.model, grammar });
    const metadata = topLogprobs === undefined ? {} : { confidence: true, probabilities: topLogprobs > 0 };
    await this.sequence.clearHistory();
    const [tokens, output] = [[], []];
    let text = "";
    let isComplete = true;
    for await (const next of this.sequence.evaluateWithMetadata(prompt, metadata, options)) {
      signal.throwIfAborted();
      const { token } = next;
      output.push(topLogprobs === undefined ? token : this.logprobsOf(tokens, token, text, next, topLogprobs));
      text += this.added(tokens, token, text);
      tokens.push(token);
      if (grammar && isJson(text)) break;
      isComplete = tokens.length < request.limit;
      if (!isComplete) break;
    }
    return { text: text.trim(), tokens: output, promptTokens: prompt.length, isComplete };
  }
}

/** Loads a model file (GGUF). Texts in structured replies have at most `maxText` characters. */
export async function openModel(modelPath, maxText) {
  const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
  const model = await llama.loadModel({ modelPath });
  // One thread: on a busy machine several threads mostly wait for each other.
  const context = await model.createContext({ contextSize: CONTEXT_TOKENS, threads: 1 });
  return new Model(llama, model, context.getSequence(), maxText);
}
